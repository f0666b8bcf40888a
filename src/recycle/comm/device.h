// The process's one gloo TCP device: a thread that reads and writes all sockets of this process.
//
//   RC_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, Device::Create("127.0.0.1"));
//
// Make it after fork (a thread does not survive one) and share it: links and groups keep it alive.
// Every listening port is chosen by the kernel. Thread-safe.
#ifndef RECYCLE_COMM_DEVICE_H_
#define RECYCLE_COMM_DEVICE_H_

#include <memory>
#include <string>

#include "recycle/base/status.h"

namespace gloo::transport::tcp {
class Device;
}  // namespace gloo::transport::tcp

namespace recycle {

class Device {
 public:
  // `bind_address`: a numeric address of this machine ("127.0.0.1"); nothing listens elsewhere.
  // Also ignores SIGPIPE for the whole process: gloo writes to sockets that a dead peer has closed.
  // Error: kInvalidArgument when the address is no address of this machine.
  static StatusOr<std::shared_ptr<Device>> Create(const std::string& bind_address);

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // For this module only.
  const std::shared_ptr<gloo::transport::tcp::Device>& gloo() const { return gloo_; }

 private:
  explicit Device(std::shared_ptr<gloo::transport::tcp::Device> gloo) : gloo_(std::move(gloo)) {}

  std::shared_ptr<gloo::transport::tcp::Device> gloo_;
};

}  // namespace recycle

#endif  // RECYCLE_COMM_DEVICE_H_
