// Operators of one tensor, as programs that nobody has seen might call them: any dtype, shape and layout, and missing
// arguments. What is wrong is refused with its code; what is accepted runs, and stays within its output.
#include <cstdlib>
#include <iterator>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

using Plans = aclnnStatus (*)(const aclTensor *, aclTensor *, uint64_t *, aclOpExecutor **);
struct Operator {
  const char *name;
  Plans plan;
  Run run;
};
const Operator kOperators[] = {
    {"aclnnAbs", aclnnAbsGetWorkspaceSize, aclnnAbs},
    {"aclnnExp", aclnnExpGetWorkspaceSize, aclnnExp},
    {"aclnnGelu", aclnnGeluGetWorkspaceSize, aclnnGelu},
    {"aclnnHardsigmoid", aclnnHardsigmoidGetWorkspaceSize, aclnnHardsigmoid},
    {"aclnnLog", aclnnLogGetWorkspaceSize, aclnnLog},
    {"aclnnNeg", aclnnNegGetWorkspaceSize, aclnnNeg},
    {"aclnnSigmoid", aclnnSigmoidGetWorkspaceSize, aclnnSigmoid},
    {"aclnnSilu", aclnnSiluGetWorkspaceSize, aclnnSilu},
    {"aclnnSin", aclnnSinGetWorkspaceSize, aclnnSin},
    {"aclnnTanh", aclnnTanhGetWorkspaceSize, aclnnTanh},
};
const aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8, ACL_INT16,
                              ACL_INT32, ACL_INT64,   ACL_UINT8, ACL_UINT16, ACL_BOOL, ACL_UINT32};

Dims some_shape() {
  Dims shape(static_cast<size_t>(pick(0, 9)));
  for (int64_t &extent : shape) extent = pick(0, 12) == 0 ? 0 : pick(1, shape.size() > 4 ? 2 : 9);
  return shape;
}

aclDataType some_type() {
  return pick(0, 1) == 0 ? kTypes[pick(0, 2)] : kTypes[pick(0, std::size(kTypes) - 1)];
}

/// What became of a call: 0 where it was accepted and has run.
aclnnStatus call(const Operator &op) {
  const Dims shape = some_shape();
  const aclDataType dtype = some_type();
  Tensor self(shape, dtype, Layout::kRandom);
  const bool other_shape = pick(0, 5) == 0;
  Dims wanted = shape;
  if (other_shape) wanted.push_back(2);
  Tensor out(wanted, pick(0, 3) == 0 ? some_type() : dtype, Layout::kRandom);
  if (dtype != ACL_BOOL) self.random(0, 3);
  const bool has_self = pick(0, 9) != 0, has_out = pick(0, 9) != 0;
  const bool has_size = pick(0, 19) != 0, has_executor = pick(0, 19) != 0;
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  const aclnnStatus status =
      op.plan(has_self ? self.get() : nullptr, has_out ? out.get() : nullptr,
              has_size ? &size : nullptr, has_executor ? &executor : nullptr);
  if (!has_self || !has_out || !has_size || !has_executor) {
    CHECK_EQ(status, ACLNN_ERR_PARAM_NULLPTR);
  } else if (other_shape || shape.size() > 8) {
    CHECK_EQ(status, ACLNN_ERR_PARAM_INVALID);
  }
  if (status != ACLNN_SUCCESS) {
    CHECK(status == ACLNN_ERR_PARAM_NULLPTR || status == ACLNN_ERR_PARAM_INVALID);
    CHECK(executor == nullptr);
    const char *message = aclGetRecentErrMsg();
    CHECK(message != nullptr);
    CHECK_CONTAINS(std::string(message), op.name);
    return status;
  }
  void *workspace = nullptr;
  if (size != 0) CHECK_OK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK_OK(op.run(workspace, size, executor, session().stream));
  CHECK_OK(aclrtSynchronizeStream(session().stream));
  if (workspace != nullptr) CHECK_OK(aclrtFree(workspace));
  out.read();  // looks at the bytes around it
  self.read();
  return status;
}

}  // namespace

int main() {
  const char *given = std::getenv("AIOCANN_UNSEEN_CALLS");
  const int calls = given == nullptr ? 2000 : std::atoi(given);
  int accepted = 0, refused = 0;
  for (int i = 0; i < calls; ++i) {
    const bool good = call(kOperators[pick(0, std::size(kOperators) - 1)]) == ACLNN_SUCCESS;
    ++(good ? accepted : refused);
  }
  CHECK(accepted > calls / 10);
  CHECK(refused > calls / 10);
  return 0;
}
