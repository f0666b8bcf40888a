// Time, injected: cores get `now` as an argument, everything else gets a Clock.
#ifndef RECYCLE_BASE_CLOCK_H_
#define RECYCLE_BASE_CLOCK_H_

#include <chrono>

namespace recycle {

// A point on the monotonic clock of this machine; comparable between its processes.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using Duration = std::chrono::nanoseconds;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // Seconds since the Unix epoch, for people and event files only: it may jump.
  virtual double UnixSeconds() const = 0;
};

// The machine's own clock; lives for ever.
const Clock& SystemClock();

// A clock that moves when told. For tests. Not thread-safe.
class ManualClock : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  double UnixSeconds() const override {
    return std::chrono::duration<double>(now_.time_since_epoch()).count();
  }
  void Advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

// `duration` in milliseconds as a floating-point number, for messages and event files.
inline double ToMilliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace recycle

#endif  // RECYCLE_BASE_CLOCK_H_
