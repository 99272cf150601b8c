// The part that the loads of the examples have in common: options, results, connections, and what a
// reader may see of what was written. Each object is one thread's at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "base/unique_fd.h"
#include "examples/common/wire.h"
#include "nlohmann/json.hpp"

namespace pulse::examples {

struct LoadOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 0;
  double read_share = 1.0;
  uint32_t outstanding = 16;  // messages of a connection
  double seconds = 5;
  uint64_t requests = 0;   // ends earlier, after so many; 0: no
  bool reconnect = false;  // for up to half a minute each time
  uint64_t seed = 1;
};

struct LoadResult {
  uint64_t reads = 0;  // answered well
  uint64_t writes = 0;
  uint64_t errors = 0;  // replies that say so
  uint64_t lost = 0;    // requests whose connection ended before the answer
  uint64_t reconnects = 0;
  uint64_t verified = 0;  // pages, at the end
  double seconds = 0;
  std::string last_error;
  Histogram read_nanos;
  Histogram write_nanos;

  void Answered(bool read, int64_t nanos);
  void Refused(std::string_view why);
  void Add(const LoadResult& other);  // all but the seconds
};

// What load generators print: rates and percentiles of latencies. Any thread.
struct LoadFigures {
  const char* name;  // "reads"
  uint64_t count;
  const Histogram* nanos;
};

std::string RenderFigures(std::span<const LoadFigures> figures, double seconds);
// "reads_per_s", "reads_p50_us", ..., for those of which there are any; "ops_per_s" of all.
nlohmann::json FiguresJson(std::span<const LoadFigures> figures, double seconds);

// What a load knows of one place that it writes numbers to, each higher than the last.
struct Written {
  uint64_t acked = 0;   // the least that a read sent now must see
  uint64_t issued = 0;  // the most that it can see
  bool writing = false;

  // Whether a read may see `seen`, if `least` had been acknowledged when it was sent. What is below
  // `first` an earlier run wrote.
  bool Allows(uint64_t seen, uint64_t least, uint64_t first) const {
    return seen < first ? least == 0 : seen >= least && seen <= issued;
  }
};

// A connection to host:port, blocking. `host` is an IPv4 address. Unavailable: nobody answers.
absl::StatusOr<UniqueFd> ConnectTcp(const std::string& host, uint16_t port);

// A client's connection, over which messages of a protocol come and go. Errors begin with `name`;
// Unavailable: the connection is lost, or nobody answers.
class MessageStream {
 public:
  explicit MessageStream(std::string name) : name_(std::move(name)) {}
  // Anew, without what was left of a connection before.
  absl::Status Connect(const std::string& host, uint16_t port);
  int fd() const { return fd_.get(); }

  void Queue(std::string_view bytes) { out_ += bytes; }
  // Sends what is queued: all of it, or what a socket that does not block takes.
  absl::Status Send();
  bool all_sent() const { return out_.empty(); }
  // What has come; waits for it unless the socket does not block.
  absl::Status Receive();
  // The next whole message of what was received, good until Receive; empty: there is none.
  template <typename Header>
  absl::StatusOr<std::string_view> Next(uint32_t magic) {
    const std::string_view rest = std::string_view(in_).substr(taken_);
    PULSE_ASSIGN_OR_RETURN(const auto size, SplitMessage<Header>(rest, magic));
    taken_ += size;
    return rest.substr(0, size);
  }
  // The same of a socket that blocks: waits until there is one.
  template <typename Header>
  absl::StatusOr<std::string_view> WaitForNext(uint32_t magic) {
    while (true) {
      auto message = Next<Header>(magic);
      if (!message.ok() || !message->empty()) return message;
      PULSE_RETURN_IF_ERROR(Receive());
    }
  }

 private:
  const std::string name_;
  UniqueFd fd_;
  std::string out_;
  size_t sent_ = 0;  // of out_
  std::string in_;
  size_t taken_ = 0;  // of in_
};

// Calls `connect` until it succeeds, for up to half a minute. Blocks.
absl::Status ConnectAgain(const std::function<absl::Status()>& connect);
// From 0 to 1, of a random number.
inline double Coin(uint64_t dice) { return static_cast<double>(dice >> 11) * 0x1.0p-53; }

}  // namespace pulse::examples
