// An order: one topological order of all actions of an iteration, and who runs each micro-batch at
// each stage. It is a schedule before it is written out: every worker's actions are the order's
// actions that belong to it, in this order.
//
// Invariant: an action never stands before one it needs, so that one pass over `ops` times it.
//
// EvaluateOrder times an order exactly (the same rules and figures as plan/timeline.h, which a test
// compares; this one exists because the planner times hundreds of candidates and needs neither a
// Plan nor a search for the order).
//
// Plain data; safe to share between threads while nobody changes it.
#ifndef RECYCLE_PLANNER_ORDER_H_
#define RECYCLE_PLANNER_ORDER_H_

#include <cstdint>
#include <vector>

#include "recycle/plan/plan.h"
#include "recycle/plan/timeline.h"
#include "recycle/planner/flat_job.h"

namespace recycle {

struct Order {
  // slot * 4 + kind, kind being F, I, W or B as numbered by ActionKind.
  std::vector<std::uint32_t> ops;
  // By slot: the pipeline of the worker that runs it; -1 while nobody does.
  std::vector<std::int32_t> pipeline;

  static std::uint32_t Op(int slot, ActionKind kind) {
    return static_cast<std::uint32_t>(slot) * 4 + static_cast<std::uint32_t>(kind);
  }
  static int SlotOf(std::uint32_t op) { return static_cast<int>(op / 4); }
  static ActionKind KindOf(std::uint32_t op) { return static_cast<ActionKind>(op % 4); }
};

// Figures of `order`: period and makespan by planner.md's passes. `order` must be topological.
PlanFigures EvaluateOrder(const FlatJob& job, const Order& order);

// Proves an order legal by the rules of docs/PLAN_FORMAT.md, written independently of the timing
// and of the generators: every micro-batch has its F, I and W (or F and B) once at every stage, on
// one live worker, each after what it needs (so nothing deadlocks), within the capacities. Error:
// kInternal naming the first action that breaks a rule.
Status CheckOrder(const FlatJob& job, const Order& order);

// True if no worker ever holds more than its capacity. A property of the order alone.
bool FitsMemory(const FlatJob& job, const Order& order);

// Micro-batches (per stage) that run away from their home worker although it lives.
int MovedFromLiveHome(const FlatJob& job, const Order& order);

// Every live worker's actions; no step actions yet (AddStepActions).
Schedule ToSchedule(const FlatJob& job, const Order& order);

// Makes an order out of per-worker sequences of ops (index = worker number) and an assignment.
// Error: kFailedPrecondition if the sequences deadlock.
StatusOr<Order> OrderFromSequences(const FlatJob& job,
                                   const std::vector<std::vector<std::uint32_t>>& sequences,
                                   std::vector<std::int32_t> pipeline);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_ORDER_H_
