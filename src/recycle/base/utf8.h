// Whether bytes are text. Paths and names travel through JSON and YAML, which hold UTF-8 only.
#ifndef RECYCLE_BASE_UTF8_H_
#define RECYCLE_BASE_UTF8_H_

#include <string_view>

namespace recycle {

// Well-formed UTF-8: no stray bytes, no overlong forms, no surrogates, at most U+10FFFF.
bool IsUtf8(std::string_view text);

}  // namespace recycle

#endif  // RECYCLE_BASE_UTF8_H_
