// Standard output of the launcher. On a terminal one live line is written over again and again
// below the lines that stay; elsewhere every line stays and begins with the time, as logs do.
//
// Not thread-safe.
#ifndef RECYCLE_APP_TERMINAL_H_
#define RECYCLE_APP_TERMINAL_H_

#include <string>

#include "recycle/base/clock.h"

namespace recycle {

class Terminal {
 public:
  Terminal(bool is_tty, const Clock& clock) : is_tty_(is_tty), clock_(clock) {}
  ~Terminal() { ClearLive(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool is_tty() const { return is_tty_; }
  // A line that stays.
  void Print(const std::string& text);
  // The live line; on a terminal only.
  void ShowLive(const std::string& text);

 private:
  void ClearLive();

  const bool is_tty_;
  const Clock& clock_;
  bool live_shown_ = false;
};

}  // namespace recycle

#endif  // RECYCLE_APP_TERMINAL_H_
