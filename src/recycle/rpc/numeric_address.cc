#include "recycle/rpc/numeric_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

namespace recycle {
namespace {

bool IsNumeric(int family, const std::string& host) {
  unsigned char parsed[sizeof(in6_addr)];
  return inet_pton(family, host.c_str(), parsed) == 1;
}

bool IsPort(std::string_view text) {
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && last == end && port >= 1 && port <= 65535;
}

}  // namespace

StatusOr<std::string> JoinAddress(const std::string& host, int port) {
  if (IsNumeric(AF_INET, host)) return fmt::format("{}:{}", host, port);
  if (IsNumeric(AF_INET6, host)) return fmt::format("[{}]:{}", host, port);
  return absl::InvalidArgumentError(
      fmt::format("address '{}' is not numeric; names are never looked up, e.g. 127.0.0.1", host));
}

StatusOr<std::string> GrpcTarget(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon != std::string::npos && IsPort(std::string_view(address).substr(colon + 1))) {
    const std::string host = address.substr(0, colon);
    if (IsNumeric(AF_INET, host)) return "ipv4:" + address;
    if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
        IsNumeric(AF_INET6, host.substr(1, host.size() - 2))) {
      return "ipv6:" + address;
    }
  }
  return absl::InvalidArgumentError(fmt::format(
      "coordinator address '{}' is not of the form ADDRESS:PORT with a numeric address, e.g. "
      "127.0.0.1:40213",
      address));
}

bool IsLoopback(const std::string& host) {
  in_addr ipv4;
  if (inet_pton(AF_INET, host.c_str(), &ipv4) == 1) return (ntohl(ipv4.s_addr) >> 24) == 127;
  in6_addr ipv6;
  return inet_pton(AF_INET6, host.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LOOPBACK(&ipv6);
}

Status CheckListenAddress(const std::string& host) {
  in_addr ipv4;
  in6_addr ipv6;
  const bool is_ipv4 = inet_pton(AF_INET, host.c_str(), &ipv4) == 1;
  const bool is_ipv6 = inet_pton(AF_INET6, host.c_str(), &ipv6) == 1;
  const bool is_any =
      is_ipv4 ? ipv4.s_addr == htonl(INADDR_ANY) : is_ipv6 && IN6_IS_ADDR_UNSPECIFIED(&ipv6);
  if ((is_ipv4 || is_ipv6) && !is_any) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("'{}' is not one numeric address of a machine, e.g. 127.0.0.1", host));
}

}  // namespace recycle
