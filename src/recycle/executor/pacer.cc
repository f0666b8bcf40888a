#include "recycle/executor/pacer.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>
#include <vector>

#include "recycle/base/index.h"
#include "recycle/base/log.h"

namespace recycle {
namespace {

// The costs' unit is ms: a tick is a nanosecond.
Duration FromTicks(Ticks ticks) { return Duration(ticks); }

}  // namespace

void SleepOnMachineClock(TimePoint time) {
  const auto nanoseconds = time.time_since_epoch().count();
  const timespec until = {.tv_sec = nanoseconds / 1'000'000'000,
                          .tv_nsec = nanoseconds % 1'000'000'000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

Pacer::Pacer(StageId stage, const Pace& pace, const Clock& wall, SleepUntil sleep_until)
    : time_scale_(pace.time_scale),
      wall_(wall),
      sleep_until_(std::move(sleep_until)),
      costs_(pace.costs.stages.at(Index(stage.value()))) {
  const std::size_t above = Index(stage.value());
  if (above > 0) send_from_below_ = FromTicks(pace.costs.send_forward.at(above - 1));
  if (above + 1 < pace.costs.stages.size()) {
    send_from_above_ = FromTicks(pace.costs.send_backward.at(above));
  }
}

void Pacer::CatchUp() { now_ = std::max(now_, wall_.Now()); }

void Pacer::Arrive(FrameKind kind, TimePoint sent) {
  Duration on_the_way{};
  if (kind == FrameKind::kActivation || kind == FrameKind::kValidation) {
    on_the_way = send_from_below_;
  } else if (kind == FrameKind::kGradient) {
    on_the_way = send_from_above_;
  }
  now_ = std::max(now_, sent + Scaled(on_the_way));
}

Status Pacer::Meet(ReduceGroup& group) {
  const auto own = static_cast<std::uint64_t>(now_.time_since_epoch().count());
  RC_ASSIGN_OR_RETURN(const MinMax times, group.AllReduceMinMax(own));
  now_ = TimePoint(Duration(times.max));
  return OkStatus();
}

void Pacer::Hold(ActionKind kind, double factor) {
  Ticks ticks = DurationOf(costs_, kind);
  if (kind == ActionKind::kReduceGrad) ticks = costs_.all_reduce;
  if (kind == ActionKind::kStep) ticks = costs_.optimizer;
  const std::chrono::duration<double, std::nano> duration = factor * FromTicks(ticks);
  Spend(std::chrono::round<Duration>(duration));
}

void Pacer::Spend(Duration duration) {
  now_ += Scaled(duration);
  if (wall_.Now() < now_) sleep_until_(now_);
}

Duration Pacer::Scaled(Duration duration) const {
  const std::chrono::duration<double, std::nano> scaled = time_scale_ * duration;
  return std::chrono::round<Duration>(scaled);
}

void PreparePacedProcess(int place) {
  prctl(PR_SET_TIMERSLACK, 1);
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(cpus[static_cast<std::size_t>(place) % cpus.size()], &own);
  if (sched_setaffinity(0, sizeof(own), &own) != 0) {
    LogWarning("this process cannot be kept on one CPU: errno {}", errno);
  }
}

}  // namespace recycle
