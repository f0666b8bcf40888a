#include "recycle/base/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "recycle/base/check.h"

namespace recycle {
namespace {

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string RandomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  RC_CHECK(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) == 1)
      << "the operating system gives no random bytes";
  return bytes;
}

std::string HmacSha256(std::string_view key, std::string_view text) {
  std::string code(kHmacBytes, '\0');
  unsigned int size = 0;
  RC_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), Bytes(text), text.size(),
                reinterpret_cast<unsigned char*>(code.data()), &size) != nullptr &&
           size == kHmacBytes)
      << "HMAC-SHA-256 unavailable";
  return code;
}

bool SameSecret(std::string_view secret, std::string_view guess) {
  return secret.size() == guess.size() &&
         CRYPTO_memcmp(secret.data(), guess.data(), secret.size()) == 0;
}

}  // namespace recycle
