// HostGroup: a poll group of the library: what it keeps of each request until it completes, and how
// a response becomes a completion. The rest is link/message_group.h. DDS 4.2.
//
// Any thread; Submit does not block; Wait blocks as asked.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "link/message_group.h"
#include "services/files/wire.h"

namespace pulse::files {

enum class ReadMode : uint8_t { kNone, kPieces, kInPlace };

// What the library keeps of a request until it completes.
struct Outstanding {
  Outstanding() = default;
  Outstanding(uint64_t its_cookie, Operation its) : cookie(its_cookie), operation(its) {}

  uint64_t cookie = 0;
  Operation operation = Operation::kNone;
  ReadMode mode = ReadMode::kNone;
  uint8_t pieces = 0;
  uint16_t skip = 0;  // of a read's response: what lies before its offset in the block
  Piece piece[Library::kMaxPieces];
};

class HostGroup {
 public:
  // `poll`: what the library calls it.
  static absl::StatusOr<std::unique_ptr<HostGroup>> Create(MessageChannel* channel, uint32_t poll,
                                                           const PollOptions& options);

  // OK: it will complete. Unavailable without a message: full. `request`.id is filled in.
  absl::Status Submit(const Outstanding& what, Request request, pulse::Piece body, bool direct,
                      RequestId* id);
  absl::StatusOr<size_t> Wait(Completion* out, size_t max, int64_t timeout_us);
  void Wake() { group_->Wake(); }
  bool End() { return group_->End(); }
  void Release(Completion* completion);

  uint64_t max_read() const { return max_read_; }
  uint64_t max_write() const { return max_write_; }
  uint64_t outstanding() const { return group_->outstanding(); }
  uint32_t poll() const { return poll_; }

 private:
  class Taker;

  explicit HostGroup(MessageChannel* channel) : channel_(channel) {}

  MessageChannel* const channel_;
  uint32_t poll_ = 0;
  uint64_t max_read_ = 0;
  uint64_t max_write_ = 0;
  std::unique_ptr<HostMessageGroup> group_;
  std::vector<Outstanding> requests_;  // by slot
};

}  // namespace pulse::files
