// ref.hpp: intrusive reference counting for what tasks and handles share.
#pragma once
#include <utility>

namespace aiocann::sim {

/// T has retain() and release(). As small as a pointer, so a task stays small.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T *object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  /// Takes over a reference that the caller holds.
  static Ref adopt(T *object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref &other) : Ref(other.object_) {}
  Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  T *get() const { return object_; }
  T *operator->() const { return object_; }
  T &operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T *object_ = nullptr;
};

}  // namespace aiocann::sim
