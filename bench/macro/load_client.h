// LoadClient: a closed loop of requests to a server on loopback. Each connection sends a pipeline
// of requests, waits until all are answered, and sends the next one. What is asked, and what the
// answers must be, a LoadProtocol says.
//
// One thread, the caller's. Connect and Run block, Run for the length of the load. Latencies are in
// nanoseconds, from when the request was made. Errors: no server, a connection that ends, requests
// that are not answered, and what the protocol makes of a reply.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/histogram.h"
#include "base/unique_fd.h"

namespace pulse::bench {

// A request that was made. What the first two say is the protocol's own.
struct Question {
  uint64_t what = 0;
  uint64_t least = 0;
  bool write = false;
  int64_t at = 0;  // set by the client
};

class LoadProtocol {
 public:
  virtual ~LoadProtocol() = default;
  // Appends a request. False when there is none left.
  virtual bool Ask(std::string* out, Question* question) = 0;
  // The size of the first whole reply in `bytes`; 0 when there is none yet.
  virtual absl::StatusOr<size_t> Split(std::string_view bytes) = 0;
  // Replies come in the order of a connection's requests.
  virtual absl::Status Take(const Question& question, std::string_view reply) = 0;
};

struct LoadOutcome {
  uint64_t reads = 0;
  uint64_t writes = 0;
  double seconds = 0;
  Histogram read_nanos;
  Histogram write_nanos;
};

class LoadClient {
 public:
  LoadClient(LoadProtocol* protocol, uint32_t depth)
      : protocol_(protocol), depth_(depth), buffer_(kReceive, 0) {}

  absl::Status Connect(uint16_t port, uint32_t connections);
  // Asks for so long, or until the protocol has nothing left; then waits for what is outstanding.
  // May be called again, on the same connections.
  absl::StatusOr<LoadOutcome> Run(double seconds);

 private:
  struct Peer {
    UniqueFd fd;
    std::string out;
    size_t sent = 0;
    bool wants_room = false;
    std::string in;  // an unfinished reply
    std::vector<Question> questions;
    size_t answered = 0;
  };
  static constexpr size_t kReceive = size_t{256} << 10;

  absl::Status ConnectOne(uint16_t port, Peer* peer);
  absl::Status Drive();
  absl::Status Serve(Peer* peer);
  absl::Status Refill(Peer* peer);
  absl::Status Send(Peer* peer);
  absl::Status Receive(Peer* peer);
  // How many bytes the whole replies have taken.
  absl::StatusOr<size_t> TakeReplies(Peer* peer, std::string_view bytes);
  absl::Status Watch(Peer* peer, bool wants_room, int how);

  LoadProtocol* const protocol_;
  const uint32_t depth_;
  std::string buffer_;
  UniqueFd poll_;
  std::vector<Peer> peers_;
  uint64_t outstanding_ = 0;
  int64_t end_ = 0;
  bool over_ = false;  // no further requests
  LoadOutcome outcome_;
};

}  // namespace pulse::bench
