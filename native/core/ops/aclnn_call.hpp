// aclnn_call.hpp: a call of any aclnn operator, by name, as a graph of one node.
#pragma once
#include <memory>

#include "acl/loader.hpp"
#include "core/graph.hpp"

namespace aiocann::core {

/// Finds both phases of the operator and copies its arguments; `tensors` lie in memory that the caller keeps.
Status create_aclnn_call(const acl::Library &library, const char *name,
                         const aiocann_aclnn_arg *args, int32_t n_args,
                         const aiocann_tensor *tensors, const int32_t *formats, int32_t n_tensors,
                         std::unique_ptr<Graph> *out, MemBytes mem_bytes = &aiocann_mem_nbytes);

/// "self:tensor other:tensor alpha:scalar out:tensor"; nullptr: not in the tables.
const char *aclnn_signature(const char *name);

}  // namespace aiocann::core
