// All-reduce over the members of one unit in one generation: a ring of chunks (reduce-scatter, then
// all-gather; Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009) in which a
// member talks to its two neighbours only. Written out here, not taken from gloo, for three
// reasons: the input is never touched, every member gets the same bits, and a test can cut between
// any hops.
//
//   RC_ASSIGN_OR_RETURN(auto group, ReduceGroup::Open(device, rank, size, generation));
//   Publish(group->addresses());
//   RC_RETURN_IF_ERROR(group->Connect(neighbours_addresses));
//   RC_RETURN_IF_ERROR(group->AllReduceSum(local_sum, total));
//   RC_ASSIGN_OR_RETURN(MinMax checksums, group->AllReduceMinMax(Checksum(total)));
//
// All members make the same calls in the same order with the same lengths. A call that fails ends
// the group: every later call returns the same error. After a death only the ring's neighbours of
// the dead see an error by themselves; the others wait until somebody Aborts them.
// One thread calls; Abort and CutForTest may come from any. Memory of the caller is never handed to
// gloo, so nothing refers to `in` or `out` once a call has returned.
#ifndef RECYCLE_COMM_REDUCE_GROUP_H_
#define RECYCLE_COMM_REDUCE_GROUP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/device.h"

namespace recycle {

struct MinMax {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

class ReduceGroup {
 public:
  // Makes this member's ends. 0 <= rank < size. Error: kResourceExhausted (file descriptors).
  static StatusOr<std::unique_ptr<ReduceGroup>> Open(const std::shared_ptr<Device>& device,
                                                     int rank, int size, Generation generation);

  // Wakes nobody, waits for nobody: peers see their connection closed.
  ~ReduceGroup();
  ReduceGroup(const ReduceGroup&) = delete;
  ReduceGroup& operator=(const ReduceGroup&) = delete;

  // By the neighbour's rank, the address that it must be given: none for a group of one, one for a
  // group of two, else two.
  std::map<int, std::string> addresses() const;

  // Takes, by neighbour, the address that it made for this member. Blocks until the neighbours have
  // come. Errors: kAborted, kUnavailable (a neighbour refused or went away).
  Status Connect(const std::map<int, std::string>& neighbour_addresses);

  // out[i] = the sum of every member's in[i], added in an order that depends on i and the size
  // only; bitwise the same on all members. `in` and `out` have the same length and do not overlap;
  // on error `out` holds no meaning and `in` what it held. Errors: kAborted, kUnavailable.
  Status AllReduceSum(std::span<const float> in, std::span<float> out);
  Status AllReduceSum(std::span<const double> in, std::span<double> out);
  Status AllReduceSum(std::span<const std::uint64_t> in, std::span<std::uint64_t> out);  // mod 2^64

  // The smallest and the largest `value` of all members: the commit round. Errors as above.
  StatusOr<MinMax> AllReduceMinMax(std::uint64_t value);

  // Wakes this member's blocked call, which returns kAborted with `why`, as does every later one.
  // Only the first `why` counts. Neighbours see their connection closed.
  void Abort(const std::string& why);

  // `hook` is called before hop h of every AllReduceSum, 0 <= h < 2 * (size - 1): fault injection.
  void SetHopHook(std::function<void(int hop)> hook);

  // Cuts the connections to the neighbours as a network failure would.
  void CutForTest();

 private:
  class Ring;
  explicit ReduceGroup(std::unique_ptr<Ring> ring);

  std::unique_ptr<Ring> ring_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_REDUCE_GROUP_H_
