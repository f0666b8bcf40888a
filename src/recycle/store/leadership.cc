#include "recycle/store/leadership.h"

#include <fmt/format.h>

#include <optional>

namespace recycle {
namespace {

// Its version is the term, its value whose term it is.
constexpr char kTermKey[] = "term";

}  // namespace

StatusOr<Leadership> Leadership::TakeOver(Store& store, const std::string& id) {
  for (;;) {
    RC_ASSIGN_OR_RETURN(const std::optional<Store::Entry> last, store.Get(kTermKey));
    const std::int64_t version = last ? last->version : 0;
    const Status taken =
        store.CompareAndSet({.key = kTermKey, .expected_version = version, .value = id});
    if (taken.ok()) return Leadership(store, version + 1);
    if (!absl::IsAborted(taken)) return taken;  // else another one was faster: after it
  }
}

Status Leadership::Write(const std::string& key, std::int64_t expected_version,
                         const std::string& value) {
  return store_->CompareAndSet({.key = key,
                                .expected_version = expected_version,
                                .value = value,
                                .guard = Store::Guard{kTermKey, term_}});
}

Status Leadership::Prove() {
  RC_ASSIGN_OR_RETURN(const std::optional<Store::Entry> newest, store_->Get(kTermKey));
  if (newest && newest->version == term_) return OkStatus();
  return absl::AbortedError(fmt::format("the term {} is over: {} leads since term {}", term_,
                                        newest ? newest->value : "nobody",
                                        newest ? newest->version : 0));
}

}  // namespace recycle
