#include "job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "recycle/base/prng.h"

namespace recycle::testing {
namespace {

// English-looking words from a fixed seed: enough text for every test, the same everywhere.
void WriteCorpus(const std::filesystem::path& path) {
  static const char* const kWords[] = {"light", "earth", "water", "and",  "the",    "of",
                                       "made",  "was",   "day",   "void", "spirit", "moved"};
  std::ofstream file(path);
  Prng prng(7);
  for (int line = 0; line < 800; ++line) {
    for (int word = 0; word < 12; ++word) file << kWords[prng.Below(std::size(kWords))] << ' ';
    file << "\n";
  }
}

std::string ConfigText(const JobOptions& o) {
  std::string text = fmt::format(
      "model: {{architecture: gpt2, layers: {}, hidden: {}, heads: 2, sequence: {}, dropout: {}, "
      "tied: {}}}\n"
      "data: {{text: corpus.txt, tokenizer: bytes, vocabulary: 256}}\n"
      "parallel: {{data: {}, pipeline: {}}}\n"
      "batch: {{micro_batch_size: {}, micro_batches: {}}}\n"
      "train: {{iterations: {}, seed: 1234}}\n"
      "optimizer: {{lr: 1.0e-3, warmup: 3, clip: {}}}\n"
      "schedule: {{method: {}, staggered: {}, measure: {}}}\n"
      "resilience: {{failure_timeout_ms: {}, snapshot_every: {}}}\n"
      "checkpoint: {{every: {}, keep: {}}}\n"
      "launch: {{agents: {}, grace_s: 20}}\n"
      "log: {{samples: true, trace: true}}\n",
      o.layers, o.hidden, o.sequence, o.dropout, o.tied ? "true" : "false", o.data, o.pipeline,
      o.micro_batch_size, o.micro_batches, o.iterations, o.clip, o.method,
      o.staggered ? "true" : "false", o.measure ? "true" : "false", o.failure_timeout_ms,
      o.snapshot_every, o.checkpoint_every, o.checkpoint_keep, o.agents);
  text += "inject:\n";
  for (const std::string& fault : o.inject) text += "  - \"" + fault + "\"\n";
  if (o.inject.empty()) text += "  []\n";
  return text;
}

[[noreturn]] void ExecProgram(const std::vector<std::string>& words, const std::string& output,
                              const std::function<void()>& before_exec) {
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (before_exec) before_exec();
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

JobOptions ThreeByTwo(int iterations, std::vector<std::string> inject) {
  return {.data = 3,
          .pipeline = 2,
          .micro_batches = 2,
          .iterations = iterations,
          .inject = std::move(inject)};
}

Job::Job(JobOptions options) : options_(std::move(options)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "recycle-job-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  run_folder_ = options_.run_folder.empty() ? folder_ / "run" : options_.run_folder;
  WriteCorpus(folder_ / "corpus.txt");
  std::ofstream(folder_ / "job.yaml") << ConfigText(options_);
}

Job::~Job() {
  if (pid_ > 0 && !ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (::testing::Test::HasFailure()) {
    fmt::print("kept for a look: {}\n", folder_.string());
  } else {
    std::filesystem::remove_all(folder_);
  }
}

void Job::Start() {
  std::vector<std::string> words = {RECYCLE_PROGRAM, options_.command,
                                    (folder_ / "job.yaml").string(), "--run-dir",
                                    run_folder_.string()};
  words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
  const std::string output = (folder_ / "output.txt").string();
  pid_ = fork();
  ASSERT_GE(pid_, 0);
  if (pid_ == 0) ExecProgram(words, output, options_.before_exec);
}

pid_t Job::StartCommand(const std::string& word, const std::string& worker) const {
  const std::vector<std::string> words = {RECYCLE_PROGRAM, word, run_folder_.string(), worker};
  const std::string output = (folder_ / (word + ".txt")).string();
  const pid_t pid = fork();
  if (pid == 0) ExecProgram(words, output, /*before_exec=*/{});
  return pid;
}

int Job::Wait(std::chrono::seconds limit) {
  int status = 0;
  const bool done = Eventually(limit, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; });
  if (!done) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  }
  ended_ = true;
  if (!done) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string Job::Output() const {
  std::ostringstream text;
  text << std::ifstream(folder_ / "output.txt").rdbuf();
  return text.str();
}

std::vector<nlohmann::json> Job::Lines(const std::string& file) const {
  std::vector<nlohmann::json> lines;
  std::ifstream stream(run_folder_ / file);
  std::string line;
  while (std::getline(stream, line)) {
    nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!value.is_discarded()) lines.push_back(std::move(value));
  }
  return lines;
}

std::vector<nlohmann::json> Job::Events(const std::string& name) const {
  std::vector<nlohmann::json> events;
  for (nlohmann::json& event : Lines("events.jsonl")) {
    if (event.at("event") == name) events.push_back(std::move(event));
  }
  return events;
}

bool Job::AwaitEvents(const std::string& name, std::size_t count) const {
  bool alive = true;
  return Eventually(std::chrono::seconds(60),
                    [&] {
                      if (Events(name).size() >= count) return true;
                      alive = alive && IsAlive(Identify(pid_));
                      return !alive;
                    }) &&
         Events(name).size() >= count;
}

bool Job::AwaitIteration(int iteration) const {
  return Eventually(std::chrono::seconds(60), [&] {
    const std::vector<nlohmann::json> lines = Lines("metrics.jsonl");
    return !lines.empty() && lines.back().at("iteration") >= iteration;
  });
}

bool Job::AwaitOutput(const std::string& text) const {
  return Eventually(std::chrono::seconds(60),
                    [&] { return Output().find(text) != std::string::npos; });
}

std::vector<double> Job::Column(const std::string& key) const {
  std::map<int, double> by_iteration;
  for (const nlohmann::json& line : Lines("metrics.jsonl")) {
    by_iteration[line.at("iteration").get<int>()] = line.at(key).get<double>();
  }
  std::vector<double> column;
  column.reserve(by_iteration.size());
  for (const auto& [iteration, value] : by_iteration) column.push_back(value);
  return column;
}

std::vector<double> Job::Losses() const { return Column("loss"); }
std::vector<double> Job::GradientNorms() const { return Column("grad_norm"); }

std::map<std::string, pid_t> Job::WorkerPids() const {
  std::map<std::string, pid_t> pids;
  for (const nlohmann::json& event : Events("worker_joined")) {
    pids[event.at("worker").get<std::string>()] = event.at("pid").get<pid_t>();
  }
  return pids;
}

std::vector<nlohmann::json> Job::TraceEvents() const {
  std::ifstream stream(run_folder_ / "trace.json");
  const nlohmann::json document = nlohmann::json::parse(stream);
  const nlohmann::json& all = document.is_array() ? document : document.at("traceEvents");
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& event : all) {
    if (event.at("ph") == "X") events.push_back(event);
  }
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return a.at("ts").template get<double>() < b.at("ts").template get<double>();
  });
  return events;
}

nlohmann::json Job::Summary() const {
  std::ifstream stream(run_folder_ / "summary.json");
  return nlohmann::json::parse(stream);
}

std::map<int, std::vector<std::int64_t>> Job::SamplesPerIteration() const {
  std::map<int, std::vector<std::int64_t>> samples;
  for (const nlohmann::json& line : Lines("samples.jsonl")) {
    std::vector<std::int64_t>& ids = samples[line.at("iteration").get<int>()];
    for (const nlohmann::json& id : line.at("samples")) ids.push_back(id.get<std::int64_t>());
  }
  for (auto& [iteration, ids] : samples) std::sort(ids.begin(), ids.end());
  return samples;
}

std::string Differs(const std::vector<double>& got, const std::vector<double>& want,
                    double tolerance) {
  if (got.size() != want.size()) return fmt::format("{} values, not {}", got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double relative = std::abs(got[i] - want[i]) / std::max(std::abs(want[i]), 1e-30);
    if (!(relative <= tolerance)) {
      return fmt::format("value {}: {:.9g}, not {:.9g} (relative {:.2g})", i + 1, got[i], want[i],
                         relative);
    }
  }
  return "";
}

}  // namespace recycle::testing
