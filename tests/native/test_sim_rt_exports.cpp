// Every function of the tables is there to be linked with; what the simulator does not have says so and names itself.
#include <cstdio>
#include <cstring>

#include "sim_rt.hpp"

namespace {

struct Function {
  const char *name;
  void (*address)();
};
const Function kFunctions[] = {
#define ACL_SYMBOL(name, since) {#name, reinterpret_cast<void (*)()>(&::name)},
#define ACLNN_SYMBOL(name) {#name, reinterpret_cast<void (*)()>(&::name)},
#include "acl_symbols.inc"
};

void everything_links() {
  for (const Function &function : kFunctions) CHECK(function.address != nullptr);
  CHECK(sizeof kFunctions / sizeof kFunctions[0] > 600);
}

void nothing_pretends_to_succeed() {
  aclrtBinHandle binary = nullptr;
  CHECK_CODE(aclrtBinaryLoadFromFile("kernel.o", nullptr, &binary), ACL_ERROR_API_NOT_SUPPORT);
  CHECK_CONTAINS(recent(), "aclrtBinaryLoadFromFile is not supported");
  CHECK(aclrtCreateBinary("x", 1) == nullptr);
  CHECK_CONTAINS(recent(), "aclrtCreateBinary");
  CHECK_OK(aiocann_sim_inject("call", "aclrtBinaryUnLoad", 1, 507000));
  CHECK_CODE(aclrtBinaryUnLoad(binary), 507000);
  CHECK_CODE(aclrtBinaryUnLoad(binary), ACL_ERROR_API_NOT_SUPPORT);
}

void every_operator_has_a_kernel() {
  for (const Function &function : kFunctions) {
    if (std::strncmp(function.name, "aclnn", 5) != 0) continue;
    if (aiocann_sim_hidden(function.name) != 0) std::fprintf(stderr, "%s\n", function.name);
    CHECK_EQ(aiocann_sim_hidden(function.name), 0);
  }
}

void the_loader_is_told() {
  CHECK_EQ(aiocann_sim_hidden("aclrtBinaryUnLoad"), 1);
  CHECK_EQ(aiocann_sim_hidden("aclnnAdd"), 0);
}

}  // namespace

int main() {
  everything_links();
  nothing_pretends_to_succeed();
  every_operator_has_a_kernel();
  the_loader_is_told();
  return 0;
}
