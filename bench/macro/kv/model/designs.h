// The six designs of the DPU-KV paper (section 4) as a discrete-event model: what they reach with
// more cores than a machine has, when the costs of their stages are known.
//
//   cpu   all stages on each host core               dpu   all stages on each agent core
//   lat   an agent core communicates, a host core of its own processes (4.3)
//   sav   agent cores communicate, one host core processes for all, in turn (4.4)
//   dual  sav, and spare host cores that do all stages (4.5)
//   shrd  cpu and dpu, each with a share of the keys (4.5)
//
// A core takes what has arrived, a burst at the most. What communicates sends the answers that are
// there before it receives more. A transfer takes the card's engine and the host's PCIe link, which
// packets of the host's own endpoints take, too; `latency` later it is there.
//
// A request is one packet. The network and the clients cost nothing. Pure; deterministic with the
// seed; thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace pulse::kvmodel {

enum class Design { kCpu, kDpu, kLat, kSav, kDual, kShrd };
inline constexpr Design kDesigns[] = {Design::kShrd, Design::kDual, Design::kCpu,
                                      Design::kLat,  Design::kSav,  Design::kDpu};
std::string_view DesignName(Design design);
std::optional<Design> ParseDesign(std::string_view name);

// Nanoseconds of a core as fast as the host's, for a batch.
struct StageCost {
  double fixed = 0;
  double each = 0;
  double Of(size_t requests) const { return fixed + each * static_cast<double>(requests); }
};

struct StageCosts {
  StageCost whole;    // receive, parse, get or set, respond: all on one core
  StageCost receive;  // receive and parse, and write the queue pair
  StageCost prepare;  // what of the response is known beforehand
  StageCost process;  // the host's: read the queue pair, get or set, write the answers
  StageCost send;     // finish the responses and send them
};

struct Machine {
  int host_cores = 8;
  int agent_cores = 8;
  int spare_cores = 2;     // of the host, of dual
  double agent_speed = 1;  // of one core, against one of the host's
  double dma_latency = 0;  // ns
  double dma_rate = 1e9;   // bytes a nanosecond
  double pcie_rate = 1e9;  // each direction
  // Over the host's PCIe: of a packet that the host communicates itself, and of the queue pair.
  double packet_request_bytes = 0;
  double packet_response_bytes = 0;
  double pair_request_bytes = 32;
  double pair_response_bytes = 16;
  size_t burst = 64;
  size_t slots = 4;  // batches of a queue pair under way
  size_t receive_queue = 128;
};

struct Load {
  // Requests a second of each endpoint; empty: clients that keep all receive queues full. An
  // endpoint is a core that communicates; the host's come first.
  std::vector<double> rates;
  bool even = false;  // arrivals in equal distances; else as a Poisson process
  double warm_up = 1e6;
  double length = 4e6;  // ns
  uint64_t seed = 1;
};

struct Outcome {
  double per_second = 0;               // requests answered
  std::vector<double> endpoint_rates;  // of it
  double p50_us = 0;                   // from a request's arrival until its answer is sent
  double p99_us = 0;
  double mean_us = 0;
  int host_cores = 0;    // that poll
  double host_busy = 0;  // of them, cores' worth of time with work
  double agent_busy = 0;
  double transfer_us = 0;  // mean time of a transfer; 0: there was none
  double pcie_share = 0;   // of the fuller direction of the host's link
  // From the beginning, the warm-up included.
  uint64_t arrived = 0;
  uint64_t dropped = 0;
  uint64_t served = 0;
  uint64_t waiting = 0;    // in receive queues
  uint64_t under_way = 0;  // taken from them
};

// How many endpoints `design` has there.
size_t EndpointsOf(Design design, const Machine& machine);

Outcome Simulate(Design design, const Machine& machine, const StageCosts& costs, const Load& load);

}  // namespace pulse::kvmodel
