#include "recycle/plan/pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "recycle/plan/gantt_page.h"
#include "recycle/plan/timeline.h"

namespace recycle {
namespace {

// ---- The grid ----

// Text of an action in a cell: without the stage where the row says it; '*' marks re-routed work.
std::string CellText(const Plan& plan, WorkerId worker, const Action& action) {
  std::string text = ToString(action);
  if (plan.parallel.virtual_stages == 1) text.erase(0, std::to_string(action.stage.value()).size());
  if (HasMicroBatch(action.kind) && action.micro_batch.home != worker.pipeline) text += '*';
  return text;
}

struct Cell {
  std::int64_t slot = 0;
  std::int64_t slots = 1;
  std::string text;
};

// The cells of every row, by time if the plan can be timed, else by position.
struct Cells {
  std::vector<std::vector<Cell>> rows;
  std::vector<std::vector<std::size_t>> positions;  // per row: the cell's index into the actions
  std::int64_t slots = 0;
  std::size_t width = 0;  // of a slot, in characters
  bool timed = false;
};

// The shortest duration, but at least what keeps the grid below a thousand slots.
Ticks SlotTicks(const Timeline& timeline) {
  constexpr Ticks kMaxSlots = 1000;
  Ticks shortest = timeline.makespan;
  for (const std::vector<TimedAction>& row : timeline.workers) {
    for (const TimedAction& timed : row) {
      if (timed.end > timed.start) shortest = std::min(shortest, timed.end - timed.start);
    }
  }
  return std::max({shortest, timeline.makespan / kMaxSlots, Ticks{1}});
}

Cells TimedCells(const Plan& plan, const Timeline& timeline) {
  Cells cells;
  cells.timed = true;
  const Ticks slot = SlotTicks(timeline);
  const auto to_slot = [slot](Ticks time) { return (time + slot / 2) / slot; };
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    std::vector<Cell>& row = cells.rows.emplace_back();
    std::vector<std::size_t>& positions = cells.positions.emplace_back();
    std::int64_t free = 0;
    std::size_t next = 0;
    for (std::size_t p = 0; p < plan.workers[w].actions.size(); ++p) {
      const Action& action = plan.workers[w].actions[p];
      if (!HasMicroBatch(action.kind)) continue;
      const TimedAction& timed = timeline.workers[w][next++];
      const std::int64_t begin = std::max(free, to_slot(timed.start));
      free = std::max(begin + 1, to_slot(timed.end));
      row.push_back({begin, free - begin, CellText(plan, plan.workers[w].worker, action)});
      positions.push_back(p);
    }
    cells.slots = std::max(cells.slots, free);
  }
  return cells;
}

Cells OrderedCells(const Plan& plan) {
  Cells cells;
  for (const WorkerSchedule& entry : plan.workers) {
    std::vector<Cell>& row = cells.rows.emplace_back();
    std::vector<std::size_t>& positions = cells.positions.emplace_back();
    for (std::size_t p = 0; p < entry.actions.size(); ++p) {
      row.push_back(
          {static_cast<std::int64_t>(p), 1, CellText(plan, entry.worker, entry.actions[p])});
      positions.push_back(p);
    }
    cells.slots = std::max(cells.slots, static_cast<std::int64_t>(row.size()));
  }
  return cells;
}

std::string RowText(const std::vector<Cell>& row, std::size_t width) {
  std::string text;
  std::int64_t slot = 0;
  const auto pad = [&](std::string cell, char filler) {
    cell.resize(std::max(cell.size(), width - 1), filler);
    text += cell + ' ';
  };
  for (const Cell& cell : row) {
    for (; slot < cell.slot; ++slot) pad(".", ' ');
    std::string body = cell.text;
    const std::size_t columns = width * static_cast<std::size_t>(cell.slots) - 1;
    if (cell.slots > 1) body.resize(std::max(body.size(), columns), '=');
    body.resize(std::max(body.size(), columns), ' ');
    text += body + ' ';
    slot += cell.slots;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// A ruler above the grid: the number of every fifth slot.
std::string RulerText(const Cells& cells) {
  constexpr std::int64_t kEvery = 5;
  std::string text;
  for (std::int64_t slot = 0; slot < cells.slots; slot += kEvery) {
    text.resize(cells.width * static_cast<std::size_t>(slot), ' ');
    text += std::to_string(slot);
  }
  return text;
}

// Lines under the row of worker `w` that point at its errors.
std::string ErrorLines(const Cells& cells, std::size_t w, WorkerId worker, std::size_t margin,
                       const std::vector<Violation>& violations) {
  std::string lines;
  for (const Violation& violation : violations) {
    if (violation.worker != worker) continue;
    std::size_t column = 0;
    for (std::size_t c = 0; c < cells.rows[w].size(); ++c) {
      if (violation.position == cells.positions[w][c]) {
        column = cells.width * static_cast<std::size_t>(cells.rows[w][c].slot);
      }
    }
    lines += std::string(margin + column, ' ') +
             fmt::format("^ <-- here: rule {}: {}\n", violation.rule, violation.message);
  }
  return lines;
}

bool HasRow(const Plan& plan, const Violation& violation) {
  return violation.worker && FindWorker(plan.workers, *violation.worker) != nullptr;
}

// ---- The Chrome trace ----

// Microseconds of a trace: one cost unit is a millisecond, so a tick is a nanosecond.
std::string Microseconds(Ticks ticks) {
  return fmt::format("{}.{:03}", ticks / 1000, ticks % 1000);
}

std::string NameEvent(std::string_view what, int process, int thread, const std::string& name) {
  return fmt::format(
      R"({{"name": "{}", "ph": "M", "pid": {}, "tid": {}, "args": {{"name": "{}"}}}})", what,
      process, thread, name);
}

std::string SliceEvent(WorkerId worker, const TimedAction& timed) {
  const MicroBatch b = timed.action.micro_batch;
  const bool rerouted = b.home != worker.pipeline;
  return fmt::format(
      R"({{"name": "{}", "cat": "{}{}", "ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}, )"
      R"("args": {{"micro_batch": "{}", "home": {}, "rerouted": {}}}}})",
      ToString(timed.action), KindText(timed.action.kind), rerouted ? ",rerouted" : "",
      worker.pipeline.value(), worker.stage.value(), Microseconds(timed.start),
      Microseconds(timed.end - timed.start), ToString(b), b.home.value(), rerouted);
}

// The optimizer of `stage`, on a process of its own: steps overlap with work of other stages.
std::string StepEvent(const Plan& plan, int stage, Ticks step_end) {
  const Ticks optimizer = plan.costs.stages[static_cast<std::size_t>(stage)].optimizer;
  return fmt::format(
      R"({{"name": "{}", "cat": "STEP", "ph": "X", "pid": {}, "tid": {}, "ts": {}, "dur": {}}})",
      ToString(Action{ActionKind::kStep, StageId(stage), {}}), plan.parallel.data, stage,
      Microseconds(step_end - optimizer), Microseconds(optimizer));
}

}  // namespace

std::string PlanToGrid(const Plan& plan, const std::vector<Violation>& violations) {
  const StatusOr<Timeline> timeline = ComputeTimeline(plan);
  Cells cells = timeline.ok() ? TimedCells(plan, *timeline) : OrderedCells(plan);
  for (const std::vector<Cell>& row : cells.rows) {
    for (const Cell& cell : row) cells.width = std::max(cells.width, cell.text.size() + 1);
  }
  std::size_t margin = 0;
  for (const WorkerSchedule& entry : plan.workers) {
    margin = std::max(margin, ToString(entry.worker).size() + 2);
  }
  std::string text(margin, ' ');
  text += RulerText(cells) + '\n';
  for (std::size_t w = 0; w < plan.workers.size(); ++w) {
    std::string label = ToString(plan.workers[w].worker);
    label.resize(margin, ' ');
    text += label + RowText(cells.rows[w], cells.width) + '\n';
    text += ErrorLines(cells, w, plan.workers[w].worker, margin, violations);
  }
  for (const WorkerId worker : plan.failed) text += ToString(worker) + "  dead\n";
  if (!cells.timed) text += "(in order only: the plan cannot be timed)\n";
  for (const Violation& violation : violations) {
    if (HasRow(plan, violation)) continue;
    text += fmt::format("<-- here: rule {}: {}\n", violation.rule, violation.message);
  }
  return text;
}

StatusOr<std::string> PlanToChromeTrace(const Plan& plan) {
  RC_ASSIGN_OR_RETURN(const Timeline timeline, ComputeTimeline(plan));
  std::vector<std::string> events;
  events.reserve(static_cast<std::size_t>(plan.parallel.data));
  for (int k = 0; k < plan.parallel.data; ++k) {
    events.push_back(NameEvent("process_name", k, 0, fmt::format("pipeline {}", k)));
  }
  events.push_back(NameEvent("process_name", plan.parallel.data, 0, "optimizer steps"));
  for (const WorkerSchedule& entry : plan.workers) {
    const int column = entry.worker.stage.value();
    events.push_back(NameEvent("thread_name", entry.worker.pipeline.value(), column,
                               fmt::format("worker {}", ToString(entry.worker))));
  }
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    for (const TimedAction& timed : timeline.workers[w]) {
      events.push_back(SliceEvent(plan.workers[w].worker, timed));
    }
  }
  for (int s = 0; s < plan.parallel.num_stages(); ++s) {
    events.push_back(StepEvent(plan, s, timeline.step_end[static_cast<std::size_t>(s)]));
  }
  return fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n",
                     fmt::join(events, ",\n"));
}

StatusOr<std::string> PlanToHtml(const Plan& plan, const Plan* fault_free) {
  GanttPage page;
  if (fault_free != nullptr) {
    RC_ASSIGN_OR_RETURN(const Timeline timeline, ComputeTimeline(*fault_free));
    page.Add("fault-free", *fault_free, timeline);
  }
  RC_ASSIGN_OR_RETURN(const Timeline timeline, ComputeTimeline(plan));
  const std::string title =
      plan.failed.empty()
          ? "no failures"
          : fmt::format("{} of {} workers failed", plan.failed.size(), plan.parallel.num_workers());
  page.Add(title, plan, timeline);
  return page.Finish();
}

}  // namespace recycle
