// Certificates for tests, made on the spot: an authority of its own, and what it signs.
//
//   const TestAuthority authority;
//   const TestAuthority::Signed server = authority.Sign("127.0.0.1");
//   const TestAuthority::Signed old = authority.Sign("127.0.0.1", -20, -10);   // expired
#ifndef RECYCLE_TESTING_CERTIFICATES_H_
#define RECYCLE_TESTING_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <functional>
#include <memory>
#include <string>

#include "recycle/base/check.h"
#include "recycle/base/secret.h"

namespace recycle {

class TestAuthority {
 public:
  struct Signed {
    std::string certificate;  // PEM
    std::string key;          // PEM
  };

  TestAuthority() : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), certificate_(nullptr, X509_free) {
    certificate_ = Make(AnyName(), key_.get(), -1, 1);
    Extend(NID_basic_constraints, "critical,CA:TRUE", certificate_.get());
    Finish(certificate_.get(), nullptr);
  }

  std::string pem() const {
    return Pem([this](BIO* bio) { PEM_write_bio_X509(bio, certificate_.get()); });
  }

  // For the numeric `address`, valid from `first` to `last` days from now.
  Signed Sign(const std::string& address, long first = -1, long last = 1) const {
    const Key key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const Certificate certificate = Make("test", key.get(), first, last);
    Extend(NID_subject_alt_name, "IP:" + address, certificate.get());
    Finish(certificate.get(), certificate_.get());
    return {Pem([&](BIO* bio) { PEM_write_bio_X509(bio, certificate.get()); }), Pem([&](BIO* bio) {
              PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
            })};
  }

 private:
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  static constexpr long kDay = 24 * 3600;

  // No two authorities have the same.
  static std::string AnyName() {
    return "authority " + std::to_string(std::hash<std::string>()(RandomBytes(8)));
  }

  static Certificate Make(const std::string& name, EVP_PKEY* key, long first, long last) {
    Certificate certificate(X509_new(), X509_free);
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1 + last);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), first * kDay);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), last * kDay);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_pubkey(certificate.get(), key);
    return certificate;
  }

  static void Extend(int what, const std::string& value, X509* certificate) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str());
    RC_CHECK(extension != nullptr) << value;
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  // Signs it with this authority's key; `issuer` is nullptr for the authority itself.
  void Finish(X509* certificate, const X509* issuer) const {
    X509_set_issuer_name(certificate,
                         X509_get_subject_name(issuer == nullptr ? certificate : issuer));
    RC_CHECK(X509_sign(certificate, key_.get(), EVP_sha256()) > 0);
  }

  template <typename Write>
  static std::string Pem(const Write& write) {
    BIO* const bio = BIO_new(BIO_s_mem());
    write(bio);
    char* text = nullptr;
    const auto size = static_cast<std::size_t>(BIO_get_mem_data(bio, &text));
    std::string pem(text, size);
    BIO_free(bio);
    return pem;
  }

  Key key_;
  Certificate certificate_;
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_CERTIFICATES_H_
