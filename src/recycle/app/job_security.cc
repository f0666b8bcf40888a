#include "recycle/app/job_security.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "recycle/app/token_file.h"
#include "recycle/base/certificate.h"
#include "recycle/base/clock.h"
#include "recycle/base/file.h"
#include "recycle/rpc/numeric_address.h"

namespace recycle {
namespace {

// A file that a key names.
struct NamedFile {
  std::string_view key;  // "ca_file"
  std::string path;
};

std::string SecurityKey(std::string_view key) { return fmt::format("security.{}", key); }

// `status` as a sentence about `file`.
Status AboutFile(const NamedFile& file, const Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      fmt::format("{} '{}' {}", SecurityKey(file.key), file.path, std::string(status.message())));
}

StatusOr<std::string> ReadNamedFile(const NamedFile& file) {
  if (file.path.empty()) return std::string();
  const StatusOr<std::string> text = ReadWholeFile(file.path);
  if (text.ok()) return *text;
  return absl::InvalidArgumentError(
      fmt::format("{}: {}", SecurityKey(file.key), std::string(text.status().message())));
}

Status NeedsToo(std::string_view given, std::string_view missing) {
  return absl::InvalidArgumentError(
      fmt::format("{} is set without {}, which it needs; set both, or none", SecurityKey(given),
                  SecurityKey(missing)));
}

Status CheckEtcdKeys(const JobConfig& config) {
  const JobConfig::Security& security = config.security;
  if (security.etcd_certificate_file.empty() != security.etcd_key_file.empty()) {
    return security.etcd_key_file.empty() ? NeedsToo("etcd_certificate_file", "etcd_key_file")
                                          : NeedsToo("etcd_key_file", "etcd_certificate_file");
  }
  if (!security.etcd_certificate_file.empty() && security.etcd_ca_file.empty()) {
    return NeedsToo("etcd_certificate_file", "etcd_ca_file");
  }
  if (!security.etcd_ca_file.empty() && config.resilience.store == "embedded") {
    return absl::InvalidArgumentError(
        "security.etcd_ca_file is set, but resilience.store is embedded; set that to "
        "etcd://ADDRESS:PORT, or leave the file out");
  }
  return OkStatus();
}

// `certificate` may be without a path; `listen`: what it must be for, empty for a client's.
StatusOr<TlsTexts> ReadTls(const NamedFile& ca, const NamedFile& certificate, const NamedFile& key,
                           const std::string& listen) {
  TlsTexts texts;
  RC_ASSIGN_OR_RETURN(texts.ca, ReadNamedFile(ca));
  RC_ASSIGN_OR_RETURN(texts.certificate, ReadNamedFile(certificate));
  RC_ASSIGN_OR_RETURN(texts.key, ReadNamedFile(key));
  RC_RETURN_IF_ERROR(AboutFile(ca, CheckAuthority(texts.ca)));
  if (certificate.path.empty()) return texts;
  const double now = SystemClock().UnixSeconds();
  RC_RETURN_IF_ERROR(AboutFile(certificate, CheckCertificate(texts.certificate, texts.ca, now)));
  RC_RETURN_IF_ERROR(AboutFile(key, CheckKey(texts.key, texts.certificate)));
  if (!listen.empty()) {
    RC_RETURN_IF_ERROR(AboutFile(certificate, CheckAddress(texts.certificate, listen)));
  }
  return texts;
}

// Can this machine listen on the numeric address `listen`?
Status CheckBind(std::string_view name, const std::string& listen) {
  const bool is_ipv6 = listen.find(':') != std::string::npos;
  sockaddr_in ipv4{};
  sockaddr_in6 ipv6{};
  ipv4.sin_family = AF_INET;
  ipv6.sin6_family = AF_INET6;
  inet_pton(is_ipv6 ? AF_INET6 : AF_INET, listen.c_str(),
            is_ipv6 ? static_cast<void*>(&ipv6.sin6_addr) : static_cast<void*>(&ipv4.sin_addr));
  const auto* const address =
      is_ipv6 ? reinterpret_cast<const sockaddr*>(&ipv6) : reinterpret_cast<const sockaddr*>(&ipv4);
  const int probe = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = bind(probe, address, is_ipv6 ? sizeof(ipv6) : sizeof(ipv4)) == 0;
  const int error = errno;
  if (probe >= 0) close(probe);
  if (bound) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} is {}, but it must be an address of this machine ({}); ip addr shows them; the nearest "
      "valid choice is 127.0.0.1",
      name, listen, std::strerror(error)));
}

// No listener that other machines can reach without a token.
Status CheckToken(const JobConfig& config, std::string_view name, const std::string& listen) {
  if (IsLoopback(listen) || !config.security.token_file.empty()) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} is {}, which other machines may reach: it needs security.token_file, a file with a "
      "secret, made by {}; the nearest valid choice without one is 127.0.0.1",
      name, listen, TokenRecipe("token")));
}

}  // namespace

Status CheckSecurityKeys(const JobConfig& config) {
  const JobConfig::Security& security = config.security;
  RC_RETURN_IF_ERROR(CheckToken(config, "launch.listen", config.launch.listen));
  const bool has_ca = !security.ca_file.empty();
  if (has_ca && security.certificate_file.empty()) return NeedsToo("ca_file", "certificate_file");
  if (!security.certificate_file.empty() && security.key_file.empty()) {
    return NeedsToo("certificate_file", "key_file");
  }
  if (!security.key_file.empty() && !has_ca) return NeedsToo("key_file", "ca_file");
  if (security.mutual_tls && !has_ca) return NeedsToo("mutual_tls", "ca_file");
  return CheckEtcdKeys(config);
}

StatusOr<RpcSecurity> LoadSecurity(const JobConfig& config) {
  const JobConfig::Security& keys = config.security;
  RpcSecurity security{.token = "", .tls = std::nullopt, .mutual_tls = keys.mutual_tls};
  if (!keys.token_file.empty()) {
    const StatusOr<std::string> token = ReadTokenFile(keys.token_file);
    RC_RETURN_IF_ERROR(AboutFile({"token_file", keys.token_file}, token.status()));
    security.token = *token;
  }
  if (!keys.ca_file.empty()) {
    RC_ASSIGN_OR_RETURN(security.tls, ReadTls({"ca_file", keys.ca_file},
                                              {"certificate_file", keys.certificate_file},
                                              {"key_file", keys.key_file}, config.launch.listen));
  }
  return security;
}

StatusOr<std::optional<TlsTexts>> LoadEtcdTls(const JobConfig::Security& security) {
  if (security.etcd_ca_file.empty()) return std::optional<TlsTexts>();
  RC_ASSIGN_OR_RETURN(TlsTexts texts,
                      ReadTls({"etcd_ca_file", security.etcd_ca_file},
                              {"etcd_certificate_file", security.etcd_certificate_file},
                              {"etcd_key_file", security.etcd_key_file}, /*listen=*/""));
  return std::optional<TlsTexts>(std::move(texts));
}

Status CheckListenHere(const JobConfig& config, std::string_view name, const std::string& listen) {
  if (!CheckListenAddress(listen).ok()) {
    return absl::InvalidArgumentError(
        fmt::format("{} is '{}', but it must be a numeric address of this machine; ip addr shows "
                    "them; the nearest valid choice is 127.0.0.1",
                    name, listen));
  }
  RC_RETURN_IF_ERROR(CheckToken(config, name, listen));
  return CheckBind(name, listen);
}

Status CheckSecurity(const JobConfig& config) {
  RC_RETURN_IF_ERROR(CheckListenHere(config, "launch.listen", config.launch.listen));
  RC_RETURN_IF_ERROR(LoadSecurity(config).status());
  return LoadEtcdTls(config.security).status();
}

}  // namespace recycle
