// Prints what the executor's traffic costs between processes on this machine:
//
//   comm_benchmark [members]     (3 by default)
//
// all-reduce of 4 and 64 MB over a ring, and round trips and streams on one link.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "recycle/comm/comm_testing.h"
#include "recycle/comm/mesh.h"
#include "recycle/comm/reduce_group.h"

namespace recycle {
namespace {

constexpr int kRounds = 20;
constexpr int kFrames = 100;

// Of all threads of this process: what a wall clock shows on an idle machine, more or less.
double CpuMilliseconds() { return 1000.0 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void ReduceMember(int rank, int size, Wire& wire) {
  const std::shared_ptr<Device> device = MakeDevice();
  const auto group = *ReduceGroup::Open(device, rank, size, Generation(1));
  wire.WriteAddresses(group->addresses());
  RC_CHECK(group->Connect(wire.ReadAddresses()).ok());
  for (const std::size_t megabytes : {4, 64}) {
    const std::vector<float> in(megabytes << 18, 1);
    std::vector<float> out(in.size());
    std::vector<double> times_ms;
    double cpu_ms = 0;
    for (int round = 0; round < kRounds; ++round) {
      RC_CHECK(group->AllReduceMinMax(0).ok());
      const TimePoint start = SystemClock().Now();
      const double cpu_start_ms = CpuMilliseconds();
      RC_CHECK(group->AllReduceSum(in, out).ok());
      times_ms.push_back(MillisecondsSince(start));
      cpu_ms += CpuMilliseconds() - cpu_start_ms;
    }
    wire.Write(fmt::format(
        "all-reduce of {} MB over {} members: fastest {:.1f}, median {:.1f} ms; CPU {:.1f} ms each",
        megabytes, size, *std::min_element(times_ms.begin(), times_ms.end()), Median(times_ms),
        cpu_ms / kRounds));
  }
}

// Rank 0 asks and measures, rank 1 answers each request, the last of a stream in particular.
void LinkMember(int rank, Wire& wire) {
  constexpr std::size_t kMaxBytes = 8 << 20;
  const auto worker = [](int of_rank) { return WorkerId{PipelineId(of_rank), StageId(0)}; };
  const WorkerId peer = worker(1 - rank);
  Inbox inbox;
  Mesh mesh(MakeDevice(), worker(rank), kMaxBytes, inbox, [](WorkerId, const std::string&) {});
  wire.WriteAddresses({{1 - rank, mesh.Open({peer}).at(peer)}});
  RC_CHECK(mesh.Connect({{peer, wire.ReadAddresses().at(1 - rank)}}).ok());
  int next = 0;
  for (const std::size_t bytes :
       {std::size_t{4} << 10, std::size_t{64} << 10, std::size_t{1} << 20, kMaxBytes}) {
    const auto key = [](int iteration) {
      return FrameKey{iteration, FrameKind::kActivation, StageId(0), 0};
    };
    const auto take = [&](int iteration) { RC_CHECK(inbox.Take(key(iteration)).ok()); };
    std::vector<double> times_us;
    const double cpu_start_ms = CpuMilliseconds();
    for (int round = 0; round < kFrames; ++round, ++next) {
      Frame sent{Generation(0), key(next), std::vector<std::byte>(bytes)};
      const TimePoint start = SystemClock().Now();
      if (rank == 1) take(next);
      RC_CHECK(mesh.Send(peer, std::move(sent)).ok());
      if (rank == 0) take(next);
      times_us.push_back(1000 * MillisecondsSince(start) / 2);
    }
    if (rank == 0) {
      wire.Write(fmt::format(
          "frame of {} KB one way: fastest {:.0f}, median {:.0f} us; CPU {:.0f} us at each end",
          bytes >> 10, *std::min_element(times_us.begin(), times_us.end()), Median(times_us),
          1000 * (CpuMilliseconds() - cpu_start_ms) / (2 * kFrames)));
    }
  }
  wire.Read();  // the last answer must get through before the mesh closes
}

void Run(int size, const std::function<void(int rank, Wire& wire)>& body, int lines) {
  ForkedMembers members(size, body);
  members.RouteAddresses();
  for (int line = 0; line < lines; ++line) fmt::print("{}\n", members.wire(0).Read());
}

}  // namespace
}  // namespace recycle

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 3;
  recycle::Run(
      size, [&](int rank, recycle::Wire& wire) { recycle::ReduceMember(rank, size, wire); }, 2);
  recycle::Run(2, recycle::LinkMember, 4);
  return 0;
}
