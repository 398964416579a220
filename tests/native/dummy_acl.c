/* A library that stands for a part of CANN in the loader's tests. What it holds depends on the macros that the
 * build sets:
 *   DUMMY_NAME      aclrtGetSocName answers it, so that a test sees which library serves
 *   DUMMY_RUNTIME   all functions that the loader requires, or, with DUMMY_LACKS_MALLOC, all but aclrtMalloc
 *   DUMMY_BASE      aclCreateTensor
 *   DUMMY_ADD, DUMMY_ABS, DUMMY_SIN   what aclnnAdd, aclnnAbs, aclnnSin return
 *   DUMMY_HIDES     aiocann_sim_hidden: aclnnAbs is to be taken as absent
 *   DUMMY_NEEDS     a function of another library that this one depends on
 */
#ifdef DUMMY_RUNTIME
#define aclrtGetSocName dummy_soc_name
#ifdef DUMMY_LACKS_MALLOC
#define aclrtMalloc dummy_malloc
#endif
#define ACL_REQUIRED_SYMBOL(name, since) \
  int name(void);                        \
  int name(void) { return 0; }
#define ACL_SYMBOL(name, since)
#include "acl_symbols.inc"
#undef aclrtGetSocName
const char *aclrtGetSocName(void);
const char *aclrtGetSocName(void) { return DUMMY_NAME; }
#endif

#ifdef DUMMY_BASE
void *aclCreateTensor(void);
void *aclCreateTensor(void) { return 0; }
#endif

#ifdef DUMMY_ADD
int aclnnAdd(void);
int aclnnAdd(void) { return DUMMY_ADD; }
#endif
#ifdef DUMMY_ABS
int aclnnAbs(void);
int aclnnAbs(void) { return DUMMY_ABS; }
#endif
#ifdef DUMMY_SIN
int aclnnSin(void);
int aclnnSin(void) { return DUMMY_SIN; }
#endif

#ifdef DUMMY_HIDES
#include <string.h>
int aiocann_sim_hidden(const char *name);
int aiocann_sim_hidden(const char *name) { return strcmp(name, "aclnnAbs") == 0; }
#endif

#ifdef DUMMY_NEEDS
int aiocann_dummy_dependency(void);
int dummy_needs(void);
int dummy_needs(void) { return aiocann_dummy_dependency(); }
#endif
#ifdef DUMMY_DEPENDENCY
int aiocann_dummy_dependency(void);
int aiocann_dummy_dependency(void) { return 0; }
#endif
