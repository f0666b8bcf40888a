// The right to lead a job: a term in the store that every writer of the store names. Taking over
// ends all earlier terms, so a coordinator that was frozen, or cut off, and comes back loses its
// next write, and learns that it has lost.
//
//   RC_ASSIGN_OR_RETURN(Leadership leads, Leadership::TakeOver(*store, "coordinator 71"));
//   Status stored = leads.Write("generation", 3, json);   // kAborted: somebody else leads
//
// Thread-safe as the store is.
#ifndef RECYCLE_STORE_LEADERSHIP_H_
#define RECYCLE_STORE_LEADERSHIP_H_

#include <cstdint>
#include <string>

#include "recycle/base/status.h"
#include "recycle/store/store.h"

namespace recycle {

class Leadership {
 public:
  // Begins the next term at once, whoever leads now. `store` must outlive it; `id` is for people.
  // Errors: the store's.
  static StatusOr<Leadership> TakeOver(Store& store, const std::string& id);

  std::int64_t term() const { return term_; }

  // Store::CompareAndSet that only the leader of this term can make. kAborted: the key is at
  // another version, or the term is over (Prove tells).
  Status Write(const std::string& key, std::int64_t expected_version, const std::string& value);

  // Does this term still last? kAborted if not; the store's errors if it does not say.
  Status Prove();

 private:
  Leadership(Store& store, std::int64_t term) : store_(&store), term_(term) {}

  Store* store_;
  std::int64_t term_;
};

}  // namespace recycle

#endif  // RECYCLE_STORE_LEADERSHIP_H_
