// A real etcd on loopback, for tests: processes of its own that end with the object.
//
//   if (!EtcdServer::IsInstalled()) GTEST_SKIP() << EtcdServer::kMissing;
//   EtcdServer server(folder);     EtcdStore::Open(server.endpoint(), "job");
//   EtcdCluster cluster(folder);   cluster.Kill(0); cluster.Restart(0);   // of three members
#ifndef RECYCLE_TESTING_ETCD_SERVER_H_
#define RECYCLE_TESTING_ETCD_SERVER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace recycle {

// A port on loopback that nobody listens on.
inline int FreePort() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(probe, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size);
  close(probe);
  return ntohs(address.sin_port);
}

// One member; ends with the object.
class EtcdServer {
 public:
  static constexpr char kEtcd[] = "/usr/bin/etcd";
  // Nothing installs the package unasked: it would start a service of this machine.
  static constexpr char kMissing[] = "there is no /usr/bin/etcd (Debian's package etcd-server)";
  static bool IsInstalled() { return std::filesystem::exists(kEtcd); }

  struct Member {
    std::string name;
    int client_port = FreePort();
    int peer_port = FreePort();
  };
  // What clients see and have to show, as files.
  struct Tls {
    std::string ca;
    std::string certificate;
    std::string key;
  };

  // The only member. Its data and log go to `folder`. It answers when the constructor returns, or
  // not at all.
  explicit EtcdServer(const std::filesystem::path& folder,
                      const std::optional<Tls>& tls = std::nullopt)
      : EtcdServer(folder, {Member{.name = "one"}}, 0, tls) {
    AwaitReady();
  }

  // `own` of several members: it answers once most of them do. Data that are there are taken up.
  EtcdServer(const std::filesystem::path& folder, const std::vector<Member>& members,
             std::size_t own, const std::optional<Tls>& tls = std::nullopt)
      : port_(members[own].client_port), log_(folder / (members[own].name + ".log")) {
    std::vector<std::string> cluster;
    cluster.reserve(members.size());
    for (const Member& member : members) {
      cluster.push_back(fmt::format("{}={}", member.name, PeerUrl(member)));
    }
    const std::string client = fmt::format("{}://{}", tls ? "https" : "http", endpoint());
    const std::string peer = PeerUrl(members[own]);
    std::vector<std::string> words = {
        kEtcd,
        "--name=" + members[own].name,
        "--data-dir=" + (folder / ("etcd-" + members[own].name)).string(),
        "--listen-client-urls=" + client,
        "--advertise-client-urls=" + client,
        "--listen-peer-urls=" + peer,
        "--initial-advertise-peer-urls=" + peer,
        fmt::format("--initial-cluster={}", fmt::join(cluster, ","))};
    if (tls) {
      words.insert(words.end(), {"--trusted-ca-file=" + tls->ca, "--cert-file=" + tls->certificate,
                                 "--key-file=" + tls->key, "--client-cert-auth"});
    }
    Start(words);
  }
  ~EtcdServer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  void AwaitReady() const {
    for (int look = 0; look < 3000; ++look) {  // for a minute
      std::ifstream file(log_);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      if (text.find("ready to serve client requests") != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::string endpoint() const { return fmt::format("127.0.0.1:{}", port_); }
  pid_t pid() const { return pid_; }

 private:
  static std::string PeerUrl(const Member& member) {
    return fmt::format("http://127.0.0.1:{}", member.peer_port);
  }

  void Start(std::vector<std::string>& words) {
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::filesystem::remove(log_);
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(open(log_.c_str(), O_WRONLY | O_CREAT, 0644), STDERR_FILENO);
    execv(kEtcd, arguments.data());
    _exit(127);
  }

  int port_ = 0;
  std::filesystem::path log_;
  pid_t pid_ = 0;
};

// Three members; any one of them may be away.
class EtcdCluster {
 public:
  static constexpr std::size_t kMembers = 3;

  explicit EtcdCluster(const std::filesystem::path& folder) : folder_(folder) {
    for (std::size_t i = 0; i < kMembers; ++i) members_.push_back({.name = fmt::format("m{}", i)});
    for (std::size_t i = 0; i < kMembers; ++i) {
      servers_.push_back(std::make_unique<EtcdServer>(folder_, members_, i));
    }
    for (const auto& server : servers_) server->AwaitReady();
  }

  // As resilience.store wants them: with commas between.
  std::string endpoints() const {
    std::vector<std::string> all;
    for (const EtcdServer::Member& member : members_) {
      all.push_back(fmt::format("127.0.0.1:{}", member.client_port));
    }
    return fmt::format("{}", fmt::join(all, ","));
  }
  void Kill(std::size_t member) { servers_[member].reset(); }
  // It is back when this returns.
  void Restart(std::size_t member) {
    servers_[member] = std::make_unique<EtcdServer>(folder_, members_, member);
    servers_[member]->AwaitReady();
  }

 private:
  std::filesystem::path folder_;
  std::vector<EtcdServer::Member> members_;
  std::vector<std::unique_ptr<EtcdServer>> servers_;
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_ETCD_SERVER_H_
