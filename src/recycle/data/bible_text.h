// The King James text out of Debian's packages bible-kjv and bible-kjv-text. Internal to data.
#ifndef RECYCLE_DATA_BIBLE_TEXT_H_
#define RECYCLE_DATA_BIBLE_TEXT_H_

#include <string>

#include "recycle/base/status.h"

namespace recycle {

// What data.text says to mean this text.
inline constexpr const char* kBibleText = "debian:bible-kjv";

// One verse a line, without labels; public domain. Runs `program`, found on PATH. Error: kNotFound,
// naming the packages, if there is no such program or it prints no verses.
StatusOr<std::string> ReadBibleText(const std::string& program = "bible");

}  // namespace recycle

#endif  // RECYCLE_DATA_BIBLE_TEXT_H_
