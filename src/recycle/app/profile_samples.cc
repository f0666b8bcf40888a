#include "recycle/app/profile_samples.h"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "recycle/base/file.h"

namespace recycle {
namespace {

using nlohmann::json;

// What both ends of a send write of it: receiver, kind, iteration, micro-batch.
using SendName = std::tuple<WorkerId, std::string, int, int>;

struct Sent {
  WorkerId from;
  double bytes = 0;
  double at_ms = 0;
};

// Runs `read` and turns a missing or mistyped member into kDataLoss.
Status Reading(const std::string& path, const std::function<Status()>& read) {
  Status status;
  try {
    status = read();
  } catch (const json::exception& error) {
    status = absl::DataLossError(error.what());
  }
  if (status.ok()) return status;
  return absl::DataLossError(
      fmt::format("'{}' is damaged: {}", path, std::string(status.message())));
}

std::optional<SentKind> KindOf(const std::string& text) {
  if (text == "activation") return SentKind::kActivation;
  if (text == "gradient") return SentKind::kGradient;
  if (text == "norm_up" || text == "norm_down") return SentKind::kNorm;
  return std::nullopt;
}

Status ReadTrace(const std::string& path, ProfileSamples& samples) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  return Reading(path, [&]() -> Status {
    const json trace = json::parse(text);
    for (const json& event : trace.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const json& args = event.at("args");
      ActionSample sample;
      sample.worker = {PipelineId(event.at("pid").get<int>()), StageId(event.at("tid").get<int>())};
      RC_ASSIGN_OR_RETURN(sample.action, ParseAction(args.at("action").get<std::string>()));
      sample.iteration = args.at("iteration");
      sample.start_ms = event.at("ts").get<double>() / 1e3;
      sample.end_ms = sample.start_ms + event.at("dur").get<double>() / 1e3;
      samples.actions.push_back(sample);
    }
    return OkStatus();
  });
}

class PartReader {
 public:
  explicit PartReader(ProfileSamples& samples) : samples_(samples) {}

  Status Read(const std::string& path, WorkerId worker) {
    RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
    return Reading(path, [&]() -> Status {
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line) && !lines.eof();) {
        RC_RETURN_IF_ERROR(ReadLine(json::parse(line), worker));
      }
      return OkStatus();
    });
  }

  // The sends of all parts that were read.
  void MatchSends() {
    for (const auto& [name, sent] : sent_) {
      const auto arrived = arrived_ms_.find(name);
      const std::optional<SentKind> kind = KindOf(std::get<1>(name));
      if (arrived == arrived_ms_.end() || !kind) continue;
      samples_.sends.push_back({.from = sent.from,
                                .to = std::get<0>(name),
                                .kind = *kind,
                                .iteration = std::get<2>(name),
                                .bytes = sent.bytes,
                                .ms = arrived->second - sent.at_ms});
    }
  }

 private:
  Status ReadLine(const json& line, WorkerId worker) {
    const auto name = [&](WorkerId receiver, const char* key) {
      return SendName(receiver, line.at(key).get<std::string>(), line.at("it").get<int>(),
                      line.at("mb").get<int>());
    };
    if (line.contains("a")) {
      HeldSample sample;
      sample.worker = worker;
      RC_ASSIGN_OR_RETURN(sample.action, ParseAction(line.at("a").get<std::string>()));
      sample.iteration = line.at("it");
      sample.bytes = line.at("held");
      samples_.held.push_back(sample);
    } else if (line.contains("sent")) {
      RC_ASSIGN_OR_RETURN(const WorkerId to, ParseWorkerId(line.at("to").get<std::string>()));
      sent_[name(to, "sent")] = {worker, line.at("n").get<double>(),
                                 line.at("t").get<double>() / 1e3};
    } else if (line.contains("came")) {
      arrived_ms_[name(worker, "came")] = line.at("t").get<double>() / 1e3;
    } else {
      samples_.states.push_back({.stage = worker.stage,
                                 .parameter_bytes = line.at("parameters"),
                                 .state_bytes = line.at("state")});
    }
    return OkStatus();
  }

  ProfileSamples& samples_;
  std::map<SendName, Sent> sent_;
  std::map<SendName, double> arrived_ms_;
};

}  // namespace

StatusOr<ProfileSamples> ReadProfileSamples(const RunFolder& folder,
                                            const std::vector<WorkerId>& workers) {
  ProfileSamples samples;
  RC_RETURN_IF_ERROR(ReadTrace(folder.Trace(), samples));
  PartReader parts(samples);
  for (const WorkerId worker : workers) {
    RC_RETURN_IF_ERROR(parts.Read(folder.ProfilePart(worker), worker));
  }
  parts.MatchSends();
  return samples;
}

}  // namespace recycle
