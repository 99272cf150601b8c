// Director: the agent's network front. Listens, and for each connection either lets an Application
// decide who answers its requests, or passes its bytes to the host untouched. DDS section 5.
//
// Open() starts one thread per loop, each with a listener of its own on the same port; it returns
// when connections are accepted. Stop(), and destruction, drain: no new connections, no further
// requests; what was taken is answered, for as long as limits.drain_ms, then connections end.
// Thread-safe, but for destruction. Addresses are those of address.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/connection_counts.h"
#include "base/cpu_profile.h"
#include "base/file_calls.h"
#include "net/application.h"
#include "net/byte_budget.h"
#include "net/transport.h"

namespace pulse::net {

class LocalPort;
class Loop;

inline constexpr int kMostThreads = 64;

struct DirectorLimits {
  uint32_t connections = 16384;  // one more is told so, in its protocol, and closed
  // One request's bytes: what is longer is an error.
  size_t max_message = size_t{1} << 20;
  // One host message's; a longer one ends the connection to the host. 0: as max_message.
  size_t max_host_message = 0;
  // Per connection and direction. Beyond it, the side that sends is not read until the other has
  // taken half: neither a client that does not read nor a host that does not costs more.
  size_t connection_bytes = size_t{1} << 20;
  // Of all connections together. Beyond it, connections that have output waiting, or an unfinished
  // message that is not small (ByteBudget::small), are not read until others have given back
  // enough, but for one at a time.
  size_t all_bytes = size_t{512} << 20;
  uint32_t outstanding = 4096;  // requests of one connection; then it is not read
  int64_t idle_ms = 0;          // a connection with nothing outstanding ends after this; 0 never
  // A client that takes next to nothing of its replies (a byte for each millisecond is enough), or
  // leaves a message or a transport's handshake unfinished, for so long is cut off, and so is one
  // that is gone without a word. So is one that others wait for, as they want its room, and that
  // needs so long and a millisecond for each 128 bytes. 0 never.
  int64_t slow_ms = 60'000;
  // While others wait for room, the same of who has been silent for so long, neither taking what is
  // for it nor finishing what it has begun. With slow_ms 0 never.
  int64_t patience_ms = 3'000;
  int64_t connect_ms = 2'000;  // to the host
  // After a failure to reach the host, tries wait so long, doubled up to the maximum.
  int64_t back_off_ms = 10;
  int64_t back_off_max_ms = 1'000;
  int64_t drain_ms = 5'000;
};

struct DirectorOptions {
  std::vector<std::string> listen = {"127.0.0.1:0"};  // port 0: one that the kernel chooses
  // TCP: each loop has a port of its own: the one given, or with 0 one that the kernel chooses, and
  // the ones that follow. Else they share it.
  bool port_per_loop = false;
  // Is told the port of each loop, of the first TCP address, before a loop starts.
  std::function<void(const std::vector<uint16_t>&)> on_listening;
  std::string host;  // none: a server
  // A director of this process as the host, by memory; `host` is then for connections that the
  // application does not see.
  std::shared_ptr<const LocalPort> local_host;
  Application* application = nullptr;  // outlives the director
  // Rules (signature.h): the application sees connections that match one; none: all. Others go to
  // the host.
  std::vector<std::string> match;
  int threads = 1;
  std::string thread_name = "pulse-dir-";  // and a number; at most 15 characters
  std::vector<int> cpus;                   // of the threads; empty: as they are
  CpuSide side = CpuSide::kHost;           // whose CPU time they take
  int64_t spin_nanos = 0;                  // for how long a loop looks for events, before it sleeps
  BufferPool::Options buffers;             // per loop
  // Shared with others who hold bytes for these connections, instead of limits.all_bytes.
  std::shared_ptr<ByteBudget> budget;
  std::function<std::unique_ptr<Transport>()> transport;  // none: plain
  DirectorLimits limits;
};

struct DirectorStats : ConnectionCounts {
  // Through sockets of clients and of the host; not what is spliced.
  uint64_t received_bytes = 0;
  uint64_t sent_bytes = 0;
};

struct DirectorShared;

class Director {
 public:
  static absl::StatusOr<std::unique_ptr<Director>> Open(DirectorOptions options);
  ~Director();

  void Stop();
  // Of the first TCP address, and the first loop; 0 when there is none.
  uint16_t port() const { return ports_.empty() ? 0 : ports_.front(); }
  // Takes connections of other directors in this process, for DirectorOptions::local_host.
  std::shared_ptr<const LocalPort> local_port() const { return local_port_; }
  DirectorStats stats() const;
  // Nanoseconds of CPU that the loops' threads have taken.
  int64_t cpu_nanos() const;

 private:
  Director();
  absl::Status Listen();

  std::unique_ptr<DirectorShared> shared_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::shared_ptr<LocalPort> local_port_;
  std::vector<MadeFile> socket_files_;
  std::vector<uint16_t> ports_;  // of the first TCP address, by loop
};

}  // namespace pulse::net
