// Secrets: random bytes that nobody can guess, proofs that one knows a key, and comparisons that do
// not tell by their duration how much of a guess was right. Through OpenSSL.
//
//   const std::string key = RandomBytes(32);
//   const std::string proof = HmacSha256(key, "what is claimed");
//   if (!SameSecret(proof, received)) ...
//
// Thread-safe.
#ifndef RECYCLE_BASE_SECRET_H_
#define RECYCLE_BASE_SECRET_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace recycle {

// From the operating system's generator, reseeded after a fork.
std::string RandomBytes(std::size_t count);

inline constexpr std::size_t kHmacBytes = 32;
// RFC 2104 with SHA-256: kHmacBytes bytes that only who knows `key` can make of `text`.
std::string HmacSha256(std::string_view key, std::string_view text);

// Are they equal? Takes as long for every `guess` of one length.
bool SameSecret(std::string_view secret, std::string_view guess);

}  // namespace recycle

#endif  // RECYCLE_BASE_SECRET_H_
