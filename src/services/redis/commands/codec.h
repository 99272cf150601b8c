// The Redis protocol, versions 2 and 3: splitting and reading of requests and replies, writing of
// replies. What a peer sends is untrusted: everything is checked against Limits before it is used,
// and no length that a peer merely claims leads to an allocation.
//
// Ownership: readers keep views of the caller's bytes. Threads: each object belongs to one thread.
// Nothing blocks. Errors are InvalidArgument, in Redis's own words with the code in front ("ERR
// Protocol error: invalid bulk length"): what the client gets before its connection ends.
// docs/reference/protocol.md, "The Redis protocol".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse::redis {

class ErrorStats;

struct Limits {
  uint32_t max_arguments = 1u << 20;       // of one request
  uint64_t max_bulk = uint64_t{32} << 20;  // bytes of one argument
  uint64_t max_request = 0;                // bytes; 0: of two arguments of max_bulk, and more
  uint32_t max_inline = 64u << 10;         // bytes of a request that is a line
  uint64_t max_reply_bulk = uint64_t{512} << 20;
  uint64_t max_elements = uint64_t{1} << 26;  // of one array in a reply
};
inline constexpr uint64_t kMostMaxBulk = uint64_t{512} << 20;  // the most that max_bulk may be
inline constexpr int kMaxNesting = 32;                         // of replies
// What a request has beside one argument of max_bulk: its key, and what is around.
inline constexpr uint64_t kAroundValue = uint64_t{128} << 10;
// Where memory is bounded; a line of memcached's may have a MiB.
inline constexpr uint64_t LongestRequest(uint64_t max_bulk) {
  return std::max(max_bulk + kAroundValue, uint64_t{1280} << 10);
}

// A decimal number as Redis reads it: no '+', no leading zeros or blanks, all of `text`. False when
// it is none, or not within int64_t.
bool ParseInteger(std::string_view text, int64_t* value);

// Finds where requests end. Next is given the bytes of one message from its beginning, each time
// with more of them, and takes up where it stopped.
class RequestSplitter {
 public:
  explicit RequestSplitter(const Limits& limits = {}) : limits_(limits) {}

  // The size of the first whole request; 0 when there is none yet. After a size, or an error, it
  // starts afresh. A request may be empty (a blank line, "*0"): it has no arguments, and gets no
  // reply.
  absl::StatusOr<size_t> Next(std::string_view bytes);

  // What a client that has not said who it is may send: fewer and shorter arguments. Looked at
  // again as a request goes on.
  void set_authenticated(bool authenticated) { authenticated_ = authenticated; }
  void set_max_bulk(uint64_t bytes) { limits_.max_bulk = bytes; }
  // How long the request that Next saw the beginning of is at least.
  size_t expected() const { return expected_; }

 private:
  absl::StatusOr<size_t> Line(std::string_view bytes);
  absl::StatusOr<size_t> Array(std::string_view bytes);
  absl::Status Error(std::string_view what);
  absl::Status Bulk(std::string_view bytes, bool* whole);
  size_t Finish(size_t size);

  Limits limits_;
  size_t position_ = 0;  // checked up to here
  int64_t left_ = -1;    // arguments that are missing; negative before the head is read
  size_t expected_ = 0;  // to the end of the argument that is under way
  bool many_ = false;    // it has more arguments than a stranger's may
  bool authenticated_ = true;
};

// The arguments of one whole request. Views of the bytes that it was read from, or of its own
// memory where a line had quotes.
class Request {
 public:
  // `bytes` is what RequestSplitter found. They must outlive the views.
  absl::Status Parse(std::string_view bytes);
  // `bytes` is what AppendSplit made, or should be.
  absl::Status ParseSplit(std::string_view bytes);

  size_t size() const { return arguments_.size(); }
  bool empty() const { return arguments_.empty(); }
  std::string_view operator[](size_t i) const { return arguments_[i]; }
  const std::vector<std::string_view>& arguments() const { return arguments_; }
  // Bytes that it keeps for the next one, too.
  size_t MemoryHeld() const {
    return arguments_.capacity() * sizeof(arguments_[0]) + unquoted_.capacity();
  }

 private:
  absl::Status ParseLine(std::string_view line);

  std::vector<std::string_view> arguments_;
  std::string unquoted_;
};

// Finds where replies end: any type of either version, nested, attributes and streamed ones
// included. As RequestSplitter. An attribute is part of the reply that it precedes.
class ReplySplitter {
 public:
  explicit ReplySplitter(const Limits& limits = {}) : limits_(limits) {}
  absl::StatusOr<size_t> Next(std::string_view bytes);

 private:
  enum class Step { kMore, kDone, kIncomplete };
  absl::StatusOr<Step> Element(std::string_view bytes);
  absl::StatusOr<Step> Bulk(std::string_view bytes, size_t data, std::string_view length);
  absl::StatusOr<Step> Aggregate(char type, size_t data, std::string_view count);
  absl::StatusOr<Step> Ended(size_t end);
  absl::Status Error(std::string_view what);

  static constexpr uint64_t kStreamed = ~uint64_t{0};
  static constexpr uint64_t kChunks = kStreamed - 1;
  Limits limits_;
  size_t position_ = 0;
  int depth_ = 0;
  uint64_t left_[kMaxNesting] = {};  // elements that are missing, from the outermost on
};

// Appends replies to a string, in the version that the client asked for.
class ReplyWriter {
 public:
  // `errors` null: they are not counted.
  ReplyWriter(std::string* out, int protocol, ErrorStats* errors = nullptr)
      : out_(out), protocol_(protocol), errors_(errors) {}

  void Ok() { out_->append("+OK\r\n"); }
  void Simple(std::string_view text);
  // With its code: "ERR syntax error". Line ends become blanks.
  void Error(std::string_view text);
  void Integer(int64_t value) { Head(':', value); }
  void Bulk(std::string_view bytes);
  // A number with a fraction, in decimal digits; text in version 2.
  void Double(std::string_view digits);
  void Null();       // no value
  void NullArray();  // an EXEC that was not carried out
  void Array(size_t elements) { Head('*', elements); }
  // An array of twice as many elements in version 2; the caller writes keys and values in turn.
  void Map(size_t pairs);
  // A message that answers no request, in version 3.
  void Push(size_t elements) { Head('>', elements); }
  void Set(size_t elements) { Head(protocol_ >= 3 ? '~' : '*', elements); }
  // Text for people: INFO.
  void Verbatim(std::string_view text);

  int protocol() const { return protocol_; }
  std::string* out() const { return out_; }
  ErrorStats* errors() const { return errors_; }

 private:
  void Head(char type, int64_t value);

  std::string* out_;
  int protocol_;
  ErrorStats* errors_;
};

// The reply that tells a client of `error`: its message with "ERR " in front, unless it has a code.
std::string ErrorLine(const absl::Status& error);

// Appends a request whose arguments were found already, for who carries it out elsewhere:
// u32 count | count times u32 size | the arguments.
void AppendSplit(std::span<const std::string_view> arguments, std::string* out);

// Appends a request as an array of bulk strings.
void AppendRequest(const std::vector<std::string_view>& arguments, std::string* out);

}  // namespace pulse::redis
