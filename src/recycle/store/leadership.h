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

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/store/store.h"

namespace recycle {

class Leadership {
 public:
  // Begins the next term at once, whoever leads now. `store` must outlive it; `id` is for people.
  // Errors: the store's.
  static StatusOr<Leadership> TakeOver(Store& store, const std::string& id);

  // Waits until nobody holds the lead, holds it by a lease of `ttl`, and begins the next term.
  // Several may campaign; one of them leads. Errors: the store's, if it cannot be reached at first;
  // later outages are waited out.
  static StatusOr<Leadership> Campaign(Store& store, const std::string& id, Duration ttl);

  std::int64_t term() const { return term_; }

  // Store::CompareAndSet that only the leader of this term can make. kAborted: the key is at
  // another version, or the term is over (Prove tells).
  Status Write(const std::string& key, std::int64_t expected_version, const std::string& value);

  // Does this term still last? Keeps the lease alive, if there is one. kAborted if not, or if the
  // lease may be over, for the store has not answered for as long: somebody else may lead at any
  // moment. Before that, and without a lease, the store's errors.
  Status Prove();

 private:
  Leadership(Store& store, std::int64_t term) : store_(&store), term_(term) {}

  Store* store_;
  std::int64_t term_;
  Store::Lease lease_ = 0;  // 0: nobody else campaigns
  Duration ttl_{};          // of the lease
  TimePoint kept_alive_;    // when it was asked for last with success
};

}  // namespace recycle

#endif  // RECYCLE_STORE_LEADERSHIP_H_
