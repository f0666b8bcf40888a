// Figures beside what is asked of them, a line each, with a verdict.
#ifndef RECYCLE_BENCH_VERDICT_H_
#define RECYCLE_BENCH_VERDICT_H_

#include <string>

namespace recycle {

// Counts the lines of a program; print to standard output. One thread.
class Verdicts {
 public:
  void AtMost(const std::string& what, double ours, double limit) {
    Line(what, ours, "<=", limit, ours <= limit + kSlack);
  }
  void AtLeast(const std::string& what, double ours, double limit) {
    Line(what, ours, ">=", limit, ours >= limit - kSlack);
  }
  void Equal(const std::string& what, double ours, double expected) {
    Line(what, ours, "==", expected, ours <= expected + kSlack && ours >= expected - kSlack);
  }
  int misses() const { return misses_; }
  void PrintTotal() const;

 private:
  static constexpr double kSlack = 1e-6;
  void Line(const std::string& what, double ours, const char* relation, double asked, bool met);

  int lines_ = 0;
  int misses_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_BENCH_VERDICT_H_
