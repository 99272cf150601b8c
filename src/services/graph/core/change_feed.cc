#include "services/graph/core/change_feed.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"
#include "services/graph/core/beside_writer.h"
#include "services/graph/core/checkpoint.h"
#include "services/graph/core/committed.h"
#include "services/graph/model/text.h"

namespace pulse::graph {

using cypher::Concat;

absl::StatusOr<std::unique_ptr<ChangeFeed>> ChangeFeed::Open(const std::string& path,
                                                             const ChangeFeedOptions& options) {
  Files* const files = options.files != nullptr ? options.files : SystemFiles();
  std::unique_ptr<ChangeFeed> feed;
  PULSE_RETURN_IF_ERROR(ReadBesideWriter(files, path, [&] {
    feed.reset(new ChangeFeed(path, files));
    return feed->Start(options);
  }));
  return feed;
}

absl::Status ChangeFeed::TooOld(uint64_t oldest) const {
  return absl::OutOfRangeError(Concat(
      path_, ": the log does not reach back to commit ", position_,
      "; the oldest position that it has is ", oldest,
      " (--keep-log keeps more of it behind a checkpoint): read the graph at a snapshot, and "
      "follow from its commit on"));
}

absl::Status ChangeFeed::Start(const ChangeFeedOptions& options) {
  const std::string manifest_path = Concat(path_, "/", kManifestFile);
  const auto bytes = files_->Read(manifest_path);
  if (absl::IsNotFound(bytes.status())) {
    return absl::NotFoundError(Concat(path_, ": there is no graph database"));
  }
  PULSE_RETURN_IF_ERROR(bytes.status());
  PULSE_ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Decode(*bytes, manifest_path));
  if (!manifest.checkpoint.empty() && !options.payloads_only) {
    PULSE_RETURN_IF_ERROR(ReadNames(Concat(path_, "/", manifest.checkpoint)));
  }
  // Up to the checkpoint all is durable.
  limit_ = manifest.checkpoint_sequence;
  PULSE_RETURN_IF_ERROR(RaiseLimit().status());
  // Where each kept segment begins.
  PULSE_ASSIGN_OR_RETURN(const auto numbers, ListWalSegments(files_, path_));
  std::vector<std::pair<uint64_t, uint64_t>> starts;  // number, sequence that it is above
  for (const uint64_t number : numbers) {
    if (!starts.empty() && starts.back().first + 1 != number) starts.clear();  // left behind
    WalSegmentReader reader(files_, path_, number);
    const auto head = reader.ReadHead();
    // It goes as the list is read, or is being made.
    if (absl::IsNotFound(head.status())) continue;
    PULSE_RETURN_IF_ERROR(head.status());
    if (head->valid) starts.emplace_back(number, head->after);
  }
  if (starts.empty()) {
    return absl::DataLossError(Concat(path_, " has no log that can be read"));
  }
  const uint64_t oldest = starts.front().second;
  position_ = options.from_now ? limit_ : options.after.value_or(oldest);
  if (position_ < oldest) return TooOld(oldest);
  // Names are in the checkpoint, or come after it.
  size_t first = 0;
  while (first + 1 < starts.size() && starts[first + 1].second <= position_ &&
         (options.payloads_only || starts[first + 1].first <= manifest.first_segment)) {
    ++first;
  }
  OpenSegment(starts[first].first, starts[first].second);
  if (options.from_now || position_ <= limit_) return absl::OkStatus();
  // Where nobody writes, the limit may be behind what the log has.
  uint64_t newest = limit_;
  WalSegmentReader last(files_, path_, starts.back().first);
  WalRecord record;
  for (uint64_t at = kWalSegmentHeader;; at = record.end) {
    PULSE_ASSIGN_OR_RETURN(const bool whole, last.ReadAt(at, &record));
    if (!whole) break;
    newest = std::max(newest, record.sequence);
  }
  if (position_ <= newest) return absl::OkStatus();
  return absl::OutOfRangeError(
      Concat(path_, ": there is no commit ", position_, " yet; the newest is ", newest));
}

// Names come first in a checkpoint; those of a bulk load in a frame behind the nodes.
absl::Status ChangeFeed::ReadNames(const std::string& checkpoint) {
  return ReadCheckpointNames(files_, checkpoint, [this](std::string_view payload) -> absl::Status {
    OperationReader reader(payload);
    Operation op;
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const bool more, reader.Next(&op));
      if (!more || op.kind != Operation::Kind::kName) return absl::OkStatus();
      names_[static_cast<size_t>(op.name_kind)][op.token] = op.text;
    }
  });
}

void ChangeFeed::OpenSegment(uint64_t number, uint64_t after) {
  before_ = std::move(segment_);
  before_at_ = at_;
  segment_ = std::make_unique<WalSegmentReader>(files_, path_, number);
  at_ = kWalSegmentHeader;
  last_seen_ = std::max(last_seen_, after);
  parts_.clear();
}

absl::StatusOr<bool> ChangeFeed::CheckHead() {
  if (at_ != kWalSegmentHeader || before_ == nullptr) return true;
  WalSegmentReader again(files_, path_, segment_->number());
  PULSE_ASSIGN_OR_RETURN(const auto head, again.ReadHead());
  if (head.valid && head.after == last_seen_) {
    before_.reset();
    return true;
  }
  segment_ = std::move(before_);
  segment_->Refresh();
  at_ = before_at_;
  return false;
}

absl::StatusOr<bool> ChangeFeed::RaiseLimit() {
  PULSE_ASSIGN_OR_RETURN(const auto committed, ReadCommitted(files_, path_));
  if (!committed.has_value() || committed->sequence <= limit_) return false;
  limit_ = committed->sequence;
  return true;
}

absl::StatusOr<bool> ChangeFeed::ReadRecord(WalRecord* record) {
  for (const bool again : {false, true}) {
    if (again) segment_->Refresh();
    PULSE_ASSIGN_OR_RETURN(const bool whole, segment_->ReadAt(at_, record));
    // What a cut left behind the end has older numbers.
    if (whole && record->sequence > last_seen_) return true;
  }
  return false;
}

absl::StatusOr<bool> ChangeFeed::MoveOn() {
  WalSegmentReader next(files_, path_, segment_->number() + 1);
  const auto head = next.ReadHead();
  const bool none = absl::IsNotFound(head.status());
  if (!none && !head.ok()) return head.status();
  if (!none && head->valid && head->after == last_seen_ && parts_.empty()) {
    OpenSegment(next.number(), head->after);
    return true;
  }
  // Either there is none yet, or it is gone as well: a checkpoint has taken both.
  constexpr int kLists = 100;
  for (int i = 0; i < kLists; ++i) {
    PULSE_ASSIGN_OR_RETURN(const auto numbers, ListWalSegments(files_, path_));
    if (numbers.empty()) return absl::NotFoundError(Concat(path_, " has no log any more"));
    const auto at = std::upper_bound(numbers.begin(), numbers.end(), segment_->number());
    if (at == numbers.end() || at != numbers.begin()) return false;
    WalSegmentReader oldest(files_, path_, *at);
    const auto first = oldest.ReadHead();
    if (absl::IsNotFound(first.status())) continue;  // gone since it was listed
    PULSE_RETURN_IF_ERROR(first.status());
    if (first->valid && first->after > last_seen_) return TooOld(first->after);
    if (!first->valid || first->after != last_seen_) return false;
    OpenSegment(*at, first->after);
    return true;
  }
  return absl::NotFoundError(Concat(path_, ": the log's segments go as fast as they are listed"));
}

absl::StatusOr<bool> ChangeFeed::Next(CommitChanges* out) {
  uint64_t sequence = 0;
  std::string payload;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const bool more, ReadCommit(&sequence, &payload));
    if (!more) return false;
    // Names of commits that are not asked for are needed all the same.
    PULSE_RETURN_IF_ERROR(Decode(sequence, payload, out));
    if (sequence <= position_) continue;
    position_ = sequence;
    return true;
  }
}

absl::StatusOr<bool> ChangeFeed::NextPayload(uint64_t* sequence, std::string* payload) {
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const bool more, ReadCommit(sequence, payload));
    if (!more) return false;
    if (*sequence <= position_) continue;
    position_ = *sequence;
    return true;
  }
}

absl::StatusOr<bool> ChangeFeed::ReadCommit(uint64_t* sequence, std::string* payload) {
  WalRecord record;
  while (true) {
    auto whole = ReadRecord(&record);
    if (absl::IsNotFound(whole.status())) whole = false;  // the segment is gone
    PULSE_RETURN_IF_ERROR(whole.status());
    if (*whole) {
      auto follows = CheckHead();
      if (absl::IsNotFound(follows.status())) follows = true;  // it is gone, and was read
      PULSE_RETURN_IF_ERROR(follows.status());
      if (!*follows) continue;
    }
    if (!*whole) {
      PULSE_ASSIGN_OR_RETURN(bool moved, MoveOn());
      if (!moved) return false;
      continue;
    }
    if (record.sequence > limit_) {
      // What was read before the limit rose may have been cut off since.
      PULSE_ASSIGN_OR_RETURN(const bool raised, RaiseLimit());
      segment_->Refresh();
      if (raised) continue;
      // Nobody has said so since; a later record may.
      PULSE_ASSIGN_OR_RETURN(const bool durable, FindDurable());
      if (!durable) return false;
      continue;
    }
    at_ = record.end;
    parts_ += record.payload;
    if (record.continues) continue;
    *payload = std::exchange(parts_, {});
    *sequence = last_seen_ = record.sequence;
    return true;
  }
}

// Reads on for a record that says that the one at hand is durable, as where COMMITTED is older than
// the log.
absl::StatusOr<bool> ChangeFeed::FindDurable() {
  WalRecord record;
  for (uint64_t at = at_;; at = record.end) {
    const auto whole = segment_->ReadAt(at, &record);
    if (absl::IsNotFound(whole.status())) return false;  // the segment is gone
    PULSE_RETURN_IF_ERROR(whole.status());
    if (!*whole) return false;
    if (record.durable > limit_ && record.durable > last_seen_) {
      limit_ = record.durable;
      segment_->Refresh();
      return true;
    }
  }
}

std::string ChangeFeed::NameOf(NameKind kind, Token token) const {
  const auto& names = names_[static_cast<size_t>(kind)];
  const auto it = names.find(token);
  return it == names.end() ? std::string() : it->second;
}

std::vector<std::pair<std::string, Value>> ChangeFeed::NamedProperties(
    std::string_view bytes) const {
  Properties properties;
  std::vector<std::pair<std::string, Value>> out;
  if (!DecodeProperties(bytes, &properties)) return out;
  for (auto& [key, value] : properties) {
    out.emplace_back(NameOf(NameKind::kKey, key), std::move(value));
  }
  return out;
}

absl::Status ChangeFeed::Decode(uint64_t sequence, std::string_view payload, CommitChanges* out) {
  out->sequence = sequence;
  out->changes.clear();
  OperationReader reader(payload);
  Operation op;
  using From = Operation::Kind;
  using To = Change::Kind;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const bool more, reader.Next(&op));
    if (!more) return absl::OkStatus();
    if (op.kind == From::kName) {
      names_[static_cast<size_t>(op.name_kind)][op.token] = op.text;
      continue;
    }
    if (sequence <= position_) continue;
    Change change;
    change.node = op.node;
    switch (op.kind) {
      case From::kName:
        break;
      case From::kCreateNode:
        change.kind = To::kCreateNode;
        for (const Token label : op.labels) {
          change.labels.push_back(NameOf(NameKind::kLabel, label));
        }
        change.properties = NamedProperties(op.properties);
        break;
      case From::kSetNode:
        change.kind = To::kSetNodeProperties;
        change.properties = NamedProperties(op.properties);
        break;
      case From::kAddLabel:
      case From::kRemoveLabel:
        change.kind = op.kind == From::kAddLabel ? To::kAddLabel : To::kRemoveLabel;
        change.labels.push_back(NameOf(NameKind::kLabel, op.token));
        break;
      case From::kDeleteNode:
        change.kind = To::kDeleteNode;
        break;
      case From::kCreateEdge:
      case From::kSetEdge:
      case From::kDeleteEdge:
        change.kind = op.kind == From::kCreateEdge ? To::kCreateRelationship
                      : op.kind == From::kSetEdge  ? To::kSetRelationshipProperties
                                                   : To::kDeleteRelationship;
        change.edge = op.edge;
        change.type = NameOf(NameKind::kType, op.edge.type);
        if (op.kind != From::kDeleteEdge) change.properties = NamedProperties(op.properties);
        break;
      case From::kCreateIndex:
        change.kind = To::kCreateIndex;
        change.index = op.index;
        break;
      case From::kDropIndex:
        change.kind = To::kDropIndex;
        change.index.name = op.text;
        break;
      case From::kCounters:
        // In the log, only a bulk load has it.
        change.kind = To::kBulkLoad;
        break;
    }
    out->changes.push_back(std::move(change));
  }
}

}  // namespace pulse::graph
