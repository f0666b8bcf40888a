// X.509 certificates and keys in PEM, judged before anything relies on them: a mistake in a file is
// a sentence at the start, not a handshake that fails later. Through OpenSSL.
//
//   RC_RETURN_IF_ERROR(CheckAuthority(ca_pem));
//   RC_RETURN_IF_ERROR(CheckCertificate(certificate_pem, ca_pem, clock.UnixSeconds()));
//   RC_RETURN_IF_ERROR(CheckKey(key_pem, certificate_pem));
//   RC_RETURN_IF_ERROR(CheckAddress(certificate_pem, "127.0.0.1"));
//
// Errors are kInvalidArgument and go on where a file's name stands: "holds no certificate in PEM".
// Thread-safe.
#ifndef RECYCLE_BASE_CERTIFICATE_H_
#define RECYCLE_BASE_CERTIFICATE_H_

#include <string>

#include "recycle/base/status.h"

namespace recycle {

// Does it hold certificates?
Status CheckAuthority(const std::string& ca);

// Is the first certificate signed by one of `ca`, through those that follow it, and valid at
// `unix_seconds`?
Status CheckCertificate(const std::string& certificate, const std::string& ca, double unix_seconds);

// Is it the private key of the first certificate?
Status CheckKey(const std::string& key, const std::string& certificate);

// Is the first certificate for the numeric `address`?
Status CheckAddress(const std::string& certificate, const std::string& address);

}  // namespace recycle

#endif  // RECYCLE_BASE_CERTIFICATE_H_
