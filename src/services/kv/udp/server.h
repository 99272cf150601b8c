// UdpServer: datagrams of requests (wire.h) for a KvStore: section 5 of the DPU-KV paper. There is
// an endpoint, a socket with a port of its own, for each partition: a client that sends each
// request to the endpoint of its key's partition has it carried out without a look at another
// partition. Other keys are served, too.
//
// Threads of its own serve the endpoints, each a share of them, so that a flood of datagrams takes
// no turn of the loops that serve TCP: the kernel divides the CPU. What comes too fast is lost in
// the socket, and nothing is collected. They run on the CPUs that they are given, whatever the
// design.
//
// Open returns when the sockets take datagrams; destruction ends it. Memory: BytesFor. Thread-safe
// but for destruction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/wake_event.h"
#include "services/kv/store.h"
#include "services/kv/udp/batch.h"

namespace pulse::kv {

struct UdpOptions {
  std::string host = "127.0.0.1";  // as net::ParseAddress reads it, without a port
  int port = -1;           // of the first endpoint, the others follow; 0: the kernel chooses each
  uint32_t threads = 1;    // at most 64, and no more than there are partitions
  uint32_t clients = 256;  // sessions of an endpoint; at most 4096
  std::vector<int> cpus = {};  // of the threads; empty: any
};

struct UdpNumbers {
  std::array<uint64_t, UdpStats::kCounters> values{};
  uint64_t Get(UdpStats::Counter counter) const { return values[counter]; }
};

class UdpServer {
 public:
  // `store` outlives it. InvalidArgument for options out of range.
  static absl::StatusOr<std::unique_ptr<UdpServer>> Open(KvStore* store, const UdpOptions& options);
  ~UdpServer();

  static absl::Status Check(const UdpOptions& options, int partitions);
  static uint64_t BytesFor(const UdpOptions& options, int partitions);
  // By partition.
  const std::vector<uint16_t>& ports() const { return ports_; }
  UdpNumbers numbers() const;
  // The lines of INFO's section KV.
  void AddInfo(std::string* out) const;

 private:
  // A socket, and its clients.
  struct Endpoint {
    explicit Endpoint(const UdpOptions& options) : sessions(options.clients) {}
    UniqueFd socket;
    UdpCookies cookies;
    UdpSessions sessions;
    UdpWelcome facts{};
    UdpStats stats;
    std::unique_ptr<UdpBatch> batch;
    bool full = false;  // there was more than one receive took
  };
  // Of the threads.
  struct Worker {
    std::vector<Endpoint*> endpoints;
    UdpReceiver receiver;
    UdpSender sender;
    std::thread thread;
  };

  UdpServer() = default;
  absl::Status Listen(KvStore* store, const UdpOptions& options);
  void Run(Worker* worker);
  // One receive, and its answers.
  static void Serve(Worker* worker, Endpoint* endpoint);

  UdpOptions options_;
  WakeEvent stop_;
  std::atomic<bool> stopping_{false};
  std::vector<uint16_t> ports_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace pulse::kv
