// Ingest: operators near the network. Streams of records that clients send to the agent are
// decompressed and filtered there, and the host receives the records that match, as a stream of its
// own for each client's. The co-processing paper's title and its Figures 1 and 2.
//
// A client's stream may be compressed, in whatever format filter.h recognises. It ends when the
// client ends it, and the host's then does, after the last record. A stream that cannot be read to
// its end (damage, a record that is too long, a client that vanishes, Stop) is reset on both sides,
// so that nobody takes it for a whole one; why is logged, with the client and the offset. What is
// behind a compressed stream's end and is no stream is ignored, as by `pulse filter`, and logged.
//
// Threads: one for each stream, and those of its queue, on the agent's CPUs; one that accepts. At
// most `max_streams` at a time: further clients wait to be accepted. The threads of streams give
// way to others (base/background.h), as those of operators do. A host that reads slowly slows its
// client down, and nobody else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/numbers.h"
#include "base/unique_fd.h"
#include "net/address.h"
#include "services/ops/filter/filter.h"

namespace pulse::ingest {

struct IngestOptions {
  net::Address listen;
  net::Address host;       // who receives the records
  std::vector<int> cpus;   // none: all that the process may use
  bool idle_only = false;  // EnterBackground: the agent serves remote clients, too
  filter::Selection selection;
  uint64_t max_record = uint64_t{64} << 20;
  // A stream that is compressed to more is reset: a decompression bomb, perhaps. 0: no limit.
  uint64_t max_decompressed = 0;
  int max_streams = 64;
};

// Since the server began. A stream counts when it has ended, all of it at once; what was filtered
// and sent, and garbage, if it was not reset.
struct IngestStats {
  uint64_t streams = 0;  // that have ended, in whatever way
  uint64_t failed = 0;   // of them: were reset
  uint64_t open = 0;
  uint64_t garbage = 0;         // compressed streams that had something else behind their end
  uint64_t bytes_received = 0;  // from clients, as they sent them
  uint64_t bytes_filtered = 0;  // after decompression
  uint64_t bytes_sent = 0;      // to the host
  uint64_t records_sent = 0;
};

// For the agent's status and metrics.
NumberGroup IngestNumbers(const IngestStats& stats);

class IngestServer {
 public:
  // Listens. `rules` is kept. InvalidArgument for an address that is taken, or CPUs that are not to
  // be had. SIGPIPE is to be ignored.
  static absl::StatusOr<std::unique_ptr<IngestServer>> Open(
      IngestOptions options, std::shared_ptr<const filter::RuleSet> rules);
  // As Stop.
  ~IngestServer();

  // Accepts no more, resets the streams that are open, and waits for their threads.
  void Stop();

  const net::Address& address() const { return options_.listen; }  // with its port
  IngestStats stats() const;

 private:
  struct Stream {
    UniqueFd client;
    UniqueFd host;  // once it is connected
    std::thread thread;
    bool done = false;
  };

  IngestServer(IngestOptions options, std::shared_ptr<const filter::RuleSet> rules)
      : options_(std::move(options)), rules_(std::move(rules)) {}
  void Accept();
  void Serve(Stream* stream);
  absl::StatusOr<filter::FilterOutcome> Filter(Stream* stream, const std::string& name);
  void EndStream(int host);
  // Threads of streams that have ended.
  void ReapLocked(std::unique_lock<std::mutex>* lock);

  IngestOptions options_;
  const std::shared_ptr<const filter::RuleSet> rules_;
  UniqueFd listener_;
  UniqueFd wake_;  // an eventfd: stops Accept
  std::thread acceptor_;
  mutable std::mutex mu_;
  std::condition_variable ended_;  // a stream
  std::list<Stream> streams_;
  IngestStats stats_;
  std::atomic<bool> stopping_{false};
};

}  // namespace pulse::ingest
