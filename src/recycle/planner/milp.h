// A small mixed-integer linear program and its solution by COIN-OR CBC.
//
//   Milp milp;
//   const int x = milp.AddInteger(0, 10, 1.0);          // bounds, cost
//   milp.AddRow({{x, 2.0}}, 3.0, Milp::kInfinity);      // 3 <= 2x
//   Milp::Solution solution = milp.Minimize(std::chrono::seconds(10));
//
// CBC keeps global state: one program may be solved at a time in a process.
#ifndef RECYCLE_PLANNER_MILP_H_
#define RECYCLE_PLANNER_MILP_H_

#include <chrono>
#include <limits>
#include <utility>
#include <vector>

namespace recycle {

class Milp {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  using Terms = std::vector<std::pair<int, double>>;  // variable, factor; each variable once

  enum class Outcome {
    kOptimal,     // values are proven best
    kFeasible,    // values are the best found in time
    kInfeasible,  // proven to have no solution
    kUnknown,     // out of time without a solution
  };

  struct Solution {
    Outcome outcome = Outcome::kUnknown;
    double bound = -kInfinity;   // no solution costs less
    std::vector<double> values;  // by variable; empty without a solution
  };

  // Return the variable's number.
  int AddContinuous(double low, double high, double cost);
  int AddInteger(double low, double high, double cost);
  int AddBinary(double cost = 0) { return AddInteger(0, 1, cost); }

  void AddRow(const Terms& terms, double low, double high);

  int num_variables() const { return static_cast<int>(low_.size()); }

  // CBC looks at the clock between nodes only, so a solve may take longer than `limit`.
  Solution Minimize(std::chrono::milliseconds limit) const;

 private:
  struct Row {
    Terms terms;
    double low;
    double high;
  };
  std::vector<double> low_;
  std::vector<double> high_;
  std::vector<double> cost_;
  std::vector<bool> integer_;
  std::vector<Row> rows_;
};

}  // namespace recycle

#endif  // RECYCLE_PLANNER_MILP_H_
