#include "verdict.h"

#include <fmt/format.h>

#include <cstdio>

namespace recycle {

void Verdicts::Line(const std::string& what, double ours, const char* relation, double asked,
                    bool met) {
  ++lines_;
  misses_ += met ? 0 : 1;
  fmt::print("  {:<62} {:>10.4g} {} {:<8.6g} {}\n", what, ours, relation, asked,
             met ? "PASS" : "MISS");
  std::fflush(stdout);
}

void Verdicts::PrintTotal() const {
  fmt::print("{} of {} figures as asked\n", lines_ - misses_, lines_);
}

}  // namespace recycle
