#include "core/ops/aclnn_call.hpp"

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/launch.hpp"

namespace aiocann::core {
namespace {

struct Signature {
  const char *name, *arguments;
};

constexpr Signature kSignatures[] = {
#define ACLNN_SIGNATURE(name, arguments) {#name, arguments},
#include "acl_signatures.inc"
};

// What a call may have besides the two that phase 1 fills.
constexpr size_t kMaxWords = 38, kMaxNumbers = 8;

/// The aclDataType of a scalar, as NumPy names it: a kind and its bytes. ACL_DT_UNDEFINED: there is none.
aclDataType scalar_dtype(int64_t kind, int32_t bytes) {
  switch (kind) {
    case 'f':
      return bytes == 2   ? ACL_FLOAT16
             : bytes == 4 ? ACL_FLOAT
             : bytes == 8 ? ACL_DOUBLE
                          : ACL_DT_UNDEFINED;
    case 'i':
      return bytes == 1   ? ACL_INT8
             : bytes == 2 ? ACL_INT16
             : bytes == 4 ? ACL_INT32
             : bytes == 8 ? ACL_INT64
                          : ACL_DT_UNDEFINED;
    case 'u':
      return bytes == 1   ? ACL_UINT8
             : bytes == 2 ? ACL_UINT16
             : bytes == 4 ? ACL_UINT32
             : bytes == 8 ? ACL_UINT64
                          : ACL_DT_UNDEFINED;
    case 'b':
      return ACL_BOOL;
    default:
      return ACL_DT_UNDEFINED;
  }
}

/// An argument with what it points to copied.
struct Argument {
  aiocann_aclnn_arg given;
  std::string data;
  template <typename T>
  const T *values() const {
    return reinterpret_cast<const T *>(data.data());
  }
};

struct Operand {
  Layout layout;
  const aiocann_mem *mem;
  uint64_t offset;
  aclFormat format;
};

class AclnnCall final : public Graph {
 public:
  AclnnCall(std::string name, void *phase1, void *phase2)
      : name_(std::move(name)), phase1_(phase1), phase2_(phase2) {}

  Status take(const aiocann_aclnn_arg *args, int32_t n_args, int32_t n_tensors);
  Status take(const aiocann_tensor &tensor, int32_t format, MemBytes mem_bytes);

  uint64_t scratch_bytes() const override { return 0; }
  int32_t n_nodes() const override { return 1; }
  std::string describe(int32_t) const override;
  Status submit(LaunchContext &context) const override;

 private:
  Status call(LaunchContext &context) const;
  uintptr_t word(Launch &launch, LaunchContext &context, const Argument &argument) const;
  aclTensor *tensor(Launch &launch, LaunchContext &context, int64_t index) const;

  std::string name_;
  void *phase1_, *phase2_;
  std::vector<Argument> args_;
  std::vector<Operand> operands_;
};

Status AclnnCall::take(const aiocann_aclnn_arg *args, int32_t n_args, int32_t n_tensors) {
  size_t n_words = 0, n_numbers = 0;
  for (int32_t i = 0; i < n_args; ++i) {
    const aiocann_aclnn_arg &given = args[i];
    size_t bytes = 0;
    const auto count = static_cast<size_t>(given.count);
    switch (given.kind) {
      case AIOCANN_ARG_TENSOR:
      case AIOCANN_ARG_TENSORS: {
        const int64_t n = given.kind == AIOCANN_ARG_TENSOR ? 1 : given.count;
        if (n < 0 || given.integer < 0 || given.integer > n_tensors - n) {
          return Status::error(AIOCANN_E_USAGE, "%s: argument %d names no tensor", name_.c_str(),
                               i + 1);
        }
        break;
      }
      case AIOCANN_ARG_SCALAR:
        bytes = count;
        if (scalar_dtype(given.integer, given.count) == ACL_DT_UNDEFINED) {
          return Status::error(AIOCANN_E_UNSUPPORTED, "%s: argument %d: ACL has no such scalar",
                               name_.c_str(), i + 1);
        }
        break;
      case AIOCANN_ARG_INTS:
        bytes = count * sizeof(int64_t);
        break;
      case AIOCANN_ARG_FLOATS:
        bytes = count * sizeof(float);
        break;
      case AIOCANN_ARG_BOOLS:
        bytes = count * sizeof(bool);
        break;
      case AIOCANN_ARG_TEXT:
        bytes = std::strlen(static_cast<const char *>(given.data)) + 1;
        break;
      default:
        break;
    }
    const bool is_number = given.kind == AIOCANN_ARG_DOUBLE || given.kind == AIOCANN_ARG_FLOAT;
    ++(is_number ? n_numbers : n_words);
    args_.push_back({given, std::string(static_cast<const char *>(given.data), bytes)});
  }
  if (n_words > kMaxWords || n_numbers > kMaxNumbers) {
    return Status::error(AIOCANN_E_UNSUPPORTED,
                         "%s: more than %zu arguments, or more than %zu floating numbers",
                         name_.c_str(), kMaxWords, kMaxNumbers);
  }
  return Status::ok();
}

Status AclnnCall::take(const aiocann_tensor &given, int32_t format, MemBytes mem_bytes) {
  const Layout layout(given);
  const size_t index = operands_.size();
  if (given.mem == nullptr || dtype_size(layout.dtype) == 0) {
    return Status::error(AIOCANN_E_UNSUPPORTED, "%s: tensor %zu, %s, %s", name_.c_str(), index,
                         layout.describe().c_str(),
                         given.mem == nullptr
                             ? "has no memory yet: only what a graph has computed, or was written, "
                               "can be an argument"
                             : "is stored in blocks, which only ops of a graph take");
  }
  const uint64_t bytes = layout.extent(), room = mem_bytes(given.mem);
  if (bytes > room || given.offset > room - bytes) {
    return Status::error(AIOCANN_E_USAGE, "%s: tensor %zu, %s, is larger than its memory",
                         name_.c_str(), index, layout.describe().c_str());
  }
  operands_.push_back({layout, given.mem, given.offset, static_cast<aclFormat>(format)});
  return Status::ok();
}

std::string AclnnCall::describe(int32_t) const {
  std::string text = name_ + '(';
  for (const Argument &argument : args_) {
    const aiocann_aclnn_arg &given = argument.given;
    if (&argument != &args_.front()) text += ", ";
    char number[32];
    std::snprintf(number, sizeof(number), "%g", given.number);
    switch (given.kind) {
      case AIOCANN_ARG_TENSOR:
        text += operands_[static_cast<size_t>(given.integer)].layout.describe();
        break;
      case AIOCANN_ARG_TENSORS:
        text += std::to_string(given.count) + " tensors";
        break;
      case AIOCANN_ARG_INTEGER:
      case AIOCANN_ARG_DTYPE:
        text += std::to_string(given.integer);
        break;
      case AIOCANN_ARG_DOUBLE:
      case AIOCANN_ARG_FLOAT:
        text += number;
        break;
      case AIOCANN_ARG_TEXT:
        text += argument.data.c_str();
        break;
      case AIOCANN_ARG_NULL:
        text += '-';
        break;
      case AIOCANN_ARG_SCALAR:
        text += "a scalar";
        break;
      default:
        text += std::to_string(given.count) + " values";
        break;
    }
  }
  return text + ')';
}

aclTensor *AclnnCall::tensor(Launch &launch, LaunchContext &context, int64_t index) const {
  const Operand &operand = operands_[static_cast<size_t>(index)];
  View view(context.address(operand.mem) + operand.offset, operand.layout);
  view.n = operand.layout.n_dims;
  return launch.tensor(view, operand.format);
}

uintptr_t AclnnCall::word(Launch &launch, LaunchContext &context, const Argument &argument) const {
  const aiocann_aclnn_arg &given = argument.given;
  const auto count = static_cast<size_t>(given.count);
  const void *pointer = nullptr;
  switch (given.kind) {
    case AIOCANN_ARG_TENSOR:
      pointer = tensor(launch, context, given.integer);
      break;
    case AIOCANN_ARG_TENSORS: {
      std::vector<aclTensor *> members;
      for (int64_t i = 0; i < given.count; ++i)
        members.push_back(tensor(launch, context, given.integer + i));
      pointer = launch.list(members.data(), members.size());
      break;
    }
    case AIOCANN_ARG_SCALAR:
      pointer = launch.scalar(argument.data.data(), scalar_dtype(given.integer, given.count));
      break;
    case AIOCANN_ARG_INTS:
      pointer = launch.ints(argument.values<int64_t>(), count);
      break;
    case AIOCANN_ARG_FLOATS:
      pointer = launch.floats(argument.values<float>(), count);
      break;
    case AIOCANN_ARG_BOOLS:
      pointer = launch.bools(argument.values<bool>(), count);
      break;
    case AIOCANN_ARG_TEXT:
      pointer = argument.data.c_str();
      break;
    case AIOCANN_ARG_DTYPE:
      return static_cast<uintptr_t>(acl_dtype(static_cast<int32_t>(given.integer)));
    case AIOCANN_ARG_INTEGER:
      return static_cast<uintptr_t>(given.integer);
    default:
      break;
  }
  return reinterpret_cast<uintptr_t>(pointer);
}

// The calling conventions of x86-64 and aarch64 pass pointers and integers in registers and 8-byte slots of one kind,
// floating numbers in registers of another, each in its own order, and let the caller pass more than is taken. So one
// function type with room for all does for every operator; a float is the low half of a double's register.
template <size_t... kWords>
aclnnStatus invoke(void *function, const uintptr_t *words, const double *numbers,
                   std::index_sequence<kWords...>) {
  using Any = aclnnStatus (*)(decltype(static_cast<void>(kWords), uintptr_t{})..., double, double,
                              double, double, double, double, double, double);
  static_assert(kMaxNumbers == 8);
  Any any = nullptr;
  std::memcpy(&any, &function, sizeof(any));
  return any(words[kWords]..., numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
             numbers[5], numbers[6], numbers[7]);
}

Status AclnnCall::call(LaunchContext &context) const {
  Launch launch(context);
  uintptr_t words[kMaxWords + 2] = {};
  double numbers[kMaxNumbers] = {};
  size_t n_words = 0, n_numbers = 0;
  for (const Argument &argument : args_) {
    const double number = argument.given.number;
    if (argument.given.kind == AIOCANN_ARG_DOUBLE) {
      numbers[n_numbers++] = number;
    } else if (argument.given.kind == AIOCANN_ARG_FLOAT) {
      const auto narrow = static_cast<float>(number);
      std::memcpy(&numbers[n_numbers++], &narrow, sizeof(narrow));
    } else {
      words[n_words++] = word(launch, context, argument);
    }
  }
  uint64_t bytes = 0;
  aclOpExecutor *executor = nullptr;
  words[n_words++] = reinterpret_cast<uintptr_t>(&bytes);
  words[n_words++] = reinterpret_cast<uintptr_t>(&executor);
  return launch.call(
      name_.c_str(),
      [&] { return invoke(phase1_, words, numbers, std::make_index_sequence<kMaxWords + 2>()); },
      phase2_, bytes, executor);
}

Status AclnnCall::submit(LaunchContext &context) const {
  Status status = call(context);
  context.launched(0);  // after a failure too, as of any node
  if (!status.is_ok()) {
    aiocann_error &error = status.mutate();
    error.node = 0;
    const std::string text = describe(0) + ": " + error.detail;
    std::snprintf(error.detail, sizeof(error.detail), "%s", text.c_str());
  }
  return status;
}

}  // namespace

Status create_aclnn_call(const acl::Library &library, const char *name,
                         const aiocann_aclnn_arg *args, int32_t n_args,
                         const aiocann_tensor *tensors, const int32_t *formats, int32_t n_tensors,
                         std::unique_ptr<Graph> *out, MemBytes mem_bytes) {
  const std::string phase1 = std::string(name) + "GetWorkspaceSize";
  void *first = acl::find_operator(library, phase1.c_str());
  void *second = acl::find_operator(library, name);
  if (first == nullptr || second == nullptr) {
    return Status::error(
        AIOCANN_E_UNSUPPORTED, "%s",
        acl::why_missing(library, first == nullptr ? phase1.c_str() : name).c_str());
  }
  auto call = std::make_unique<AclnnCall>(name, first, second);
  Status status = call->take(args, n_args, n_tensors);
  for (int32_t i = 0; i < n_tensors && status.is_ok(); ++i)
    status = call->take(tensors[i], formats[i], mem_bytes);
  if (status.is_ok()) *out = std::move(call);
  return status;
}

const char *aclnn_signature(const char *name) {
  for (const Signature &signature : kSignatures) {
    if (std::strcmp(signature.name, name) == 0) return signature.arguments;
  }
  return nullptr;
}

}  // namespace aiocann::core
