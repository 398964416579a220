// api.hpp: the ACL functions as a table of pointers, filled by the loader. Members are named as the
// functions.
//
// A function that abi/acl_functions.tsv marks R is never null here: a library without it is
// refused. Any other may be null, because CANN versions differ (8.1 to 9.x): look before calling.
#pragma once
#include "acl_abi.h"

namespace aiocann::acl {

struct Api {
#define ACL_SYMBOL(name, since) decltype(&::name) name = nullptr;
#define ACLNN_SYMBOL(name) decltype(&::name) name = nullptr;
#include "acl_symbols.inc"
};

}  // namespace aiocann::acl
