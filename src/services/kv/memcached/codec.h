// memcached's text and meta protocols: splitting and reading of requests. What a client sends is
// untrusted: no length that it merely claims leads to an allocation.
//
// A request is a line, ended by "\n" or "\r\n", and for the commands that store a data block. Words
// are separated by blanks, and a line ends at its first zero byte, as memcached has it. Where a
// line is wrong but says how long its block is, the block belongs to the request, so that it is
// never taken for commands: as memcached does today (1.6.18 does not).
//
// Ownership: a Request keeps views of the caller's bytes. Threads: each object belongs to one
// thread. Nothing blocks. Errors are InvalidArgument: what the client is told, behind
// "CLIENT_ERROR ", before its connection ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::kv::memcached {

inline constexpr size_t kMaxKey = 250;
inline constexpr size_t kMostMetaWords = 19;          // of a line of a meta command
inline constexpr size_t kMaxLine = size_t{1} << 20;   // without its end
inline constexpr size_t kMaxWord = 2048;              // of a line without blanks
inline constexpr uint64_t kMaxBlock = INT32_MAX - 2;  // the most that a line may announce

enum class Command : uint8_t {
  kUnknown,
  kGet,
  kGets,
  kGat,
  kGats,
  kSet,
  kAdd,
  kReplace,
  kAppend,
  kPrepend,
  kCas,
  kIncr,
  kDecr,
  kTouch,
  kDelete,
  kFlushAll,
  kStats,
  kVersion,
  kConfig,
  kVerbosity,
  kQuit,
  kShutdown,
  kMetaGet,
  kMetaSet,
  kMetaDelete,
  kMetaArithmetic,
  kMetaNoop,
  kMetaDebug,
};
// By its name, which is lower case.
Command FindCommand(std::string_view name);

// Decimal numbers, all of `text`; a '+' may come first, as for memcached. False: it is none, or too
// large.
bool ParseUnsigned(std::string_view text, uint64_t* value);
bool ParseSigned(std::string_view text, int64_t* value);

// Finds where requests end. Next is given the bytes of one message from its beginning, each time
// with more of them, and takes up where it stopped.
//
// The binary protocol, which memcached has deprecated, is not served: a first byte of its requests
// is an error.
//
// A block of more than `max_data` bytes is not waited for: the line alone is the request (see
// Request::too_large), and the block's bytes are then found in pieces, as they come, which are to
// be thrown away.
class RequestSplitter {
 public:
  explicit RequestSplitter(uint64_t max_data) : max_data_(max_data) {}

  // The size of the first whole request; 0 when there is none yet. After a size, or an error, it
  // starts afresh.
  absl::StatusOr<size_t> Next(std::string_view bytes);
  // Of the requests that follow.
  void set_max_data(uint64_t max_data) { max_data_ = max_data; }
  // What Next found last is a piece of a block that is thrown away.
  bool skipped() const { return skipped_; }
  // How long the request that Next saw the beginning of is; 0: not known yet.
  size_t expected() const { return need_; }

 private:
  absl::StatusOr<size_t> FindLine(std::string_view bytes);

  uint64_t max_data_;
  bool first_ = true;  // no line has ended yet
  size_t seen_ = 0;    // bytes that have no end of line
  size_t need_ = 0;    // of line and block, once the line is known
  uint64_t skip_ = 0;  // bytes to be thrown away
  bool skipped_ = false;
};

// One whole request.
struct Request {
  Command command = Command::kUnknown;
  std::vector<std::string_view> words;  // of the line; the first is the command's name
  std::string_view data;                // of the block
  bool noreply = false;                 // the last word of the line, for the commands that know it
  bool too_large = false;               // its block was not waited for
  bool bad_chunk = false;               // no "\r\n" follows the data

  // `bytes` is what RequestSplitter found; they must outlive the views. Anything can be read: what
  // makes no sense is for whoever carries it out to tell.
  void Parse(std::string_view bytes);
  // quit, and what a browser sends: the connection ends, without a reply.
  bool closes() const;
};

// Whether the client of a connection that begins with these bytes speaks memcached's protocol: the
// first word is a command of it. Otherwise it is Redis's. `undecided`: more bytes are needed.
bool LooksLikeMemcached(std::string_view first_bytes, bool* undecided);

}  // namespace pulse::kv::memcached
