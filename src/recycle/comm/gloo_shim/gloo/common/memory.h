// Stands in for gloo/common/memory.h, which Debian's libgloo-dev forgets to install but whose types
// are members of gloo::transport::tcp classes. Only the layout matters here: every function that
// uses these types is compiled into libgloo, and the destructor is left undefined so that a use
// from this side fails to link instead of replacing the library's own.
#ifndef RECYCLE_COMM_GLOO_SHIM_GLOO_COMMON_MEMORY_H_
#define RECYCLE_COMM_GLOO_SHIM_GLOO_COMMON_MEMORY_H_

#include <memory>

namespace gloo {

template <typename T>
class NonOwningPtr;

template <typename T>
class WeakNonOwningPtr {
 public:
  WeakNonOwningPtr() = default;
  template <typename Owner>
  explicit WeakNonOwningPtr(const Owner& owner) : pointer_(owner.pointer_) {}

 private:
  std::weak_ptr<T> pointer_;
};

template <typename T>
class ShareableNonOwningPtr {
 public:
  explicit ShareableNonOwningPtr(T* object);
  ~ShareableNonOwningPtr();

 private:
  friend class WeakNonOwningPtr<T>;
  std::shared_ptr<T> pointer_;
};

}  // namespace gloo

#endif  // RECYCLE_COMM_GLOO_SHIM_GLOO_COMMON_MEMORY_H_
