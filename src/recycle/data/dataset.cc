#include "recycle/data/dataset.h"

#include <fmt/format.h>

#include <cmath>

#include "recycle/base/check.h"

namespace recycle {

StatusOr<Dataset> Dataset::Create(TokenFile tokens, int sequence, double validation_fraction) {
  RC_CHECK(sequence >= 1) << "sequence " << sequence;
  if (!(validation_fraction >= 0.0 && validation_fraction < 1.0)) {
    return absl::InvalidArgumentError(fmt::format(
        "data.validation is {}: it must be at least 0 and below 1; the nearest valid choice is {}",
        validation_fraction, validation_fraction >= 1.0 ? "0.99" : "0"));
  }
  // The last target of a sample is the first input of the next.
  const std::int64_t num_samples = (tokens.num_tokens() - 1) / sequence;
  const auto num_validation =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(num_samples) * validation_fraction));
  if (num_samples < 1) {
    return absl::InvalidArgumentError(fmt::format(
        "data.text has {} tokens: a sample needs model.sequence + 1 = {}; take a longer text or a "
        "smaller model.sequence",
        tokens.num_tokens(), sequence + 1));
  }
  if (num_validation >= num_samples) {
    return absl::InvalidArgumentError(
        fmt::format("data.validation is {}: of the {} samples of {} tokens in data.text it leaves "
                    "none for training; take a longer text or data.validation: 0",
                    validation_fraction, num_samples, sequence));
  }
  return Dataset(std::move(tokens), sequence, num_samples, num_samples - num_validation);
}

void Dataset::Fill(std::int64_t sample, std::span<std::int64_t> inputs,
                   std::span<std::int64_t> targets) const {
  const auto length = static_cast<std::size_t>(sequence_);
  RC_CHECK(sample >= 0 && sample < num_samples_) << "sample " << sample << " of " << num_samples_;
  RC_CHECK(inputs.size() == length && targets.size() == length)
      << inputs.size() << " inputs and " << targets.size() << " targets, not " << length;
  tokens_.Copy(sample * sequence_, inputs);
  tokens_.Copy(sample * sequence_ + 1, targets);
}

}  // namespace recycle
