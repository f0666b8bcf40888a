#include "recycle/app/store_outage.h"

#include <fmt/format.h>

#include <string>

#include "recycle/app/numbers.h"
#include "recycle/base/file.h"

namespace recycle {
namespace {

std::string OutageFile(const RunFolder& folder) {
  return folder.FaultFolder() + "/store-out-until";
}

}  // namespace

Status BeginStoreOutage(const RunFolder& folder, double over) {
  return WriteFileAtomically(OutageFile(folder), fmt::format("{:.6f}", over));
}

bool IsStoreOut(const RunFolder& folder, double now) {
  const StatusOr<std::string> text = ReadWholeFile(OutageFile(folder));
  return text.ok() && now < ParseReal(*text).value_or(0);
}

}  // namespace recycle
