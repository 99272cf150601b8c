// A design of the DPU-KV paper on two CPUs of this machine: stores that were filled and packets
// that were made once, on which any number of runs follow. The host's CPU and the agent's CPU run
// a thread each; of `sav` the agent's runs two, which give it up to each other after each round.
//
//   cpu    all on the host           dual  a communication engine on the agent; the host's thread
//   cpu-2  all on both, half of the        takes its batches and its own clients' in turn
//          keys each                 shrd  as cpu-2
//   dpu    all on the agent
//   lat    packets on the agent, data on the host
//   sav    the same, two engines on the agent
//
// With a profile the agent's threads are as slow as its cores (vdpu/core_pace.h), and what crosses
// a queue pair takes the time of its DMA engine (priced_queue.h).
//
// Threads: Run is called by one at a time, and makes its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/kv/memory_network.h"
#include "nlohmann/json_fwd.hpp"
#include "vdpu/profile.h"

namespace pulse::bench {

// Where clients send their packets: one source and the partition that it is of.
struct Endpoint {
  double per_second = 0;  // requests that were answered
  double offered = 0;
};

struct DeploymentRun {
  std::vector<Endpoint> endpoints;
  Counts counts;  // of all who answer clients; stages are of the first
  double seconds = 0;
  uint64_t moved_requests = 0;  // through queue pairs, and bytes of their transfers
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
  double host_ns = 0;  // of the host's CPU for a request, without its looking for work in lat, sav
  double per_second() const;
};

class Deployment {
 public:
  // InvalidArgument for an unknown design or engine.
  static absl::StatusOr<std::unique_ptr<Deployment>> Open(const KvShape& shape);
  virtual ~Deployment() = default;

  virtual size_t endpoints() const = 0;

  // `rates`: requests a second offered to each endpoint; empty: as many as are taken.
  // `receive_queue`: then so many wait at each endpoint, and latencies are of them.
  virtual DeploymentRun Run(const std::vector<double>& rates, size_t receive_queue) = 0;
  // Keys that the filled stores do not have, though they were put: of mica, which loses some.
  virtual uint64_t lost() const = 0;
};

}  // namespace pulse::bench
