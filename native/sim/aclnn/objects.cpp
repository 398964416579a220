// objects.cpp: creating, reading and destroying tensors, arrays, scalars and lists.
#include "sim/aclnn/objects.hpp"

#include <cstring>
#include <new>

#include "sim/entry.hpp"
#include "sim/kernels/convert.hpp"
#include "sim/kernels/dtype.hpp"

using aiocann::sim::fail;

void aclTensor::init(const int64_t *view_dims, uint64_t n_view, aclDataType type,
                     const int64_t *view_strides, int64_t view_offset, aclFormat layout,
                     const int64_t *storage_dims, uint64_t n_storage, void *address) {
  shape.assign(view_dims, n_view);
  if (view_strides != nullptr) {
    strides.assign(view_strides, n_view);
  } else {
    strides.assign_contiguous(shape);
  }
  storage_shape.assign(storage_dims, n_storage);
  dtype = type;
  format = layout;
  offset = view_offset;
  data = address;
}

double aclScalar::as_double() const {
  double value = 0;
  const aclDataType part = dtype == ACL_COMPLEX64    ? ACL_FLOAT
                           : dtype == ACL_COMPLEX128 ? ACL_DOUBLE
                                                     : dtype;
  aiocann::sim::read_elements(&value, bytes, part, 1);
  return value;
}

int64_t aclScalar::as_int() const {
  if (aiocann::sim::is_complex(dtype)) return 0;
  int64_t value = 0;
  aiocann::sim::read_elements(&value, bytes, dtype, 1);
  return value;
}

namespace {

aclnnStatus missing(const char *function) {
  return fail(ACLNN_ERR_PARAM_NULLPTR, "%s: an argument is NULL", function);
}

/// Gives the caller a new[] copy: the contract of the shape getters.
aclnnStatus copy_dims(const char *function, const aiocann::sim::Dims &dims, int64_t **values,
                      uint64_t *count) {
  if (values == nullptr || count == nullptr) return missing(function);
  *count = dims.size();
  *values = new (std::nothrow) int64_t[dims.size()];
  if (*values == nullptr) return fail(ACLNN_ERR_INNER, "%s: out of memory", function);
  if (dims.size() != 0) std::memcpy(*values, dims.data(), dims.size() * sizeof(int64_t));
  return ACLNN_SUCCESS;
}

template <class Array, class T>
Array *make_array(const T *values, uint64_t size) {
  if (values == nullptr && size != 0) return nullptr;
  auto *array = new (std::nothrow) Array;
  if (array != nullptr) array->values.assign(values, values + size);
  return array;
}

template <class Object>
aclnnStatus destroy(const Object *object) {
  delete object;
  return ACLNN_SUCCESS;
}

template <class Array>
aclnnStatus array_size(const char *function, const Array *array, uint64_t *size) {
  if (array == nullptr || size == nullptr) return missing(function);
  *size = array->values.size();
  return ACLNN_SUCCESS;
}

template <class List, class T>
List *make_list(const T *const *values, uint64_t size) {
  if (values == nullptr && size != 0) return nullptr;
  auto *list = new (std::nothrow) List;
  if (list != nullptr) list->members.assign(values, values + size);
  return list;
}

}  // namespace

extern "C" {

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t *stride, int64_t offset, aclFormat format,
                           const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData) {
  ACL_ENTRY_POINTER();
  if ((viewDims == nullptr && viewDimsNum != 0) ||
      (storageDims == nullptr && storageDimsNum != 0)) {
    fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor: dimensions are NULL");
    return nullptr;
  }
  auto *tensor = new (std::nothrow) aclTensor;
  if (tensor == nullptr) return nullptr;
  tensor->init(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
               tensorData);
  return tensor;
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum,
                          aclDataType dataType, const int64_t *stride, int64_t offset,
                          aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                          void *tensorDataAddr) {
  ACL_ENTRY();
  if (tensor == nullptr || (viewDims == nullptr && viewDimsNum != 0) ||
      (storageDims == nullptr && storageDimsNum != 0)) {
    return missing("aclInitTensor");
  }
  tensor->init(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
               tensorDataAddr);
  return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor) {
  ACL_ENTRY();
  return destroy(tensor);
}

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum) {
  ACL_ENTRY();
  if (tensor == nullptr) return missing("aclGetViewShape");
  return copy_dims("aclGetViewShape", tensor->shape, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                               uint64_t *storageDimsNum) {
  ACL_ENTRY();
  if (tensor == nullptr) return missing("aclGetStorageShape");
  return copy_dims("aclGetStorageShape", tensor->storage_shape, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue,
                              uint64_t *stridesNum) {
  ACL_ENTRY();
  if (tensor == nullptr) return missing("aclGetViewStrides");
  return copy_dims("aclGetViewStrides", tensor->strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset) {
  ACL_ENTRY();
  if (tensor == nullptr || offset == nullptr) return missing("aclGetViewOffset");
  *offset = tensor->offset;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format) {
  ACL_ENTRY();
  if (tensor == nullptr || format == nullptr) return missing("aclGetFormat");
  *format = tensor->format;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType) {
  ACL_ENTRY();
  if (tensor == nullptr || dataType == nullptr) return missing("aclGetDataType");
  *dataType = tensor->dtype;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr) {
  ACL_ENTRY();
  if (tensor == nullptr || addr == nullptr) return missing("aclGetRawTensorAddr");
  *addr = tensor->data;
  return ACLNN_SUCCESS;
}

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr) {
  ACL_ENTRY();
  if (tensor == nullptr) return missing("aclSetRawTensorAddr");
  tensor->data = addr;
  return ACLNN_SUCCESS;
}

aclScalar *aclCreateScalar(void *value, aclDataType dataType) {
  ACL_ENTRY_POINTER();
  const size_t size = aiocann::sim::size_of(dataType);
  if (value == nullptr || size == 0) return nullptr;
  auto *scalar = new (std::nothrow) aclScalar;
  if (scalar == nullptr) return nullptr;
  scalar->dtype = dataType;
  std::memcpy(scalar->bytes, value, size);
  return scalar;
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar) {
  ACL_ENTRY();
  return destroy(scalar);
}

aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size) {
  ACL_ENTRY_POINTER();
  return make_array<aclIntArray>(value, size);
}

aclnnStatus aclDestroyIntArray(const aclIntArray *array) {
  ACL_ENTRY();
  return destroy(array);
}

aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size) {
  ACL_ENTRY();
  return array_size("aclGetIntArraySize", array, size);
}

aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size) {
  ACL_ENTRY_POINTER();
  return make_array<aclFloatArray>(value, size);
}

aclnnStatus aclDestroyFloatArray(const aclFloatArray *array) {
  ACL_ENTRY();
  return destroy(array);
}

aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size) {
  ACL_ENTRY();
  return array_size("aclGetFloatArraySize", array, size);
}

aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size) {
  ACL_ENTRY_POINTER();
  return make_array<aclBoolArray>(value, size);
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray *array) {
  ACL_ENTRY();
  return destroy(array);
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size) {
  ACL_ENTRY();
  return array_size("aclGetBoolArraySize", array, size);
}

aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size) {
  ACL_ENTRY_POINTER();
  return make_list<aclTensorList>(value, size);
}

aclnnStatus aclDestroyTensorList(const aclTensorList *array) {
  ACL_ENTRY();
  if (array != nullptr) {
    for (const aclTensor *member : array->members) delete member;
  }
  return destroy(array);
}

aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size) {
  ACL_ENTRY();
  if (tensorList == nullptr || size == nullptr) return missing("aclGetTensorListSize");
  *size = tensorList->members.size();
  return ACLNN_SUCCESS;
}

aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size) {
  ACL_ENTRY_POINTER();
  return make_list<aclScalarList>(value, size);
}

aclnnStatus aclDestroyScalarList(const aclScalarList *array) {
  ACL_ENTRY();
  if (array != nullptr) {
    for (const aclScalar *member : array->members) delete member;
  }
  return destroy(array);
}

aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size) {
  ACL_ENTRY();
  if (scalarList == nullptr || size == nullptr) return missing("aclGetScalarListSize");
  *size = scalarList->members.size();
  return ACLNN_SUCCESS;
}

}  // extern "C"
