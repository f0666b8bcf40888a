// The house rules of docs/ARCHITECTURE.md and CONTRIBUTING.md, held against every source file:
// dependency edges (tools/deps.txt), length of files and functions, banned calls.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "source_text.h"

namespace recycle::house {
namespace {

const std::filesystem::path kRoot = RECYCLE_SOURCE_DIR;

struct ModuleRule {
  bool pure = false;
  std::set<std::string> modules;
  std::vector<std::string> externals;  // header prefixes
};

// A line of tools/deps.txt: "name [pure]: modules | external header prefixes".
std::map<std::string, ModuleRule> ReadRules() {
  std::map<std::string, ModuleRule> rules;
  std::ifstream file(kRoot / "tools/deps.txt");
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t colon = line.find(':');
    const std::size_t bar = line.find('|');
    std::istringstream head(line.substr(0, colon));
    std::istringstream modules(line.substr(colon + 1, bar - colon - 1));
    std::istringstream externals(line.substr(bar + 1));
    std::string name;
    std::string word;
    head >> name;
    ModuleRule& rule = rules[name];
    while (head >> word) rule.pure = rule.pure || word == "pure";
    while (modules >> word) rule.modules.insert(word);
    while (externals >> word) rule.externals.push_back(word);
  }
  const std::vector<std::string> everywhere = rules["*"].externals;
  for (auto& [name, rule] : rules) {
    rule.externals.insert(rule.externals.end(), everywhere.begin(), everywhere.end());
  }
  return rules;
}

// "src/recycle/plan/x.h" -> "plan".
std::string ModuleOf(const std::filesystem::path& path) {
  return std::next(path.begin(), 2)->string();
}

bool IsTest(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  return stem.ends_with("_test") || stem.ends_with("_benchmark") || ModuleOf(path) == "testing";
}

bool StartsWithAny(const std::string& text, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (text.starts_with(prefix)) return true;
  }
  return false;
}

// Headers that bring threads, clocks, sockets or descriptors into a core.
bool IsImpure(const std::string& header) {
  static const std::set<std::string> kImpure = {
      "thread",       "mutex",    "condition_variable", "future",  "atomic",
      "shared_mutex", "unistd.h", "signal.h",           "csignal", "netinet/in.h"};
  return kImpure.contains(header) || header.starts_with("sys/") || header.starts_with("arpa/");
}

// The standard library and POSIX have no slash, or one of these folders.
bool IsSystem(const std::string& header) {
  if (header.starts_with("sys/") || header.starts_with("netinet/") || header.starts_with("arpa/") ||
      header.starts_with("linux/")) {
    return true;
  }
  return header.find('/') == std::string::npos && header != "sqlite3.h" &&
         !header.starts_with("sentencepiece");
}

std::string Complaint(const ModuleRule& rule, const std::string& module, const Include& include,
                      bool is_test) {
  if (include.header.starts_with("recycle/")) {
    const std::string other = ModuleOf("src/" + include.header);
    if (other == module || rule.modules.contains(other)) return "";
    if (is_test && other == "testing") return "";
    return "module " + module + " may not include module " + other;
  }
  if (is_test && StartsWithAny(include.header, {"gtest/", "gmock/", "benchmark/", "gecode/"}))
    return "";
  if (rule.pure && !is_test && IsImpure(include.header)) {
    return "module " + module + " is pure: no threads, clocks, sockets, descriptors";
  }
  if (IsSystem(include.header) || include.header.ends_with(".pb.h")) return "";
  if (StartsWithAny(include.header, rule.externals)) return "";
  return "module " + module + " may not include this external header";
}

TEST(House, IncludesFollowDepsTxt) {
  const std::map<std::string, ModuleRule> rules = ReadRules();
  ASSERT_GE(rules.size(), 10U) << "tools/deps.txt could not be read";
  for (const SourceFile& file : ReadSources(kRoot, "src/recycle")) {
    const std::string module = ModuleOf(file.path);
    ASSERT_TRUE(rules.contains(module)) << file.path << ": no line for it in tools/deps.txt";
    // Benchmarks, mains of tests and gloo's missing header are looked at like the rest.
    for (const Include& include : FindIncludes(file)) {
      const std::string complaint = Complaint(rules.at(module), module, include, IsTest(file.path));
      EXPECT_EQ(complaint, "") << file.path.string() << ":" << include.line << ": #include of "
                               << include.header;
    }
  }
}

TEST(House, FilesAndFunctionsAreShort) {
  constexpr int kLongestFile = 1000;
  constexpr int kLongestFunction = 70;
  int functions = 0;
  for (const char* folder : {"src/recycle", "tests", "bench"}) {
    for (const SourceFile& file : ReadSources(kRoot, folder)) {
      EXPECT_LE(CountLines(file.text), kLongestFile) << file.path;
      for (const Function& function : FindFunctions(file)) {
        ++functions;
        EXPECT_LE(function.lines(), kLongestFunction)
            << file.path.string() << ":" << function.first_line << ": " << function.head;
      }
    }
  }
  EXPECT_GT(functions, 100) << "the function finder finds nothing";
}

struct Ban {
  const char* pattern;
  const char* why;
  std::vector<std::string> allowed;  // path prefixes where it may stand
  bool tests_too = true;             // or only in the product
};

// Anything that is no part of the product: tests and benchmarks, wherever they are.
bool IsOutside(const std::filesystem::path& path) {
  return StartsWithAny(path, {"tests/", "bench/"}) || IsTest(path);
}

TEST(House, BannedCallsAreAbsent) {
  const std::vector<Ban> bans = {
      {R"(std::cout|std::cerr|\bprintf\s*\()",
       "print in app/ alone, log elsewhere",
       {"src/recycle/app/"},
       false},
      {R"(\bdefault\s*:)", "an enum switch names every case", {}},
      {R"(\b(rand|srand|random)\s*\(\)|std::random_device|std::mt19937)",
       "randomness is injected: base/prng.h",
       {}},
      {R"(std::shuffle|std::\w+_distribution)",
       "differs between standard libraries: base/prng.h",
       {}},
      {R"((steady|system|high_resolution)_clock::now|\btime\s*\(\s*(NULL|nullptr|0)?\s*\))",
       "time is injected: base/clock.h",
       {"src/recycle/base/clock.cc"},
       false},
      {R"(\bgethostname\s*\()", "place and rank never come from host names", {}},
      {R"(\bassert\s*\()", "RC_CHECK stays on in every build", {}},
      {R"(\bcatch\s*\(\s*\.\.\.\s*\))", "an exception nobody knows is a bug and must be seen", {}},
      {R"(std::system\s*\(|\bpopen\s*\()", "no shell in between", {}, false},
      {R"(\bstrcpy\s*\(|\bsprintf\s*\(|\bgets\s*\()", "unbounded copy", {}},
  };
  for (const char* folder : {"src/recycle", "tests", "bench"}) {
    for (const SourceFile& file : ReadSources(kRoot, folder)) {
      for (const Ban& ban : bans) {
        if (StartsWithAny(file.path, ban.allowed)) continue;
        if (!ban.tests_too && IsOutside(file.path)) continue;
        const std::regex pattern(ban.pattern);
        for (std::sregex_iterator at(file.code.begin(), file.code.end(), pattern), end; at != end;
             ++at) {
          ADD_FAILURE() << file.path.string() << ":"
                        << LineOf(file.code, static_cast<std::size_t>(at->position())) << ": "
                        << at->str() << ": " << ban.why;
        }
      }
    }
  }
}

TEST(House, NothingIsLeftOpen) {
  const std::regex open_ends(R"(\b(TO)(DO)\b|\bFIX(ME)\b|\bXX(X)\b|\bHA(CK)\b)");
  for (const char* folder : {"src/recycle", "tests", "bench"}) {
    for (const SourceFile& file : ReadSources(kRoot, folder)) {
      std::smatch match;
      EXPECT_FALSE(std::regex_search(file.text, match, open_ends))
          << file.path.string() << ": " << match.str();
    }
  }
}

// Sources of a module are compiled together: one's private function could hide another's, or win a
// call meant for it.
TEST(House, PrivateNamesDifferWithinAModule) {
  // A definition at the beginning of a line: a type, then a name and "(" (or a constant).
  const std::regex definition(
      R"(^(?!TEST|INSTANTIATE|return\b)[A-Za-z][\w:<>,&* \[\]]*[ &*>](\w+)\()"
      R"(|^constexpr [\w:<>]+ (k\w+))",
      std::regex::ECMAScript | std::regex::multiline);
  std::map<std::string, std::string> owners;  // "folder name" -> file
  for (const SourceFile& file : ReadSources(kRoot, "src/recycle")) {
    if (file.path.extension() != ".cc" || file.path.stem().string().ends_with("_main")) continue;
    const std::string scope =
        file.path.parent_path().string() + (IsTest(file.path) ? " test " : " ");
    constexpr std::string_view kOpen = "\nnamespace {\n";
    for (std::size_t begin = file.code.find(kOpen); begin != std::string::npos;
         begin = file.code.find(kOpen, begin + 1)) {
      const std::size_t end = file.code.find("\n}  ", begin);
      const std::string text = file.code.substr(begin, end - begin);
      for (std::sregex_iterator at(text.begin(), text.end(), definition), none; at != none; ++at) {
        const std::string name = (*at)[1].str() + (*at)[2].str();
        const auto [owner, is_new] = owners.try_emplace(scope + name, file.path.string());
        EXPECT_TRUE(is_new || owner->second == file.path.string())
            << file.path << " and " << owner->second << " each have a private " << name;
      }
    }
  }
  EXPECT_GT(owners.size(), 500U) << "the definitions are not found";
}

// Its own; or, for a further source of a class too long for one file, that of the class:
// coordinator_round.cc has coordinator.h.
bool HasHeader(const SourceFile& source, const std::set<std::string>& headers) {
  std::filesystem::path header = source.path;
  if (headers.contains(header.replace_extension(".h").string())) return true;
  const std::string stem = source.path.stem().string();
  for (std::size_t end = stem.rfind('_'); end != std::string::npos && end > 0;
       end = stem.rfind('_', end - 1)) {
    header.replace_filename(stem.substr(0, end) + ".h");
    const std::string include = std::filesystem::relative(header, "src").string();
    if (headers.contains(header.string()) && source.text.find(include) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(House, NeighboursHaveOneStem) {
  std::set<std::string> headers;
  const std::vector<SourceFile> files = ReadSources(kRoot, "src/recycle");
  for (const SourceFile& file : files) {
    if (file.path.extension() == ".h") headers.insert(file.path.string());
  }
  for (const SourceFile& file : files) {
    if (file.path.extension() != ".cc" || IsTest(file.path)) continue;
    if (file.path.stem().string().ends_with("_main")) continue;
    EXPECT_TRUE(HasHeader(file, headers)) << file.path << " has no header of its stem";
  }
}

}  // namespace
}  // namespace recycle::house
