// Tensors, arrays, scalars, lists; executors: one-shot, repeatable, with new addresses.
#include <cstring>

#include "nn_fixture.hpp"

using namespace nn;

namespace {

void tensors() {
  const int64_t dims[] = {2, 3, 4}, strides[] = {24, 4, 1}, storage[] = {48};
  int data = 0;
  aclTensor *tensor =
      aclCreateTensor(dims, 3, ACL_FLOAT16, strides, 5, ACL_FORMAT_NCHW, storage, 1, &data);
  int64_t *values = nullptr;
  uint64_t n = 0;
  CHECK_OK(aclGetViewShape(tensor, &values, &n));
  CHECK_EQ(n, 3);
  CHECK(std::memcmp(values, dims, sizeof dims) == 0);
  delete[] values;  // the caller's own
  CHECK_OK(aclGetViewStrides(tensor, &values, &n));
  CHECK_EQ(n, 3);
  CHECK(std::memcmp(values, strides, sizeof strides) == 0);
  delete[] values;
  CHECK_OK(aclGetStorageShape(tensor, &values, &n));
  CHECK_EQ(n, 1);
  CHECK_EQ(values[0], 48);
  delete[] values;
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  aclDataType dtype = ACL_DT_UNDEFINED;
  void *address = nullptr;
  CHECK_OK(aclGetViewOffset(tensor, &offset));
  CHECK_OK(aclGetFormat(tensor, &format));
  CHECK_OK(aclGetDataType(tensor, &dtype));
  CHECK_OK(aclGetRawTensorAddr(tensor, &address));
  CHECK_EQ(offset, 5);
  CHECK_EQ(format, ACL_FORMAT_NCHW);
  CHECK_EQ(dtype, ACL_FLOAT16);
  CHECK(address == &data);
  CHECK_OK(aclSetRawTensorAddr(tensor, nullptr));
  CHECK_OK(aclGetRawTensorAddr(tensor, &address));
  CHECK(address == nullptr);
  // Without strides the view is row-major; more axes than any operator takes are no error yet.
  const int64_t many[] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 2};
  CHECK_OK(aclInitTensor(tensor, many, 10, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, many, 10, &data));
  CHECK_OK(aclGetViewStrides(tensor, &values, &n));
  CHECK_EQ(n, 10);
  CHECK_EQ(values[9], 1);
  CHECK_EQ(values[8], 2);
  CHECK_EQ(values[0], 432);
  delete[] values;
  CHECK_CODE(aclGetViewShape(nullptr, &values, &n), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetViewShape(tensor, nullptr, &n), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetViewStrides(tensor, &values, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetDataType(tensor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetFormat(nullptr, &format), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetViewOffset(nullptr, &offset), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetRawTensorAddr(nullptr, &address), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclSetRawTensorAddr(nullptr, address), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclInitTensor(nullptr, dims, 3, ACL_INT8, nullptr, 0, ACL_FORMAT_ND, dims, 3, nullptr),
             ACLNN_ERR_PARAM_NULLPTR);
  CHECK_OK(aclDestroyTensor(tensor));
  CHECK_OK(aclDestroyTensor(nullptr));
  CHECK(aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 3, nullptr) ==
        nullptr);
  CHECK(aclCreateTensor(dims, 3, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 1, nullptr) ==
        nullptr);
  aclTensor *scalar =
      aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr);
  CHECK(scalar != nullptr);
  CHECK_OK(aclGetViewShape(scalar, &values, &n));
  CHECK_EQ(n, 0);
  delete[] values;
  CHECK_OK(aclDestroyTensor(scalar));
}

void arrays_and_lists() {
  const int64_t ints[] = {3, 1};
  const float floats[] = {1.5f};
  const bool bools[] = {true, false, true};
  uint64_t n = 9;
  aclIntArray *a = aclCreateIntArray(ints, 2);
  aclFloatArray *b = aclCreateFloatArray(floats, 1);
  aclBoolArray *c = aclCreateBoolArray(bools, 3);
  aclIntArray *none = aclCreateIntArray(nullptr, 0);
  CHECK_OK(aclGetIntArraySize(a, &n));
  CHECK_EQ(n, 2);
  CHECK_OK(aclGetFloatArraySize(b, &n));
  CHECK_EQ(n, 1);
  CHECK_OK(aclGetBoolArraySize(c, &n));
  CHECK_EQ(n, 3);
  CHECK_OK(aclGetIntArraySize(none, &n));
  CHECK_EQ(n, 0);
  CHECK_CODE(aclGetIntArraySize(nullptr, &n), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclGetIntArraySize(a, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK(aclCreateIntArray(nullptr, 1) == nullptr);
  CHECK_OK(aclDestroyIntArray(a));
  CHECK_OK(aclDestroyIntArray(none));
  CHECK_OK(aclDestroyFloatArray(b));
  CHECK_OK(aclDestroyBoolArray(c));
  CHECK_OK(aclDestroyIntArray(nullptr));

  float one = 1;
  CHECK(aclCreateScalar(nullptr, ACL_FLOAT) == nullptr);
  // Lists own their members: destroying a list destroys them (AddressSanitizer would see a leak).
  const aclScalar *scalars[] = {aclCreateScalar(&one, ACL_FLOAT), aclCreateScalar(&one, ACL_FLOAT)};
  aclScalarList *scalar_list = aclCreateScalarList(scalars, 2);
  CHECK_OK(aclGetScalarListSize(scalar_list, &n));
  CHECK_EQ(n, 2);
  CHECK_OK(aclDestroyScalarList(scalar_list));
  const int64_t dims[] = {2};
  const aclTensor *members[] = {
      aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, nullptr)};
  aclTensorList *list = aclCreateTensorList(members, 1);
  CHECK_OK(aclGetTensorListSize(list, &n));
  CHECK_EQ(n, 1);
  CHECK_CODE(aclGetTensorListSize(nullptr, &n), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_OK(aclDestroyTensorList(list));
  CHECK_OK(aclDestroyTensorList(nullptr));
  CHECK_OK(aclDestroyScalarList(nullptr));
}

/// The objects of a call may go as soon as the second phase has returned, and before the stream has run it.
void objects_may_go_early() {
  Tensor x({100}, ACL_FLOAT), y({100}, ACL_FLOAT);
  x.random();
  const int64_t dims[] = {100};
  aclTensor *in =
      aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, x.address());
  aclTensor *out =
      aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, y.address());
  float three = 3;
  aclScalar *scalar = aclCreateScalar(&three, ACL_FLOAT);
  three = 0;
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_OK(aclnnMulsGetWorkspaceSize(in, scalar, out, &size, &executor));
  CHECK_OK(aclnnMuls(nullptr, 0, executor, session().stream));
  CHECK_OK(aclDestroyTensor(in));
  CHECK_OK(aclDestroyTensor(out));
  CHECK_OK(aclDestroyScalar(scalar));
  CHECK_OK(aclrtSynchronizeStream(session().stream));
  check_values(y, [&](int64_t i) { return 3 * x[i]; });
}

/// NULL is the default stream; a view may promise more than its storage has, and its memory may come later.
void default_stream_and_late_memory() {
  Tensor x({8}, ACL_FLOAT), y({8}, ACL_FLOAT);
  x.random();
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_OK(aclnnExpGetWorkspaceSize(x, y, &size, &executor));
  CHECK_OK(aclnnExp(nullptr, 0, executor, nullptr));
  CHECK_OK(aclrtSynchronizeStream(nullptr));
  check_values(y, [&](int64_t i) { return std::exp(x[i]); });
  const int64_t dims[] = {100}, storage[] = {2};
  aclTensor *large =
      aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, storage, 1, nullptr);
  CHECK(large != nullptr);
  void *address = &size;
  CHECK_OK(aclGetRawTensorAddr(large, &address));
  CHECK(address == nullptr);
  CHECK_OK(aclDestroyTensor(large));
}

void phase_two_errors() {
  Tensor x({4}, ACL_FLOAT);
  CHECK_CODE(aclnnExp(nullptr, 0, nullptr, session().stream), ACLNN_ERR_PARAM_NULLPTR);
  // The executor goes with the failure: nothing is left to destroy (AddressSanitizer would see a leak).
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_OK(aclnnInplaceExpGetWorkspaceSize(x, &size, &executor));
  CHECK_CODE(aclnnInplaceExp(nullptr, 16, executor, session().stream), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_CODE(aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK_CODE(aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
  // An executor that is never run can be destroyed.
  CHECK_OK(aclnnInplaceExpGetWorkspaceSize(x, &size, &executor));
  CHECK_OK(aclDestroyAclOpExecutor(executor));
}

void repeatable() {
  Tensor a({50}, ACL_FLOAT), b({50}, ACL_FLOAT), c({50}, ACL_FLOAT), out({50}, ACL_FLOAT),
      other({50}, ACL_FLOAT);
  a.random();
  b.random();
  c.random();
  aclTensor *x = a.get(), *y = b.get(), *z = out.get();
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  aclrtStream stream = session().stream;
  CHECK_OK(aclnnMulGetWorkspaceSize(x, y, z, &size, &executor));
  CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
  CHECK_OK(aclnnMul(nullptr, 0, executor, stream));
  // Queued tasks keep the addresses they were queued with; later ones get the new ones.
  CHECK_OK(aclSetInputTensorAddr(executor, 1, y, c.address()));
  CHECK_OK(aclSetOutputTensorAddr(executor, 0, z, other.address()));
  CHECK_OK(aclnnMul(nullptr, 0, executor, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  check_values(out, [&](int64_t i) { return a[i] * b[i]; });
  check_values(other, [&](int64_t i) { return a[i] * c[i]; });
  // All tensors numbered together: inputs, then outputs.
  CHECK_OK(aclSetTensorAddr(executor, 0, x, c.address()));
  CHECK_OK(aclSetTensorAddr(executor, 2, z, out.address()));
  CHECK_OK(aclnnMul(nullptr, 0, executor, stream));
  CHECK_OK(aclrtSynchronizeStream(stream));
  check_values(out, [&](int64_t i) { return c[i] * c[i]; });
  CHECK_CODE(aclSetInputTensorAddr(executor, 2, x, a.address()), ACLNN_ERR_PARAM_INVALID);
  CHECK_CODE(aclSetOutputTensorAddr(executor, 1, x, a.address()), ACLNN_ERR_PARAM_INVALID);
  CHECK_CODE(aclSetTensorAddr(executor, 3, x, a.address()), ACLNN_ERR_PARAM_INVALID);
  CHECK_CODE(aclSetInputTensorAddr(nullptr, 0, x, a.address()), ACLNN_ERR_INNER_NULLPTR);
  CHECK_CODE(aclSetInputTensorAddr(executor, 0, nullptr, a.address()), ACLNN_ERR_INNER_NULLPTR);
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclSetRawTensorAddr(x, a.address()));
  CHECK_OK(aclSetRawTensorAddr(y, b.address()));
}

/// Tensors with an offset keep it; absent ones cannot be given an address.
void repeatable_corners() {
  Tensor storage({60}, ACL_FLOAT), moved({60}, ACL_FLOAT), out({50}, ACL_FLOAT);
  storage.random(1, 2);
  moved.random(3, 4);
  const int64_t dims[] = {50}, all[] = {60};
  aclTensor *x = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 7, ACL_FORMAT_ND, all, 1, nullptr);
  uint64_t size = 0;
  aclOpExecutor *executor = nullptr;
  CHECK_OK(aclnnExpGetWorkspaceSize(x, out, &size, &executor));
  CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
  for (Tensor *source : {&storage, &moved}) {
    CHECK_OK(aclSetInputTensorAddr(executor, 0, x, source->address()));
    CHECK_OK(aclnnExp(nullptr, 0, executor, session().stream));
    CHECK_OK(aclrtSynchronizeStream(session().stream));
    check_values(out, [&](int64_t i) { return std::exp((*source)[i + 7]); });
  }
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclDestroyTensor(x));

  Ints row({60});
  CHECK_OK(aclnnLayerNormGetWorkspaceSize(storage, row, nullptr, nullptr, 1e-5, moved, nullptr,
                                          nullptr, &size, &executor));
  CHECK_CODE(aclSetInputTensorAddr(executor, 1, storage, storage.address()),
             ACLNN_ERR_PARAM_INVALID);
  CHECK_OK(aclDestroyAclOpExecutor(executor));

  // Members of lists, by place in the list and counted one by one.
  Tensor first({3}, ACL_FLOAT), second({3}, ACL_FLOAT), third({3}, ACL_FLOAT),
      joined({6}, ACL_FLOAT);
  first.random();
  second.random();
  third.random();
  const aclTensor *members[] = {first.release(), second.release()};
  aclTensorList *list = aclCreateTensorList(members, 2);
  CHECK_OK(aclnnCatGetWorkspaceSize(list, 0, joined, &size, &executor));
  CHECK_OK(aclSetAclOpExecutorRepeatable(executor));
  CHECK_OK(aclSetDynamicInputTensorAddr(executor, 0, 1, list, third.address()));
  CHECK_OK(aclSetInputTensorAddr(executor, 0, second.get(), second.address()));
  CHECK_CODE(aclSetDynamicInputTensorAddr(executor, 0, 2, list, third.address()),
             ACLNN_ERR_PARAM_INVALID);
  CHECK_CODE(aclSetDynamicInputTensorAddr(executor, 1, 0, list, third.address()),
             ACLNN_ERR_PARAM_INVALID);
  CHECK_CODE(aclSetDynamicOutputTensorAddr(executor, 0, 0, list, third.address()),
             ACLNN_ERR_PARAM_INVALID);
  CHECK_CODE(aclSetDynamicTensorAddr(nullptr, 0, 0, list, third.address()),
             ACLNN_ERR_INNER_NULLPTR);
  CHECK_OK(aclnnCat(nullptr, 0, executor, session().stream));
  CHECK_OK(aclrtSynchronizeStream(session().stream));
  check_values(joined, [&](int64_t i) { return i < 3 ? second[i] : third[i - 3]; });
  CHECK_OK(aclSetDynamicTensorAddr(executor, 0, 0, list, third.address()));
  CHECK_OK(aclnnCat(nullptr, 0, executor, session().stream));
  CHECK_OK(aclrtSynchronizeStream(session().stream));
  check_values(joined, [&](int64_t i) { return third[i % 3]; });
  CHECK_OK(aclDestroyAclOpExecutor(executor));
  CHECK_OK(aclDestroyTensorList(list));
}

void empty_tensors_have_executors() {
  Tensor none({0}, ACL_FLOAT);
  uint64_t size = 77;
  aclOpExecutor *executor = nullptr;
  CHECK_OK(aclnnInplaceExpGetWorkspaceSize(none, &size, &executor));
  CHECK_EQ(size, 0);
  CHECK(executor != nullptr);
  CHECK_OK(aclnnInplaceExp(nullptr, 0, executor, session().stream));
}

}  // namespace

int main() {
  CHECK_OK(aclnnInit(nullptr));
  tensors();
  arrays_and_lists();
  objects_may_go_early();
  default_stream_and_late_memory();
  phase_two_errors();
  repeatable();
  repeatable_corners();
  empty_tensors_have_executors();
  CHECK_OK(aclnnFinalize());
  return 0;
}
