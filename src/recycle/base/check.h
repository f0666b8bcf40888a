// RC_CHECK: an invariant whose violation is a bug. It is on in every build; it prints the
// condition, the place and the streamed message, and ends the process with exit code 70 without
// unwinding. A dead worker is an event this system survives, so failing stop is the cheap answer.
//
//   RC_CHECK(stage.value() < num_stages) << "stage " << stage << " of " << num_stages;
//
// Thread-safe.
#ifndef RECYCLE_BASE_CHECK_H_
#define RECYCLE_BASE_CHECK_H_

#include <sstream>

namespace recycle::internal {

// Collects the message of a failed check; its destructor prints it and ends the process.
class CheckFailure {
 public:
  CheckFailure(const char* condition, const char* file, int line);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Makes both arms of RC_CHECK's conditional void.
struct Voidify {
  void operator&(std::ostream& /*stream*/) const {}
};

}  // namespace recycle::internal

#define RC_CHECK(condition)                           \
  (__builtin_expect(static_cast<bool>(condition), 1)) \
      ? static_cast<void>(0)                          \
      : ::recycle::internal::Voidify() &              \
            ::recycle::internal::CheckFailure(#condition, __FILE__, __LINE__).stream()

#endif  // RECYCLE_BASE_CHECK_H_
