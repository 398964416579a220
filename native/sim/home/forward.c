/* One of CANN's libraries as the simulator plays it: every function jumps to the simulator's of the same name.
 *
 * One library, the simulator, holds all state; these only give its functions CANN's library names, each with a
 * SONAME of its own. AIOCANN_FORWARD names the list of functions. `aiocann sim-home` writes the simulator's path
 * into a copy of this library: an absolute one, so that whoever loads it, from wherever, gets the one machine
 * of the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#define FORWARD_PATH_MARK "@aiocann-simulator@"
#define FORWARD_CANN_MARK "@aiocann-cann@"

/* Filled in by sim-home; as long as they can get. Volatile: the compiler must not think that it knows them. */
static volatile char simulator_path[4096] = FORWARD_PATH_MARK;
static volatile char cann_version[64] = FORWARD_CANN_MARK;

/* What is called where the simulator could not be loaded: an answer, not a crash. */
static int32_t __attribute__((used)) absent_code(void) {
  return 500000; /* ACL_ERROR_INTERNAL_ERROR */
}
static void *__attribute__((used)) absent_nothing(void) { return NULL; }

#if defined(__x86_64__)
#define JUMP(name) "endbr64\n  jmp *slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) \
  "hint #34\n  adrp x16, slot_" #name "\n  ldr x16, [x16, :lo12:slot_" #name "]\n  br x16\n"
#else
#error "aiocann knows x86-64 and aarch64"
#endif

/* Arguments and results stay where the caller put them, whatever the signature. */
#define FORWARD(name, kind)                                                         \
  static void *slot_##name __attribute__((used)) = (void *)absent_##kind;           \
  __asm__(".text\n.globl " #name "\n.type " #name ", %function\n.p2align 4\n" #name \
          ":\n  " JUMP(name) ".size " #name ", .-" #name "\n");
#include AIOCANN_FORWARD
/* Our own loader asks each library what the CANN that is played does not have. */
FORWARD(aiocann_sim_hidden, nothing)
#undef FORWARD

static const struct {
  const char *name;
  void **slot;
} kSlots[] = {
#define FORWARD(name, kind) {#name, &slot_##name},
#include AIOCANN_FORWARD
    FORWARD(aiocann_sim_hidden, nothing)
#undef FORWARD
};

__attribute__((constructor)) static void connect(void) {
  const char *path = (const char *)simulator_path;
  const char *version = (const char *)cann_version;
  void *simulator = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (simulator == NULL) {
    fprintf(stderr,
            "aiocann: the simulator behind this CANN folder is gone (%s): run `aiocann sim-home` "
            "again\n",
            dlerror());
    return;
  }
  for (size_t i = 0; i < sizeof(kSlots) / sizeof(kSlots[0]); ++i) {
    void *address = dlsym(simulator, kSlots[i].name);
    if (address != NULL) *kSlots[i].slot = address;
  }
  int32_t (*play)(const char *) =
      (int32_t (*)(const char *))dlsym(simulator, "aiocann_sim_play_cann");
  if (play != NULL && version[0] != FORWARD_CANN_MARK[0]) play(version);
}
