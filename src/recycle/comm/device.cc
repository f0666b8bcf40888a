#include "recycle/comm/device.h"

#include <arpa/inet.h>
#include <gloo/transport/tcp/device.h>

#include <csignal>
#include <exception>

namespace recycle {
namespace {

// gloo resolves names and reads an undefined result when that fails, so names never reach it.
bool IsNumericAddress(const std::string& text) {
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace

StatusOr<std::shared_ptr<Device>> Device::Create(const std::string& bind_address) {
  namespace tcp = gloo::transport::tcp;
  if (!IsNumericAddress(bind_address)) {
    return absl::InvalidArgumentError("bind address '" + bind_address +
                                      "' is no numeric IP address, as 127.0.0.1 is");
  }
  std::signal(SIGPIPE, SIG_IGN);
  try {
    auto gloo =
        std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(tcp::attr(bind_address.c_str())));
    return std::shared_ptr<Device>(new Device(std::move(gloo)));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError("cannot use bind address '" + bind_address +
                                      "': it must be an address of this machine (" + error.what() +
                                      ")");
  }
}

}  // namespace recycle
