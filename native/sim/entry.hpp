// entry.hpp: what every exported function does first: let a test make it fail, and name itself in messages.
#pragma once
#include "sim/error.hpp"
#include "sim/faults.hpp"

/// First line of an exported function that returns aclError. Costs one relaxed load when no fault is armed.
#define ACL_ENTRY()                                                                          \
  do {                                                                                       \
    if (::aiocann::sim::faults_armed()) {                                                    \
      if (const int code_ = ::aiocann::sim::injected_call_fault(__func__)) {                 \
        return ::aiocann::sim::fail(code_, "%s failed: fault injected by a test", __func__); \
      }                                                                                      \
    }                                                                                        \
  } while (false)

/// The same for one that returns a pointer: NULL is its failure.
#define ACL_ENTRY_POINTER()                                                           \
  do {                                                                                \
    if (::aiocann::sim::faults_armed()) {                                             \
      if (const int code_ = ::aiocann::sim::injected_call_fault(__func__)) {          \
        ::aiocann::sim::fail(code_, "%s failed: fault injected by a test", __func__); \
        return nullptr;                                                               \
      }                                                                               \
    }                                                                                 \
  } while (false)

/// NULL out-pointers are rejected by the ACL layer.
#define REQUIRE_NOT_NULL(pointer)                                                                 \
  do {                                                                                            \
    if ((pointer) == nullptr) {                                                                   \
      return ::aiocann::sim::fail(ACL_ERROR_INVALID_PARAM, "%s: %s is NULL", __func__, #pointer); \
    }                                                                                             \
  } while (false)
