// Serializable transactions: what was committed since their snapshots, and the check against it.
#include <algorithm>

#include "base/errors.h"
#include "services/graph/core/serializable_transaction.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

// More is not kept: transactions with older snapshots are refused.
constexpr size_t kMostFootprintBytes = size_t{64} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<cypher::DatabaseTransaction>> StoreImpl::BeginSerializable() {
  if (options_.read_only) {
    return absl::FailedPreconditionError("the database is open for reading only");
  }
  std::unique_lock lock(commit_mu_);
  // Nobody has kept what those change that were validated before.
  WaitForQuiet(&lock);
  PULSE_ASSIGN_OR_RETURN(auto view, Snapshot(std::nullopt));
  const uint64_t since = view->sequence();
  if (serializable_.empty()) footprints_from_ = since;
  serializable_.insert(since);
  std::shared_ptr<void> registration(nullptr, [this, since](void*) { EndSerializable(since); });
  return std::make_unique<SerializableTransaction>(this, std::move(view), std::move(registration));
}

void StoreImpl::EndSerializable(uint64_t since) {
  std::lock_guard lock(commit_mu_);
  serializable_.erase(serializable_.find(since));
  const uint64_t oldest = serializable_.empty() ? ~uint64_t{0} : *serializable_.begin();
  while (!footprints_.empty() && footprints_.front().sequence <= oldest) {
    footprint_bytes_ -= footprints_.front().bytes();
    footprints_.pop_front();
  }
}

void StoreImpl::KeepFootprint(Footprint footprint) {
  footprint_bytes_ += footprint.bytes();
  footprints_.push_back(std::move(footprint));
  while (footprint_bytes_ > kMostFootprintBytes) {
    footprint_bytes_ -= footprints_.front().bytes();
    footprints_from_ = footprints_.front().sequence;
    footprints_.pop_front();
  }
}

absl::Status StoreImpl::ValidateReads(uint64_t since, const ReadSet& reads) const {
  if (since < footprints_from_) {
    return absl::AbortedError(
        "too much was committed since this serializable transaction began; run it again");
  }
  // The newest ones are all that concern a short transaction.
  for (auto it = footprints_.rbegin(); it != footprints_.rend() && it->sequence > since; ++it) {
    const auto conflict = reads.Conflict(*it, tables_.names);
    if (!conflict.has_value()) continue;
    return absl::AbortedError(Concat("commit ", it->sequence, " changed what this transaction has ",
                                     "read: ", *conflict, "; run this one again"));
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
