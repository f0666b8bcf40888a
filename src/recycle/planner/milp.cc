#include "recycle/planner/milp.h"

#include <algorithm>
#include <array>
#include <coin/CbcModel.hpp>
#include <coin/CbcSolver.hpp>
#include <coin/CoinPackedMatrix.hpp>
#include <coin/OsiClpSolverInterface.hpp>
#include <string>

namespace recycle {
namespace {

// CBC's command-line driver, with its cuts and heuristics, is set up by flags.
int NoCallback(CbcModel* /*model*/, int /*where*/) { return 0; }

Milp::Outcome OutcomeOf(const CbcModel& model) {
  const bool found = model.bestSolution() != nullptr;
  if (model.isProvenOptimal()) return found ? Milp::Outcome::kOptimal : Milp::Outcome::kInfeasible;
  if (model.isProvenInfeasible()) return Milp::Outcome::kInfeasible;
  return found ? Milp::Outcome::kFeasible : Milp::Outcome::kUnknown;
}

}  // namespace

int Milp::AddContinuous(double low, double high, double cost) {
  low_.push_back(low);
  high_.push_back(high);
  cost_.push_back(cost);
  integer_.push_back(false);
  return num_variables() - 1;
}

int Milp::AddInteger(double low, double high, double cost) {
  const int variable = AddContinuous(low, high, cost);
  integer_.back() = true;
  return variable;
}

void Milp::AddRow(const Terms& terms, double low, double high) {
  rows_.push_back({.terms = terms, .low = low, .high = high});
}

Milp::Solution Milp::Minimize(std::chrono::milliseconds limit) const {
  OsiClpSolverInterface solver;
  solver.messageHandler()->setLogLevel(0);
  CoinPackedMatrix matrix(false, 0, 0);
  matrix.setDimensions(0, num_variables());
  std::vector<double> row_low;
  std::vector<double> row_high;
  for (const Row& row : rows_) {
    CoinPackedVector vector;
    for (const auto& [variable, factor] : row.terms) vector.insert(variable, factor);
    matrix.appendRow(vector);
    row_low.push_back(std::max(row.low, -solver.getInfinity()));
    row_high.push_back(std::min(row.high, solver.getInfinity()));
  }
  solver.loadProblem(matrix, low_.data(), high_.data(), cost_.data(), row_low.data(),
                     row_high.data());
  for (int variable = 0; variable < num_variables(); ++variable) {
    if (integer_[static_cast<std::size_t>(variable)]) solver.setInteger(variable);
  }
  CbcModel model(solver);
  CbcSolverUsefulData state;
  CbcMain0(model, state);
  model.messageHandler()->setLogLevel(0);
  const std::string seconds = std::to_string(static_cast<double>(limit.count()) / 1000);
  std::array<const char*, 8> flags = {"recycle",       "-log",   "0",     "-seconds",
                                      seconds.c_str(), "-solve", "-quit", nullptr};
  CbcMain1(7, flags.data(), model, NoCallback, state);
  Solution solution;
  solution.outcome = OutcomeOf(model);
  solution.bound = model.getBestPossibleObjValue();
  if (const double* values = model.bestSolution(); values != nullptr) {
    solution.values.assign(values, values + num_variables());
  }
  return solution;
}

}  // namespace recycle
