// ChangeFeed: the commits of a database, one after the other, from a position on, as their
// operations with names instead of tokens. It reads the log's files, in the process that writes, in
// another one, or where nobody writes: it takes no lock, and a follower that dies or is slow holds
// nothing up.
//
// A position is the number of a commit; the feed gives those that come after it, each once, in
// order, and no commit that could still vanish. Who stores the number of the last commit that it
// has worked on goes on from there. The log goes when a checkpoint has its contents, but for
// StoreOptions::keep_log_bytes: an older position is OutOfRange, which says which is the oldest
// one.
//
// A bulk load is one commit without its contents. A commit that changed nothing has none.
//
// Threads: one. Next() blocks on I/O, not for commits: ask again later. Memory: one commit, the
// names of labels, types and keys, and 1 MiB.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/operations.h"
#include "services/graph/core/wal_records.h"

namespace pulse::graph {

// One operation. Which fields it has, its kind says.
struct Change {
  enum class Kind : uint8_t {
    kCreateNode,                 // node, labels, properties
    kSetNodeProperties,          // node, properties; null: removed
    kAddLabel,                   // node, labels: one
    kRemoveLabel,                // node, labels: one
    kDeleteNode,                 // node
    kCreateRelationship,         // edge, type, properties
    kSetRelationshipProperties,  // edge, type, properties; null: removed
    kDeleteRelationship,         // edge, type
    kCreateIndex,                // index
    kDropIndex,                  // index.name
    kBulkLoad,
  };
  Kind kind = Kind::kCreateNode;
  NodeId node = 0;
  EdgeRef edge;
  std::string type;
  std::vector<std::string> labels;
  std::vector<std::pair<std::string, Value>> properties;
  IndexDefinition index;
};

struct CommitChanges {
  uint64_t sequence = 0;
  std::vector<Change> changes;
};

struct ChangeFeedOptions {
  // Commits after this one; nothing: all that the log still has.
  std::optional<uint64_t> after;
  // Only what is committed from now on; `after` does not count.
  bool from_now = false;
  // For NextPayload() alone: names are not needed.
  bool payloads_only = false;
  Files* files = nullptr;  // null: the operating system's
};

class ChangeFeed {
 public:
  // NotFound: there is no database. OutOfRange: the log does not reach back to `after`, or there is
  // no such commit yet.
  static absl::StatusOr<std::unique_ptr<ChangeFeed>> Open(const std::string& path,
                                                          const ChangeFeedOptions& options = {});

  // False: nothing more was committed yet. OutOfRange: it fell so far behind that the log went.
  // DataLoss: the log is damaged.
  absl::StatusOr<bool> Next(CommitChanges* out);
  // The same as the bytes of its operations (operations.h).
  absl::StatusOr<bool> NextPayload(uint64_t* sequence, std::string* payload);
  // The last commit that was given, or where it began.
  uint64_t position() const { return position_; }

 private:
  ChangeFeed(std::string path, Files* files) : path_(std::move(path)), files_(files) {}
  absl::Status Start(const ChangeFeedOptions& options);
  absl::Status ReadNames(const std::string& checkpoint);
  void OpenSegment(uint64_t number, uint64_t after);
  // Before the first record of a segment is taken: whether it goes on where the last one ended.
  absl::StatusOr<bool> CheckHead();
  // Whether there is a whole record to go on with.
  absl::StatusOr<bool> ReadRecord(WalRecord* record);
  // At a segment's end: false: there is none after it yet.
  absl::StatusOr<bool> MoveOn();
  // Raises the limit. False: it stays.
  absl::StatusOr<bool> RaiseLimit();
  absl::StatusOr<bool> FindDurable();
  // The next commit of the log, also one up to position_.
  absl::StatusOr<bool> ReadCommit(uint64_t* sequence, std::string* payload);
  absl::Status Decode(uint64_t sequence, std::string_view payload, CommitChanges* out);
  absl::Status TooOld(uint64_t oldest) const;
  std::string NameOf(NameKind kind, Token token) const;
  std::vector<std::pair<std::string, Value>> NamedProperties(std::string_view bytes) const;

  const std::string path_;
  Files* const files_;
  std::map<Token, std::string> names_[3];
  uint64_t position_ = 0;
  uint64_t limit_ = 0;      // commits up to it are durable
  uint64_t last_seen_ = 0;  // of the log
  std::unique_ptr<WalSegmentReader> segment_;
  uint64_t at_ = 0;
  // Where it came from: a segment whose making failed has nothing, and the one before goes on.
  std::unique_ptr<WalSegmentReader> before_;
  uint64_t before_at_ = 0;
  std::string parts_;
};

}  // namespace pulse::graph
