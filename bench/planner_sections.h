// Sections of the planner's figures (planner.cc has the list).
#ifndef RECYCLE_BENCH_PLANNER_SECTIONS_H_
#define RECYCLE_BENCH_PLANNER_SECTIONS_H_

#include <string>

#include "recycle/planner/planner.h"
#include "verdict.h"

namespace recycle {

// A plan that has been validated and whose period is certified.
struct Solved {
  double period = 0;
  double gap_percent = 0;  // to the proven bound
  double ms = 0;           // processor time
};

// Plans `request`; with `failures` >= 0 so many, wherever they do least harm.
Solved Solve(const PlanRequest& request, int failures = -1);

// "16x16 M32".
std::string JobName(int dp, int pp, int m);

void EqualFailures(Verdicts& verdicts);
void FewFailures(Verdicts& verdicts);
void RunningExample(Verdicts& verdicts);
void Throughput(Verdicts& verdicts);
void ExactSolver(Verdicts& verdicts);
void Table(Verdicts& verdicts);
void Online(Verdicts& verdicts);
void Sends(Verdicts& verdicts);
void FreedAtInput(Verdicts& verdicts);
void Stragglers(Verdicts& verdicts);

}  // namespace recycle

#endif  // RECYCLE_BENCH_PLANNER_SECTIONS_H_
