#include "recycle/app/terminal.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <iostream>

namespace recycle {
namespace {

// "2026-01-31 12:00:00.000000", local time.
std::string TimeText(double unix_seconds) {
  const auto seconds = static_cast<std::time_t>(unix_seconds);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  return fmt::format("{}.{:06.0f}", text,
                     std::floor((unix_seconds - std::floor(unix_seconds)) * 1e6));
}

}  // namespace

void Terminal::Print(const std::string& text) {
  ClearLive();
  if (is_tty_) {
    std::cout << text << std::endl;
  } else {
    std::cout << " [" << TimeText(clock_.UnixSeconds()) << "] " << text << std::endl;
  }
}

void Terminal::ShowLive(const std::string& text) {
  if (!is_tty_) return;
  std::cout << "\r\033[K" << text << std::flush;  // to the line's start, clear it
  live_shown_ = true;
}

void Terminal::ClearLive() {
  if (!live_shown_) return;
  std::cout << "\r\033[K" << std::flush;
  live_shown_ = false;
}

}  // namespace recycle
