#include "recycle/app/record_json.h"

#include <fmt/format.h>

#include <chrono>

#include "recycle/app/event_writer.h"

namespace recycle {
namespace {

constexpr LossCause kCauses[] = {LossCause::kLink,      LossCause::kProcess, LossCause::kWords,
                                 LossCause::kNotice,    LossCause::kSilence, LossCause::kProgress,
                                 LossCause::kCorruption};

Status Damaged(const std::string& why) {
  return absl::DataLossError(fmt::format("a record in the store is damaged: {}", why));
}

// Throws on what is no worker, as nlohmann does.
WorkerId ReadWorker(const Json& json) { return ParseWorkerId(json.get<std::string>()).value(); }

LostWorker ReadLost(const Json& json, TimePoint now) {
  LostWorker lost;
  lost.worker = ReadWorker(json.at("worker"));
  const std::string cause = json.at("cause");
  for (const LossCause candidate : kCauses) {
    if (CauseText(candidate) == cause) lost.cause = candidate;
  }
  lost.detected_by = json.at("detected_by");
  lost.first_signal = now - std::chrono::microseconds(json.at("us_ago").get<std::int64_t>());
  lost.iteration = json.at("iteration");
  return lost;
}

GenerationRecord ReadRecord(const Json& json, TimePoint now) {
  GenerationRecord record;
  record.generation = Generation(json.at("generation").get<std::int64_t>());
  for (const auto& [worker, pid] : json.at("members").items()) {
    const WorkerId member = ReadWorker(worker);
    record.members.push_back(member);
    record.pids[member] = pid.get<std::int32_t>();
  }
  for (const Json& lost : json.at("lost")) record.lost.push_back(ReadLost(lost, now));
  for (const auto& [worker, donor] : json.at("returning").items()) {
    record.returning[ReadWorker(worker)] = ReadWorker(donor);
  }
  for (const Json& link : json.at("relinked")) {
    record.relinked.emplace_back(ReadWorker(link.at(0)), ReadWorker(link.at(1)));
  }
  if (json.contains("restore")) record.restore = json.at("restore").get<std::int32_t>();
  record.from_memory = json.value("from_memory", false);
  for (const Json& costs : json.value("measured", Json::array())) {
    record.measured.push_back({.forward = costs.at(0).get<Ticks>(),
                               .backward_input = costs.at(1).get<Ticks>(),
                               .backward_weight = costs.at(2).get<Ticks>()});
  }
  const Json moving = json.value("moving", Json::object());
  for (const auto& [from, to] : moving.items()) {
    record.moving[ReadWorker(from)] = ReadWorker(to);
  }
  record.reason = json.at("reason");
  return record;
}

}  // namespace

std::string ToJson(const GenerationRecord& record, TimePoint now) {
  Json json;
  json["generation"] = record.generation.value();
  json["members"] = Json::object();
  for (const WorkerId worker : record.members) {
    json["members"][ToString(worker)] = record.pids.at(worker);
  }
  json["lost"] = Json::array();
  for (const LostWorker& lost : record.lost) {
    const auto ago = std::chrono::duration_cast<std::chrono::microseconds>(now - lost.first_signal);
    json["lost"].push_back({{"worker", ToString(lost.worker)},
                            {"cause", CauseText(lost.cause)},
                            {"detected_by", lost.detected_by},
                            {"us_ago", ago.count()},
                            {"iteration", lost.iteration}});
  }
  json["returning"] = Json::object();
  for (const auto& [worker, donor] : record.returning) {
    json["returning"][ToString(worker)] = ToString(donor);
  }
  json["relinked"] = Json::array();
  for (const auto& [a, b] : record.relinked) {
    json["relinked"].push_back(Json::array({ToString(a), ToString(b)}));
  }
  if (record.restore) json["restore"] = *record.restore;
  if (record.from_memory) json["from_memory"] = true;
  for (const MeasuredCosts& costs : record.measured) {
    json["measured"].push_back({costs.forward, costs.backward_input, costs.backward_weight});
  }
  for (const auto& [from, to] : record.moving) json["moving"][ToString(from)] = ToString(to);
  json["reason"] = record.reason;
  return json.dump();
}

StatusOr<GenerationRecord> RecordFromJson(const std::string& text, TimePoint now) {
  try {
    return ReadRecord(Json::parse(text), now);
  } catch (const std::exception& error) {
    return Damaged(error.what());
  }
}

std::string ToJson(const EndJob& end) {
  return Json{{"stopped", end.how == EndJob::How::kStopped},
              {"reason", end.reason},
              {"parameters_sha256", end.parameters_sha256},
              {"iterations", end.iterations}}
      .dump();
}

StatusOr<EndJob> EndFromJson(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return EndJob{
        .how = json.at("stopped").get<bool>() ? EndJob::How::kStopped : EndJob::How::kDone,
        .reason = json.at("reason"),
        .parameters_sha256 = json.at("parameters_sha256"),
        .iterations = json.at("iterations")};
  } catch (const std::exception& error) {
    return Damaged(error.what());
  }
}

}  // namespace recycle
