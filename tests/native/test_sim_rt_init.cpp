// Initialisation, its reference count, versions, and the text and codes of errors.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_rt.hpp"
#include "temporary_file.hpp"

namespace {

void finalize_before_init() {
  // The flag starts false, so that the first call does its (empty) work and the second is one too many.
  CHECK_OK(aclFinalize());
  CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
  uint64_t references = 7;
  CHECK_CODE(aclFinalizeReference(&references), ACL_ERROR_REPEAT_FINALIZE);
  CHECK_EQ(references, 0);
}

void init_counts_references() {
  CHECK_OK(aclInit(nullptr));
  CHECK_CODE(aclInit(""), ACL_ERROR_REPEAT_INITIALIZE);
  CHECK_CODE(aclInit("/no/such/file"), ACL_ERROR_REPEAT_INITIALIZE);  // not even read
  uint64_t references = 0;
  CHECK_OK(aclFinalizeReference(&references));
  CHECK_EQ(references, 2);
  CHECK_OK(aclFinalizeReference(nullptr));
  CHECK_OK(aclFinalizeReference(&references));
  CHECK_EQ(references, 0);
  CHECK_CODE(aclFinalizeReference(&references), ACL_ERROR_REPEAT_FINALIZE);

  CHECK_OK(aclInit(nullptr));
  CHECK_CODE(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
  CHECK_OK(aclFinalize());  // zeroes the count whatever it is
  CHECK_CODE(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
}

void init_reads_its_configuration() {
  CHECK_CODE(aclInit("/no/such/file"), ACL_ERROR_INVALID_FILE);
  CHECK_CONTAINS(recent(), "/no/such/file");
  // The first successful call of this process had no configuration: another one is refused.
  const std::string other = temporary_file("{ \"err_msg_mode\": \"0\" }");
  CHECK_CODE(aclInit(other.c_str()), ACL_ERROR_INVALID_PARAM);
  CHECK_CONTAINS(recent(), "differs");
  unlink(other.c_str());
}

void version_and_soc() {
  int32_t major = 0, minor = 0, patch = -1;
  CHECK_OK(aclrtGetVersion(&major, &minor, &patch));
  CHECK_EQ(major, 1);
  CHECK_EQ(minor, 17);
  CHECK_EQ(patch, 0);
  CHECK_CODE(aclrtGetVersion(nullptr, &minor, &patch), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(std::string(aclrtGetSocName()), "Ascend910B2");  // before any aclrtSetDevice
  aclrtRunMode mode = ACL_DEVICE;
  CHECK_OK(aclrtGetRunMode(&mode));
  CHECK_EQ(mode, ACL_HOST);
  CHECK_CODE(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM);
}

void error_text_is_per_thread_and_cleared() {
  (void)aclGetRecentErrMsg();
  CHECK(aclGetRecentErrMsg() == nullptr);
  CHECK_CODE(aclrtSetDevice(1000), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM);
  on_thread([] { CHECK(aclGetRecentErrMsg() == nullptr); });
  const std::string text = recent();
  CHECK_CONTAINS(text, "1000");
  CHECK_CONTAINS(text, "EE1001");
  CHECK_CONTAINS(text, "EH0001");
  CHECK(text.find("runMode") < text.find("1000"));  // newest first
  CHECK(aclGetRecentErrMsg() == nullptr);
}

void last_error_is_of_the_runtime_layer() {
  CHECK_CODE(aclrtPeekAtLastError(static_cast<aclrtLastErrLevel>(1)), ACL_ERROR_INVALID_PARAM);
  (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  CHECK_CODE(aclrtGetRunMode(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL),
           0);  // rejections of the ACL layer do not show
  CHECK_CODE(aclrtSetDevice(1000), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  on_thread([] { CHECK_EQ(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0); });
  CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
}

void data_helpers() {
  CHECK_EQ(aclDataTypeSize(ACL_FLOAT), 4u);
  CHECK_EQ(aclDataTypeSize(ACL_FLOAT16), 2u);
  CHECK_EQ(aclDataTypeSize(ACL_BF16), 2u);
  CHECK_EQ(aclDataTypeSize(ACL_INT64), 8u);
  CHECK_EQ(aclDataTypeSize(ACL_BOOL), 1u);
  CHECK_EQ(aclDataTypeSize(ACL_COMPLEX128), 16u);
  CHECK_EQ(aclDataTypeSize(ACL_STRING), 0u);
  CHECK_EQ(aclDataTypeSize(ACL_DT_UNDEFINED), 0u);

  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = aclFloat16ToFloat(static_cast<aclFloat16>(half));
    if ((half >> 10 & 0x1f) != 0x1f) CHECK_EQ(aclFloatToFloat16(value), half);
  }
  CHECK_EQ(aclFloat16ToFloat(0x3c00), 1.0f);
  CHECK_EQ(aclFloat16ToFloat(0x0001), 0x1p-24f);
  CHECK_EQ(aclFloat16ToFloat(0x7c00), 65536.0f);
  CHECK_EQ(aclFloat16ToFloat(0xfc00), -65536.0f);
  CHECK_EQ(aclFloat16ToFloat(0x7e00), 98304.0f);
  CHECK_EQ(aclFloatToFloat16(__builtin_inff()), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(-__builtin_inff()), 0xfbff);
  CHECK_EQ(aclFloatToFloat16(__builtin_nanf("")), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(1e9f), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(1.0f + 0x1p-11f), 0x3c00);      // half way: to even
  CHECK_EQ(aclFloatToFloat16(1.0f + 3 * 0x1p-11f), 0x3c02);  // half way: to even
  CHECK_EQ(aclFloatToFloat16(0x1p-25f), 0x0000);             // half of the smallest: to even
  CHECK_EQ(aclFloatToFloat16(0x1p-25f * 1.5f), 0x0001);
  CHECK_EQ(aclFloatToFloat16(0x1p-14f - 0x1p-25f), 0x0400);  // rounds up into the normal range
}

}  // namespace

int main() {
  finalize_before_init();
  init_counts_references();
  init_reads_its_configuration();
  version_and_soc();
  error_text_is_per_thread_and_cleared();
  last_error_is_of_the_runtime_layer();
  data_helpers();
  return 0;
}
