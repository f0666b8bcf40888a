// The file that holds a job's token: one line, 32 random bytes or more in base64 or hexadecimal
// digits, that nobody but its owner can read.
//
//   RC_ASSIGN_OR_RETURN(const std::string token, ReadTokenFile("/home/me/token"));
//
// Thread-safe: functions.
#ifndef RECYCLE_APP_TOKEN_FILE_H_
#define RECYCLE_APP_TOKEN_FILE_H_

#include <string>

#include "recycle/base/status.h"

namespace recycle {

// The token. Errors are kInvalidArgument and go on where the file's name stands, with the line that
// mends it: "has mode 0644, but only its owner may read it; chmod 600 /home/me/token".
StatusOr<std::string> ReadTokenFile(const std::string& path);

// The shell's line that makes a token: "(umask 077; head -c 32 /dev/urandom | base64 > token)".
std::string TokenRecipe(const std::string& path);

}  // namespace recycle

#endif  // RECYCLE_APP_TOKEN_FILE_H_
