#include "processes.h"

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

namespace recycle::testing {
namespace {

struct Stat {
  char state = 'X';
  pid_t parent = 0;
  std::uint64_t start_ticks = 0;
};

// The fields of /proc/PID/stat that matter; state 'X' if there is no such process.
Stat ReadStat(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  Stat stat;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return stat;
  std::istringstream fields(text.substr(name_end + 1));
  fields >> stat.state >> stat.parent;
  std::string skipped;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> stat.start_ticks;
  return stat;
}

std::vector<pid_t> AllPids() {
  std::vector<pid_t> pids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) pids.push_back(std::stoi(name));
  }
  return pids;
}

// "0100007F" (little endian, as in /proc/net/tcp) -> "127.0.0.1".
std::string Ipv4FromHex(const std::string& hex) {
  const auto word = static_cast<std::uint32_t>(std::stoul(hex, nullptr, 16));
  std::ostringstream out;
  for (int shift = 0; shift < 32; shift += 8)
    out << (shift > 0 ? "." : "") << ((word >> shift) & 255U);
  return out.str();
}

}  // namespace

ProcessIdentity Identify(pid_t pid) { return {pid, ReadStat(pid).start_ticks}; }

bool IsAlive(const ProcessIdentity& process) {
  const Stat stat = ReadStat(process.pid);
  return stat.start_ticks == process.start_ticks && stat.start_ticks != 0 && stat.state != 'Z' &&
         stat.state != 'X';
}

std::vector<ProcessIdentity> Descendants(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : AllPids()) children.emplace(ReadStat(pid).parent, pid);
  std::vector<ProcessIdentity> found = {Identify(root)};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [begin, end] = children.equal_range(found[i].pid);
    for (auto child = begin; child != end; ++child) found.push_back(Identify(child->second));
  }
  return found;
}

std::string CommandLine(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
  std::string text;
  std::string word;
  while (std::getline(file, word, '\0')) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> ListeningAddresses(const std::vector<pid_t>& pids) {
  std::set<std::string> inodes;
  for (const pid_t pid : pids) {
    std::error_code error;
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string target = std::filesystem::read_symlink(entry, error);
      if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
    }
  }
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::vector<std::string> words(std::istream_iterator<std::string>(fields), {});
      if (words.size() < 10 || words[3] != "0A" || !inodes.contains(words[9])) continue;
      const std::string hex = words[1].substr(0, words[1].find(':'));
      // An IPv4 address mapped into IPv6 (::ffff:a.b.c.d) is that IPv4 address.
      const bool mapped = hex.size() == 32 && hex.substr(0, 24) == "0000000000000000FFFF0000";
      const bool is_ipv4 = hex.size() == 8 || mapped;
      addresses.push_back(is_ipv4 ? Ipv4FromHex(hex.substr(hex.size() - 8)) : "tcp6 " + hex);
    }
  }
  return addresses;
}

std::vector<std::string> SharedMemoryFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.push_back(entry.path().filename());
  }
  return names;
}

bool Eventually(std::chrono::milliseconds deadline, const std::function<bool()>& condition) {
  const double end = MonotonicSeconds() + std::chrono::duration<double>(deadline).count();
  while (!condition()) {
    if (MonotonicSeconds() > end) return false;
    poll(nullptr, 0, 2);
  }
  return true;
}

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace recycle::testing
