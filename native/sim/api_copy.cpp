// api_copy.cpp: copies and fills, synchronous and on streams.
#include <string.h>

#include "sim/capture.hpp"
#include "sim/copy.hpp"
#include "sim/entry.hpp"
#include "sim/faults.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {
namespace {

constexpr uint64_t kMax2dWidth = 5000000;
constexpr uint64_t kMax2dHeight = 5242880;

aclError check_kind(const char *function, aclrtMemcpyKind kind) {
  if (kind >= ACL_MEMCPY_HOST_TO_HOST && kind <= ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
    return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "%s: copy kind %d is not one of 0 to 5", function,
              static_cast<int>(kind));
}

/// Device and pinned memory must be allocated, and within reach of the device that makes the copy.
aclError check_memory(const char *function, const Device *engine, const Location &where,
                      const void *pointer, uint64_t bytes) {
  if (where.arena == nullptr) return ACL_SUCCESS;
  switch (where.arena->check(pointer, bytes)) {
    case Arena::Check::kInside:
      break;
    case Arena::Check::kPadding:
      misuse("%s reaches beyond the size that its memory was allocated with (%p, %llu bytes)",
             function, pointer, static_cast<unsigned long long>(bytes));
      break;
    default:
      return fail(
          ACL_ERROR_RT_PARAM_INVALID,
          "%s: %llu bytes at %p are not within one allocated block: freed, or out of bounds",
          function, static_cast<unsigned long long>(bytes), pointer);
  }
  if (where.device == nullptr || where.device == engine) return ACL_SUCCESS;
  if (const aclError code = refuse_lost(where.device)) return code;
  if (machine().has_access(engine, where.device)) return ACL_SUCCESS;
  if (machine().virtual_memory().is_granted(pointer, engine)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID,
              "%s: device %d has no access to the memory of device %d: call "
              "aclrtDeviceEnablePeerAccess(%d, 0) "
              "with device %d current",
              function, machine().user_id(engine), machine().user_id(where.device),
              machine().user_id(where.device), machine().user_id(engine));
}

/// What both ends of an asynchronous copy allow.
enum class Path {
  kEngine,    ///< by the stream, when it gets there
  kPageable,  ///< ordinary memory is involved: the call waits for the stream and copies itself
};

aclError choose_path(const char *function, const Location &to, const Location &from,
                     aclrtMemcpyKind kind, Path *path) {
  const bool to_device = to.kind == Location::kDevice, from_device = from.kind == Location::kDevice;
  if (!to_device && !from_device) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s: host to host is not supported on a stream",
                function);
  }
  if (to.kind != Location::kPageable && from.kind != Location::kPageable) {
    *path = Path::kEngine;  // the real places decide, whatever kind says
    return ACL_SUCCESS;
  }
  const aclrtMemcpyKind fitting = to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
  if (kind != ACL_MEMCPY_DEFAULT && kind != fitting) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "%s: copy kind %d does not fit the memory that it is given", function,
                static_cast<int>(kind));
  }
  *path = Path::kPageable;
  return ACL_SUCCESS;
}

/// Before a copy that the call makes itself: what the stream has must be done, and well.
aclError drain(const char *function, Stream *stream) {
  if (stream->capture() != nullptr)
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "%s: ordinary memory cannot be captured: use pinned memory", function);
  if (const aclError code = check_unsafe_call(function, false)) return code;
  if (const aclError code = stream->wait_for_all(Deadline::never()))
    return fail(code, "the stream was not done");
  const aclError code = stream->take_error();
  return code == ACL_SUCCESS ? code
                             : fail(code, "an earlier task of stream %d failed", stream->id());
}

aclError copy_from_buffer(Stream *stream, void *dst, const Location &to, const void *src,
                          const Location &from, size_t count) {
  if (to.kind != Location::kDevice || from.kind == Location::kDevice) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "aclrtMemcpyAsync: HOST_TO_BUF_TO_DEVICE goes from host to device");
  }
  std::shared_ptr<uint8_t[]> bytes(new uint8_t[count]);
  memcpy(bytes.get(), src, count);
  return stream->submit(BufferCopyTask{dst, std::move(bytes), count});
}

aclError check_2d(const char *function, size_t dpitch, size_t spitch, size_t width, size_t height,
                  aclrtMemcpyKind kind) {
  if (const aclError code = check_kind(function, kind)) return code;
  if (width > dpitch || width > spitch) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: width %zu is more than a pitch (%zu, %zu)", function,
                width, dpitch, spitch);
  }
  if (width > kMax2dWidth || height > kMax2dHeight) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %zu x %zu is over the limit of 5000000 x 5242880",
                function, width, height);
  }
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                     aclrtMemcpyKind kind) {
  ACL_ENTRY();
  if (count == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(dst);
  REQUIRE_NOT_NULL(src);
  if (const aclError code = check_kind("aclrtMemcpy", kind)) return code;
  if (count > destMax) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpy: count %zu is more than destMax %zu",
                count, destMax);
  }
  if (dst == src) return ACL_SUCCESS;
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (const aclError code = check_unsafe_call("aclrtMemcpy", true)) return code;
  const Location to = machine().locate(dst), from = machine().locate(src);
  if (const aclError code = check_memory("aclrtMemcpy", context->device, to, dst, count))
    return code;
  if (const aclError code = check_memory("aclrtMemcpy", context->device, from, src, count))
    return code;
  copy_bytes({"aclrtMemcpy"}, dst, src, count);
  count_copy(dst, src, count);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream) {
  ACL_ENTRY();
  if (count == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(dst);
  REQUIRE_NOT_NULL(src);
  if (const aclError code = check_kind("aclrtMemcpyAsync", kind)) return code;
  if (count > destMax) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpyAsync: count %zu is more than destMax %zu",
                count, destMax);
  }
  if (dst == src) return ACL_SUCCESS;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  const Location to = machine().locate(dst), from = machine().locate(src);
  const Device *engine = target->device();
  if (const aclError code = check_memory("aclrtMemcpyAsync", engine, to, dst, count)) return code;
  if (const aclError code = check_memory("aclrtMemcpyAsync", engine, from, src, count)) return code;
  if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
    return copy_from_buffer(target, dst, to, src, from, count);
  Path path = Path::kEngine;
  if (const aclError code = choose_path("aclrtMemcpyAsync", to, from, kind, &path)) return code;
  if (path == Path::kEngine) return target->submit(CopyTask{dst, src, count});
  if (const aclError code = drain(__func__, target)) return code;
  copy_bytes({"aclrtMemcpyAsync"}, dst, src, count);
  count_copy(dst, src, count);
  return ACL_SUCCESS;
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind) {
  ACL_ENTRY();
  if (width == 0 || height == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(dst);
  REQUIRE_NOT_NULL(src);
  if (const aclError code = check_2d("aclrtMemcpy2d", dpitch, spitch, width, height, kind))
    return code;
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (const aclError code = check_unsafe_call("aclrtMemcpy2d", true)) return code;
  const Location to = machine().locate(dst), from = machine().locate(src);
  if ((to.kind == Location::kDevice) == (from.kind == Location::kDevice)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpy2d goes between host and device");
  }
  const uint64_t to_bytes = dpitch * (height - 1) + width,
                 from_bytes = spitch * (height - 1) + width;
  if (const aclError code = check_memory("aclrtMemcpy2d", context->device, to, dst, to_bytes))
    return code;
  if (const aclError code = check_memory("aclrtMemcpy2d", context->device, from, src, from_bytes))
    return code;
  copy_rows({"aclrtMemcpy2d"}, dst, dpitch, src, spitch, width, height);
  count_copy(dst, src, width * height);
  return ACL_SUCCESS;
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream) {
  ACL_ENTRY();
  if (width == 0 || height == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(dst);
  REQUIRE_NOT_NULL(src);
  if (const aclError code = check_2d("aclrtMemcpy2dAsync", dpitch, spitch, width, height, kind))
    return code;
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  const Location to = machine().locate(dst), from = machine().locate(src);
  const uint64_t to_bytes = dpitch * (height - 1) + width,
                 from_bytes = spitch * (height - 1) + width;
  const Device *engine = target->device();
  if (const aclError code = check_memory("aclrtMemcpy2dAsync", engine, to, dst, to_bytes))
    return code;
  if (const aclError code = check_memory("aclrtMemcpy2dAsync", engine, from, src, from_bytes))
    return code;
  if (machine().config().soc->ddr_only && to.device != nullptr && from.device != nullptr) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtMemcpy2dAsync: %s copies no rows on the device",
                machine().config().soc->name);
  }
  Path path = Path::kEngine;
  if (const aclError code = choose_path("aclrtMemcpy2dAsync", to, from, kind, &path)) return code;
  if (path == Path::kEngine)
    return target->submit(Copy2dTask{dst, src, dpitch, spitch, width, height});
  if (const aclError code = drain(__func__, target)) return code;
  copy_rows({"aclrtMemcpy2dAsync"}, dst, dpitch, src, spitch, width, height);
  count_copy(dst, src, width * height);
  return ACL_SUCCESS;
}

static aclError check_fill(const char *function, const Device *engine, void *pointer,
                           size_t maxCount, size_t count) {
  if (count > maxCount) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: count %zu is more than maxCount %zu", function,
                count, maxCount);
  }
  const Location where = machine().locate(pointer);
  if (where.kind == Location::kPageable) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%s: %p is neither device nor pinned memory", function,
                pointer);
  }
  return check_memory(function, engine, where, pointer, count);
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
  ACL_ENTRY();
  if (count == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(devPtr);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (const aclError code = check_unsafe_call("aclrtMemset", true)) return code;
  if (const aclError code = check_fill("aclrtMemset", context->device, devPtr, maxCount, count))
    return code;
  fill_bytes({"aclrtMemset"}, devPtr, static_cast<uint8_t>(value), count);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream) {
  ACL_ENTRY();
  if (count == 0) return ACL_SUCCESS;
  REQUIRE_NOT_NULL(devPtr);
  Stream *target = nullptr;
  if (const aclError code = find_stream(stream, &target)) return code;
  if (const aclError code =
          check_fill("aclrtMemsetAsync", target->device(), devPtr, maxCount, count)) {
    return code;
  }
  return target->submit(MemsetTask{devPtr, count, static_cast<uint8_t>(value)});
}
