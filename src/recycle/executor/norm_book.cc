#include "recycle/executor/norm_book.h"

#include <cstring>

namespace recycle {
namespace {

enum class Said : std::int64_t { kNothing, kNorm, kNormAndStop };

struct WireRider {
  double squared = 0;
  Said said = Said::kNothing;
};
static_assert(sizeof(WireRider) == kRiderBytes, "it travels as it lies in memory");

std::optional<double> FindIn(const std::map<int, double>& numbers, int iteration) {
  const auto found = numbers.find(iteration);
  if (found == numbers.end()) return std::nullopt;
  return found->second;
}

}  // namespace

std::array<std::byte, kRiderBytes> EncodeRider(const std::optional<NormRider>& rider) {
  WireRider wire;
  if (rider) wire = {rider->squared, rider->stop ? Said::kNormAndStop : Said::kNorm};
  std::array<std::byte, kRiderBytes> bytes{};
  std::memcpy(bytes.data(), &wire, sizeof(wire));
  return bytes;
}

std::optional<NormRider> DecodeRider(std::span<const std::byte, kRiderBytes> bytes) {
  WireRider wire;
  std::memcpy(&wire, bytes.data(), sizeof(wire));
  if (wire.said == Said::kNothing) return std::nullopt;
  return NormRider{.squared = wire.squared, .stop = wire.said == Said::kNormAndStop};
}

std::optional<double> NormBook::own(int iteration) const { return FindIn(own_, iteration); }

std::optional<double> NormBook::total(int iteration) const { return FindIn(totals_, iteration); }

std::optional<NormRider> NormBook::RiderUp(int iteration,
                                           const std::optional<NormRider>& below) const {
  const std::optional<double> share = own(iteration - 1);
  if (!share || !below) return std::nullopt;
  return NormRider{.squared = *share + below->squared};
}

std::optional<NormRider> NormBook::RiderDown(int iteration) const {
  const Verdict* verdict = Find(iteration - 1);
  if (verdict == nullptr) return std::nullopt;
  return NormRider{.squared = verdict->squared_norm, .stop = verdict->stop};
}

void NormBook::NoteTotal(int iteration, const std::optional<NormRider>& below) {
  if (const auto total = RiderUp(iteration, below)) totals_[iteration - 1] = total->squared;
}

const Verdict* NormBook::Find(int iteration) const {
  const auto found = verdicts_.find(iteration);
  return found == verdicts_.end() ? nullptr : &found->second;
}

std::vector<Verdict> NormBook::verdicts() const {
  std::vector<Verdict> verdicts;
  verdicts.reserve(verdicts_.size());
  for (const auto& [iteration, verdict] : verdicts_) verdicts.push_back(verdict);
  return verdicts;
}

void NormBook::DropBefore(int iteration) {
  own_.erase(own_.begin(), own_.lower_bound(iteration));
  totals_.erase(totals_.begin(), totals_.lower_bound(iteration));
  verdicts_.erase(verdicts_.begin(), verdicts_.lower_bound(iteration));
}

void NormBook::Clear() {
  own_.clear();
  totals_.clear();
  verdicts_.clear();
}

}  // namespace recycle
