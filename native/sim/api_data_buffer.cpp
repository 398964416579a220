// api_data_buffer.cpp: descriptions of buffers, as programs that execute single operators pass them.
#include "sim/entry.hpp"

/// An opaque type of the ABI.
struct aclDataBuffer {
  void *data;
  size_t size;
};

using namespace aiocann::sim;

aclDataBuffer *aclCreateDataBuffer(void *data, size_t size) {
  ACL_ENTRY_POINTER();
  return new aclDataBuffer{data, size};
}

aclError aclDestroyDataBuffer(const aclDataBuffer *dataBuffer) {
  ACL_ENTRY();
  delete dataBuffer;
  return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer *dataBuffer, void *data, size_t size) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(dataBuffer);
  *dataBuffer = {data, size};
  return ACL_SUCCESS;
}

void *aclGetDataBufferAddr(const aclDataBuffer *dataBuffer) {
  ACL_ENTRY_POINTER();
  return dataBuffer == nullptr ? nullptr : dataBuffer->data;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer *dataBuffer) {
  return dataBuffer == nullptr ? 0 : static_cast<uint32_t>(dataBuffer->size);
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer *dataBuffer) {
  return dataBuffer == nullptr ? 0 : dataBuffer->size;
}
