#include "recycle/base/certificate.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <vector>

namespace recycle {
namespace {

template <auto kFree>
struct Freer {
  template <typename Object>
  void operator()(Object* object) const {
    kFree(object);
  }
};
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Authorities = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using Verification = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;

// A key with a passphrase is no key here: nobody is there to type it.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*unused*/) { return 0; }

Bio Open(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

std::vector<Certificate> ReadCertificates(const std::string& pem) {
  const Bio bio = Open(pem);
  std::vector<Certificate> certificates;
  while (X509* const one = PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    certificates.emplace_back(one);
  }
  ERR_clear_error();  // that of the end
  return certificates;
}

Status NoCertificate() { return absl::InvalidArgumentError("holds no certificate in PEM"); }

std::string Time(const ASN1_TIME* time) {
  const Bio bio(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(bio.get(), time);
  char* text = nullptr;
  const auto size = static_cast<std::size_t>(BIO_get_mem_data(bio.get(), &text));
  return {text, size};
}

}  // namespace

Status CheckAuthority(const std::string& ca) {
  return ReadCertificates(ca).empty() ? NoCertificate() : OkStatus();
}

Status CheckCertificate(const std::string& certificate, const std::string& ca,
                        double unix_seconds) {
  const std::vector<Certificate> chain = ReadCertificates(certificate);
  if (chain.empty()) return NoCertificate();
  const Authorities authorities(X509_STORE_new());
  for (const Certificate& one : ReadCertificates(ca)) {
    X509_STORE_add_cert(authorities.get(), one.get());
  }
  STACK_OF(X509)* const others = sk_X509_new_null();
  for (std::size_t i = 1; i < chain.size(); ++i) sk_X509_push(others, chain[i].get());
  const Verification verification(X509_STORE_CTX_new());
  X509_STORE_CTX_init(verification.get(), authorities.get(), chain.front().get(), others);
  X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(verification.get()),
                             static_cast<std::time_t>(unix_seconds));
  const bool valid = X509_verify_cert(verification.get()) == 1;
  const int error = X509_STORE_CTX_get_error(verification.get());
  sk_X509_free(others);
  ERR_clear_error();
  if (valid) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "holds a certificate that is not valid now: {} (it is for {} to {})",
      X509_verify_cert_error_string(error), Time(X509_get0_notBefore(chain.front().get())),
      Time(X509_get0_notAfter(chain.front().get()))));
}

Status CheckKey(const std::string& key, const std::string& certificate) {
  const Bio bio = Open(key);
  const Key parsed(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  const std::vector<Certificate> chain = ReadCertificates(certificate);
  const bool fits = parsed != nullptr && !chain.empty() &&
                    X509_check_private_key(chain.front().get(), parsed.get()) == 1;
  ERR_clear_error();
  if (fits) return OkStatus();
  return absl::InvalidArgumentError(parsed == nullptr
                                        ? "holds no private key in PEM without a passphrase"
                                        : "holds a key that is not the certificate's");
}

Status CheckAddress(const std::string& certificate, const std::string& address) {
  const std::vector<Certificate> chain = ReadCertificates(certificate);
  if (chain.empty()) return NoCertificate();
  const bool fits = X509_check_ip_asc(chain.front().get(), address.c_str(), 0) == 1;
  ERR_clear_error();
  if (fits) return OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "holds a certificate that is not for {0}; make one with subjectAltName = IP:{0}", address));
}

}  // namespace recycle
