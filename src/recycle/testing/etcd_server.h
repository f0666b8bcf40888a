// A real etcd of one member on loopback, for tests: a process of its own that ends with the object.
//
//   EtcdServer server(folder);   // if (!EtcdServer::IsInstalled()) GTEST_SKIP() <<
//   EtcdServer::kMissing; EtcdStore::Open(server.endpoint(), "job");
#ifndef RECYCLE_TESTING_ETCD_SERVER_H_
#define RECYCLE_TESTING_ETCD_SERVER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
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

// An etcd of one member; ends with the object.
class EtcdServer {
 public:
  static constexpr char kEtcd[] = "/usr/bin/etcd";
  // Nothing installs the package unasked: it would start a service of this machine.
  static constexpr char kMissing[] = "there is no /usr/bin/etcd (Debian's package etcd-server)";
  static bool IsInstalled() { return std::filesystem::exists(kEtcd); }

  // Its data and log go to `folder`. It answers when the constructor returns, or not at all.
  explicit EtcdServer(std::filesystem::path folder) : folder_(std::move(folder)) {
    port_ = FreePort();
    const std::string client = fmt::format("http://127.0.0.1:{}", port_);
    const std::string peer = fmt::format("http://127.0.0.1:{}", FreePort());
    std::vector<std::string> words = {kEtcd,
                                      "--name=one",
                                      "--data-dir=" + (folder_ / "etcd").string(),
                                      "--listen-client-urls=" + client,
                                      "--advertise-client-urls=" + client,
                                      "--listen-peer-urls=" + peer,
                                      "--initial-advertise-peer-urls=" + peer,
                                      "--initial-cluster=one=" + peer};
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const std::string log = (folder_ / "etcd.log").string();
    pid_ = fork();
    if (pid_ != 0) {
      AwaitReady(log);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(open(log.c_str(), O_WRONLY | O_CREAT, 0644), STDERR_FILENO);
    execv(kEtcd, arguments.data());
    _exit(127);
  }
  ~EtcdServer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::string endpoint() const { return fmt::format("127.0.0.1:{}", port_); }
  pid_t pid() const { return pid_; }

 private:
  static void AwaitReady(const std::string& log) {
    for (int look = 0; look < 3000; ++look) {  // for a minute
      std::ifstream file(log);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      if (text.find("ready to serve client requests") != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  std::filesystem::path folder_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_ETCD_SERVER_H_
