// Test-only: several workers for the tests of this module, as threads or as forked processes.
//
//   RunMembers(3, [](int rank, Exchange& exchange) {...});           // threads of this process
//   ForkedMembers members(3, [](int rank, Wire& wire) {...});        // processes; the test routes
//   members.RouteAddresses();
//   members.Signal(1, SIGKILL);
//   EXPECT_EQ(members.wire(0).Read(), "broken");
#ifndef RECYCLE_COMM_COMM_TESTING_H_
#define RECYCLE_COMM_COMM_TESTING_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/base/clock.h"
#include "recycle/comm/device.h"

namespace recycle {

// By peer: the address that it must be given (published), or that it made for us (received).
using Addresses = std::map<int, std::string>;

inline std::shared_ptr<Device> MakeDevice() {
  StatusOr<std::shared_ptr<Device>> device = Device::Create("127.0.0.1");
  RC_CHECK(device.ok()) << device.status().message();
  return *device;
}

inline double MillisecondsSince(TimePoint start) {
  return ToMilliseconds(SystemClock().Now() - start);
}

// Where the members of a thread test meet. Thread-safe.
class Exchange {
 public:
  explicit Exchange(int size) : size_(size), finished_(size) {}

  // Hands every member the addresses that the others made for it; blocks until all have published.
  Addresses Swap(int rank, Addresses published) {
    std::unique_lock lock(mutex_);
    published_[rank] = std::move(published);
    changed_.notify_all();
    changed_.wait(lock, [&] { return static_cast<int>(published_.size()) == size_; });
    Addresses received;
    for (const auto& [peer, addresses] : published_) {
      if (addresses.contains(rank)) received[peer] = addresses.at(rank);
    }
    return received;
  }

  // Blocks until all members have come here.
  void Finish() { finished_.arrive_and_wait(); }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Addresses> published_;
  std::barrier<> finished_;
};

// Runs `body` in a thread per member and waits for all of them.
inline void RunMembers(int size, const std::function<void(int rank, Exchange& exchange)>& body) {
  Exchange exchange(size);
  std::vector<std::thread> threads;
  threads.reserve(size);
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] { body(rank, exchange); });
  }
  for (std::thread& thread : threads) thread.join();
}

// The least of what `measure` returns (milliseconds), called again while it is not below
// `limit_ms`: on a machine with other work a single measurement says little.
inline double BestOf(int attempts, double limit_ms, const std::function<double()>& measure) {
  double best = measure();
  for (int attempt = 1; attempt < attempts && best >= limit_ms; ++attempt) {
    best = std::min(best, measure());
  }
  return best;
}

// Whether the owner of `address` connects to `peer_address` when the two meet; else it listens.
// (gloo decides by the ports as they lie in memory.)
inline bool IsConnectingSide(const std::string& address, const std::string& peer_address) {
  const auto port = [](const std::string& bytes) {
    std::uint16_t value;
    std::memcpy(&value, bytes.data() + 2, sizeof(value));
    return value;
  };
  return port(address) > port(peer_address);
}

// One end of a connection between the test and a forked member; carries texts.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {}
  ~Wire() { close(fd_); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void Write(const std::string& text) {
    const std::uint32_t size = static_cast<std::uint32_t>(text.size());
    const std::string bytes(reinterpret_cast<const char*>(&size), sizeof(size));
    const std::string message = bytes + text;
    RC_CHECK(send(fd_, message.data(), message.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(message.size()));
  }

  // Blocks; "gone" when the other end has closed.
  std::string Read() {
    std::uint32_t size = 0;
    if (!ReadBytes(&size, sizeof(size))) return "gone";
    std::string text(size, '\0');
    return ReadBytes(text.data(), size) ? text : "gone";
  }

  // Whether anything can be read within `timeout`.
  bool Readable(std::chrono::milliseconds timeout) {
    pollfd entry{fd_, POLLIN, 0};
    return poll(&entry, 1, static_cast<int>(timeout.count())) == 1;
  }

  void WriteAddresses(const Addresses& addresses) {
    Write(std::to_string(addresses.size()));
    for (const auto& [peer, address] : addresses) {
      Write(std::to_string(peer));
      Write(address);
    }
  }

  Addresses ReadAddresses() {
    Addresses addresses;
    for (int left = std::stoi(Read()); left > 0; --left) {
      const int peer = std::stoi(Read());
      addresses[peer] = Read();
    }
    return addresses;
  }

 private:
  bool ReadBytes(void* data, std::size_t size) {
    return size == 0 || recv(fd_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  const int fd_;
};

// Members as processes, forked before this process has a device. Those still alive are killed at
// the end.
class ForkedMembers {
 public:
  ForkedMembers(int size, const std::function<void(int rank, Wire& wire)>& body) {
    for (int rank = 0; rank < size; ++rank) {
      int fds[2];
      RC_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
      const pid_t pid = fork();
      RC_CHECK(pid >= 0);
      if (pid == 0) {
        wires_.clear();
        close(fds[0]);
        Wire wire(fds[1]);
        body(rank, wire);
        _exit(0);
      }
      close(fds[1]);
      wires_.push_back(std::make_unique<Wire>(fds[0]));
      pids_.push_back(pid);
    }
  }

  ~ForkedMembers() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }
  ForkedMembers(const ForkedMembers&) = delete;
  ForkedMembers& operator=(const ForkedMembers&) = delete;

  Wire& wire(int rank) { return *wires_[rank]; }
  void Signal(int rank, int signal) { kill(pids_[rank], signal); }

  // Blocks until the member has stopped itself.
  void WaitUntilStopped(int rank) {
    int status = 0;
    RC_CHECK(waitpid(pids_[rank], &status, WUNTRACED) == pids_[rank] && WIFSTOPPED(status));
  }

  // Reads the addresses that each member published and sends each those made for it.
  void RouteAddresses() {
    std::vector<Addresses> published;
    for (const auto& wire : wires_) published.push_back(wire->ReadAddresses());
    for (std::size_t rank = 0; rank < wires_.size(); ++rank) {
      Addresses received;
      for (std::size_t peer = 0; peer < wires_.size(); ++peer) {
        const auto made = published[peer].find(static_cast<int>(rank));
        if (made != published[peer].end()) received[static_cast<int>(peer)] = made->second;
      }
      wires_[rank]->WriteAddresses(received);
    }
  }

 private:
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<pid_t> pids_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_COMM_TESTING_H_
