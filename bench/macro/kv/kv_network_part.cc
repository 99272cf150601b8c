// `pulse bench kv --part network` and `--part designs`: the designs of the DPU-KV paper on a
// network in memory, one request a packet. The first has one run, and the cost of its stages; the
// second peaks, and latency against offered load.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/kv/deployment.h"
#include "bench/macro/kv/kv_load.h"
#include "nlohmann/json.hpp"
#include "services/kv/queue_pair.h"

namespace pulse::bench {
namespace {

double PercentileUs(const DeploymentRun& run, double percentile) {
  return static_cast<double>(run.counts.latency.ValueAtPercentile(percentile)) / 1e3;
}

nlohmann::json Describe(const DeploymentRun& run, const Deployment& deployment) {
  const Counts& counts = run.counts;
  nlohmann::json result = {{"ops_per_s", run.per_second()},
                           {"not_ok", counts.not_ok},
                           {"malformed", counts.malformed},
                           {"lost", deployment.lost()},
                           {"host_ns", run.host_ns}};
  if (counts.sampled > 0) {
    const auto n = static_cast<double>(counts.sampled);
    result["receive_ns"] = static_cast<double>(counts.receive) / n;
    result["parse_ns"] = static_cast<double>(counts.parse) / n;
    result["process_ns"] = static_cast<double>(counts.process) / n;
    result["prepare_ns"] = static_cast<double>(counts.prepare) / n;
    result["respond_ns"] = static_cast<double>(counts.respond) / n;
  }
  if (run.moved_requests > 0) {
    const auto n = static_cast<double>(run.moved_requests);
    result["request_bytes"] = static_cast<double>(run.request_bytes) / n;
    result["response_bytes"] = static_cast<double>(run.response_bytes) / n;
  }
  return result;
}

// The time from one core's Submit until the other one sees it: half of an empty batch's round.
absl::StatusOr<nlohmann::json> RunTransfer(const KvShape& shape) {
  kv::QueuePair queue({});
  uint64_t rounds = 0;
  std::atomic<bool> stop{false};
  const int64_t begin = NowNanos();
  std::thread host([&] {
    SetThreadAffinity({shape.host_cpus.at(0)}).IgnoreError();
    while (!stop.load(std::memory_order_relaxed)) {
      if (queue.PeekRequests() != nullptr) queue.Answer();
    }
  });
  std::thread agent([&] {
    SetThreadAffinity({shape.agent_cpus.at(0)}).IgnoreError();
    queue.Submit();
    while (!stop.load(std::memory_order_relaxed)) {
      if (queue.PeekResponses() == nullptr) continue;
      queue.TakeResponses();
      queue.Submit();
      ++rounds;
    }
  });
  std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(shape.seconds * 1e9)));
  stop.store(true);
  const double seconds = static_cast<double>(NowNanos() - begin) / 1e9;
  host.join();
  agent.join();
  return nlohmann::json{{"transfer_ns", seconds * 1e9 / 2 / static_cast<double>(rounds)}};
}

}  // namespace

absl::StatusOr<nlohmann::json> RunKvNetwork(const KvShape& shape) {
  if (shape.design == "transfer") return RunTransfer(shape);
  PULSE_ASSIGN_OR_RETURN(const auto deployment, Deployment::Open(shape));
  std::vector<double> rates;
  if (shape.rate > 0) {
    // The same for each endpoint: partitions of a uniform load.
    const size_t endpoints = deployment->endpoints();
    rates.assign(endpoints, shape.rate / static_cast<double>(endpoints));
  }
  const DeploymentRun run = deployment->Run(rates, 0);
  nlohmann::json result = Describe(run, *deployment);
  if (shape.rate > 0) {
    result["p50_us"] = PercentileUs(run, 50);
    result["p99_us"] = PercentileUs(run, 99);
  }
  return result;
}

absl::StatusOr<nlohmann::json> RunKvDesign(const KvShape& shape) {
  PULSE_ASSIGN_OR_RETURN(const auto deployment, Deployment::Open(shape));
  deployment->Run({}, 0);  // to warm up
  const DeploymentRun peak = deployment->Run({}, 0);
  for (const Endpoint& endpoint : peak.endpoints) {
    if (endpoint.per_second > 0) continue;
    return absl::UnavailableError("a thread had no turn for a minute: the machine is too busy");
  }
  nlohmann::json result = Describe(peak, *deployment);
  for (const int load : shape.loads) {
    // Each endpoint is offered the same share of what it can take.
    std::vector<double> rates;
    for (const Endpoint& endpoint : peak.endpoints) {
      rates.push_back(endpoint.per_second * load / 100);
    }
    const DeploymentRun run = deployment->Run(rates, 0);
    result[absl::StrCat("per_s_", load)] = run.per_second();
    result[absl::StrCat("p50_us_", load)] = PercentileUs(run, 50);
    result[absl::StrCat("p99_us_", load)] = PercentileUs(run, 99);
    result[absl::StrCat("batch_", load)] =
        static_cast<double>(run.counts.requests) /
        static_cast<double>(std::max<uint64_t>(1, run.counts.batches));
  }
  // Figure 5: at the peak, with receive queues that are always full.
  for (const size_t queue : {size_t{128}, size_t{256}}) {
    const DeploymentRun run = deployment->Run({}, queue);
    result[absl::StrCat("full_p50_us_", queue)] = PercentileUs(run, 50);
    result[absl::StrCat("full_per_s_", queue)] = run.per_second();
  }
  return result;
}

}  // namespace pulse::bench
