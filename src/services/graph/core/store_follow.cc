// A store that is open for reading and follows the one that writes, in another process or this one:
// it applies what the log has since, and where that is not enough is opened anew.
#include "base/errors.h"
#include "services/graph/core/change_feed.h"
#include "services/graph/core/store_impl.h"

namespace pulse::graph {
namespace {

// A bulk load leaves its counters in the log, and nothing of what it has brought.
bool IsBulkLoad(std::string_view payload) {
  return payload.starts_with(static_cast<char>(Operation::Kind::kCounters));
}

}  // namespace

absl::StatusOr<bool> StoreImpl::Follow() {
  std::lock_guard following(maintenance_mu_);
  if (stale_) return false;
  if (feed_ == nullptr) {
    ChangeFeedOptions options;
    options.after = sequence();
    options.payloads_only = true;
    options.files = files_;
    auto feed = ChangeFeed::Open(path_, options);
    if (absl::IsOutOfRange(feed.status())) return false;
    if (!feed.ok()) return feed.status();
    feed_ = *std::move(feed);
  }
  uint64_t sequence = 0;
  std::string payload;
  while (true) {
    const auto more = feed_->NextPayload(&sequence, &payload);
    // A checkpoint has what the log no longer has.
    if (absl::IsOutOfRange(more.status())) return false;
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::lock_guard lock(commit_mu_);
    if (IsBulkLoad(payload) || !Apply(sequence, payload).ok()) {
      stale_ = true;  // the feed is past what this store does not have
      return false;
    }
    applied_ = last_sequence_ = sequence;
    Publish(sequence);
    PruneNodes();
  }
  if (MemoryUsed() <= options_.memory_limit) return true;
  // What was flushed since is in runs, which only opening reads. Before the writer has flushed,
  // opening would bring the same into memory.
  const std::string path = PathOf(kManifestFile);
  PULSE_ASSIGN_OR_RETURN(const std::string bytes, files_->Read(path));
  PULSE_ASSIGN_OR_RETURN(const Manifest now, Manifest::Decode(bytes, path));
  return now.flushed <= manifest_.flushed;
}

absl::StatusOr<std::shared_ptr<StoreImpl>> GraphStore::Newest() {
  std::lock_guard lock(follow_mu_);
  const auto followed = impl_->Follow();
  if (followed.ok() && *followed) return impl_;
  const absl::Status& error = followed.status();
  const bool gone = absl::IsNotFound(error) || absl::IsDataLoss(error);
  if (!error.ok() && !gone) return error;
  // What the log no longer has is in the checkpoint that took its place; or it is lost.
  PULSE_ASSIGN_OR_RETURN(auto fresh, OpenImpl(path_, options_));
  if (gone && (fresh->sequence() <= impl_->sequence() || !fresh->stats().damage.empty())) {
    return error;
  }
  ++reopened_;
  std::lock_guard current(impl_mu_);
  impl_ = std::move(fresh);
  return impl_;
}

absl::StatusOr<std::shared_ptr<const cypher::GraphView>> GraphStore::Snapshot(
    std::optional<uint64_t> sequence) {
  if (!options_.follow) return impl_->Snapshot(sequence);
  PULSE_ASSIGN_OR_RETURN(std::shared_ptr<StoreImpl> impl, Newest());
  PULSE_ASSIGN_OR_RETURN(std::shared_ptr<const View> view, impl->Snapshot(sequence));
  // Its store lives as long as it does, although a newer one takes its place.
  const cypher::GraphView* const shown = view.get();
  return std::shared_ptr<const cypher::GraphView>(
      shown, [view = std::move(view), impl = std::move(impl)](const cypher::GraphView*) mutable {
        view.reset();
        impl.reset();
      });
}

}  // namespace pulse::graph
