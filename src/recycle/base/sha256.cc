#include "recycle/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "recycle/base/check.h"

namespace recycle {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  RC_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1) << "SHA-256 unavailable";
}

Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) {
  RC_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

void Sha256::Update(std::string_view text) { Update(std::as_bytes(std::span(text))); }

std::string Sha256::HexDigest() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  RC_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[digest[i] >> 4];
    hex += kDigits[digest[i] & 15];
  }
  return hex;
}

std::string Sha256Of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

std::string Sha256Of(std::string_view text) { return Sha256Of(std::as_bytes(std::span(text))); }

}  // namespace recycle
