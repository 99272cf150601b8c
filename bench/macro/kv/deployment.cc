#include "bench/macro/kv/deployment.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/kv/servers.h"
#include "vdpu/dma_link.h"

namespace pulse::bench {
namespace {

enum class Work {
  kWholeHost,   // all, on the host's CPU
  kWholeAgent,  // all, on the agent's CPU
  kSplit,       // packets on the agent's CPU, data on the host's
};

// An endpoint of a design, and which partition of how many it is of.
struct Place {
  Work work;
  uint32_t part;
  uint32_t parts;
};

// Calls `round` until it is told to stop; says when the endpoint whose counts these are has
// answered enough for its latency to be known.
template <class Round>
void Serve(const std::atomic<bool>& stop, const Counts& counts, std::atomic<bool>* served,
           const Round& round) {
  bool told = false;
  while (!stop.load(std::memory_order_relaxed)) {
    round();
    if (told || counts.requests < kLatencySampled) continue;
    told = true;
    served->store(true, std::memory_order_relaxed);
  }
}

// Longer than a busy machine keeps a thread from its CPU.
constexpr int64_t kServedWithin = int64_t{60} * 1'000'000'000;

// Empty for an unknown one.
std::vector<Place> PlacesOf(const std::string& design) {
  if (design == "cpu") return {{Work::kWholeHost, 0, 1}};
  if (design == "dpu") return {{Work::kWholeAgent, 0, 1}};
  if (design == "cpu-2" || design == "shrd") {
    return {{Work::kWholeHost, 0, 2}, {Work::kWholeAgent, 1, 2}};
  }
  if (design == "lat") return {{Work::kSplit, 0, 1}};
  if (design == "sav") return {{Work::kSplit, 0, 2}, {Work::kSplit, 1, 2}};
  // Both endpoints are of the same keys: one thread of the host has them.
  if (design == "dual") return {{Work::kSplit, 0, 1}, {Work::kWholeHost, 0, 1}};
  return {};
}

template <class Store>
class DeploymentOf final : public Deployment {
 public:
  DeploymentOf(const KvShape& shape, std::vector<Place> places)
      : shape_(shape), places_(std::move(places)), link_(shape.profile) {}

  absl::Status Fill() {
    for (size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (place.part == stores_.size()) {
        PULSE_ASSIGN_OR_RETURN(auto store, FillStore<Store>(shape_, place.part, place.parts));
        stores_.push_back(std::move(store));
      }
      sources_.push_back(std::make_unique<PacketSource>(shape_, place.part, place.parts, i + 1));
    }
    return absl::OkStatus();
  }

  DeploymentRun Run(const std::vector<double>& rates, size_t receive_queue) override {
    DeploymentRun run;
    run.endpoints.resize(places_.size());
    Servers servers(places_.size());
    std::vector<typename ProcessingEngine<Store>::Port> ports;
    for (size_t i = 0; i < places_.size(); ++i) {
      MakeServer(i, &servers, &ports);
      if (!rates.empty()) run.endpoints[i].offered = rates[i];
    }
    ProcessingEngine<Store> processing(ports);
    Counts host;
    kv::BatchCounts moved;
    const int64_t begin = NowNanos();
    for (size_t i = 0; i < places_.size(); ++i) {
      sources_[i]->Start({rates.empty() ? 0 : rates[i], rates.empty() ? receive_queue : 0}, begin);
    }
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    const auto start = [&](int cpu, auto loop) {
      threads.emplace_back([&stop, cpu, loop] {
        // A CPU that this process may not use: the figures would say so by themselves.
        SetThreadAffinity({cpu}).IgnoreError();
        loop(stop);
      });
    };
    StartHost(&servers, ports.empty() ? nullptr : &processing, &host, &moved, start);
    StartAgent(&servers, start);
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(static_cast<int64_t>(shape_.seconds * 1e9)));
    // In a short run on a busy machine a thread may not have had a turn yet.
    while (!servers.AllServed() && NowNanos() - begin < kServedWithin) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    stop.store(true);
    run.seconds = static_cast<double>(NowNanos() - begin) / 1e9;
    for (std::thread& thread : threads) thread.join();
    Gather(servers, host, moved, !ports.empty(), &run);
    return run;
  }

  size_t endpoints() const override { return places_.size(); }

  uint64_t lost() const override {
    if constexpr (std::is_same_v<Store, kv::MicaCache>) {
      uint64_t lost = 0;
      for (const auto& store : stores_) lost += store->displaced();
      return lost;
    }
    return 0;
  }

 private:
  struct Servers {
    explicit Servers(size_t places)
        : whole(places), engines(places), queues(places), counts(places), served(places) {}
    bool AllServed() const {
      return std::all_of(served.begin(), served.end(), [](const std::atomic<bool>& one) {
        return one.load(std::memory_order_relaxed);
      });
    }
    std::vector<std::unique_ptr<WholeServer<Store>>> whole;  // by place; or null
    std::vector<std::unique_ptr<CommunicationEngine>> engines;
    std::vector<std::unique_ptr<PricedQueue>> queues;
    std::vector<Counts> counts;
    std::vector<std::atomic<bool>> served;
  };

  vdpu::DmaLink* link() { return shape_.profile.name.empty() ? nullptr : &link_; }

  void MakeServer(size_t i, Servers* servers,
                  std::vector<typename ProcessingEngine<Store>::Port>* ports) {
    const Place& place = places_[i];
    Store* store = stores_[place.part].get();
    if (place.work != Work::kSplit) {
      servers->whole[i] = std::make_unique<WholeServer<Store>>(
          shape_, store, sources_[i].get(),
          place.work == Work::kWholeAgent ? shape_.profile.core_speed : 1);
      return;
    }
    kv::QueuePairOptions options;
    options.slots = kNetworkSlots;
    servers->queues[i] = std::make_unique<PricedQueue>(options, link());
    servers->engines[i] = std::make_unique<CommunicationEngine>(
        shape_, servers->queues[i].get(), sources_[i].get(), shape_.profile.core_speed);
    ports->push_back({store, servers->queues[i].get()});
  }

  template <class Start>
  void StartHost(Servers* servers, ProcessingEngine<Store>* processing, Counts* host,
                 kv::BatchCounts* moved, const Start& start) {
    const int cpu = shape_.host_cpus.at(0);
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].work != Work::kWholeHost) continue;
      start(cpu, [=, own = servers->whole[i].get(), counts = &servers->counts[i],
                  served = &servers->served[i]](const std::atomic<bool>& stop) {
        Serve(stop, *counts, served, [=] {
          if (processing != nullptr) processing->Round(host, moved);
          own->Round(counts);
        });
      });
      return;
    }
    if (processing == nullptr) return;
    start(cpu, [=](const std::atomic<bool>& stop) {
      while (!stop.load(std::memory_order_relaxed)) processing->Round(host, moved);
    });
  }

  template <class Start>
  void StartAgent(Servers* servers, const Start& start) {
    size_t engines = 0;
    for (const auto& engine : servers->engines) engines += engine != nullptr ? 1 : 0;
    const int cpu = shape_.agent_cpus.at(0);
    for (size_t i = 0; i < places_.size(); ++i) {
      Counts* counts = &servers->counts[i];
      std::atomic<bool>* served = &servers->served[i];
      if (places_[i].work == Work::kWholeAgent) {
        start(cpu, [own = servers->whole[i].get(), counts, served](const std::atomic<bool>& stop) {
          Serve(stop, *counts, served, [=] { own->Round(counts); });
        });
      } else if (auto* engine = servers->engines[i].get(); engine != nullptr) {
        start(cpu, [=, alone = engines == 1](const std::atomic<bool>& stop) {
          Serve(stop, *counts, served, [=] {
            engine->Round(counts);
            if (!alone) sched_yield();
          });
        });
      }
    }
  }

  void Gather(const Servers& servers, const Counts& host, const kv::BatchCounts& moved, bool split,
              DeploymentRun* run) const {
    run->counts = servers.counts[0];
    for (size_t i = 0; i < places_.size(); ++i) {
      run->endpoints[i].per_second = static_cast<double>(servers.counts[i].requests) / run->seconds;
      if (i == 0) continue;
      run->counts.requests += servers.counts[i].requests;
      run->counts.batches += servers.counts[i].batches;
      run->counts.malformed += servers.counts[i].malformed;
      run->counts.not_ok += servers.counts[i].not_ok;
      run->counts.latency.Merge(servers.counts[i].latency);
    }
    run->moved_requests = moved.requests;
    run->request_bytes = moved.request_bytes;
    run->response_bytes = moved.response_bytes;
    const auto requests = static_cast<double>(run->counts.requests);
    if (requests == 0) return;
    double cores = 0;  // that serve clients alone, and are busy with it all the time
    for (const Place& place : places_) cores += place.work == Work::kWholeHost ? 1 : 0;
    // "On both CPUs" are two cores of a host.
    if (shape_.design == "cpu-2") cores = 2;
    const double busy = cores > 0 ? cores * run->seconds * 1e9
                        : split   ? static_cast<double>(host.busy)
                                  : 0;
    run->host_ns = busy / requests;
  }

  const KvShape& shape_;
  const std::vector<Place> places_;
  vdpu::DmaLink link_;
  std::vector<std::unique_ptr<Store>> stores_;
  std::vector<std::unique_ptr<PacketSource>> sources_;
};

template <class Store>
absl::StatusOr<std::unique_ptr<Deployment>> OpenOn(const KvShape& shape,
                                                   std::vector<Place> places) {
  auto deployment = std::make_unique<DeploymentOf<Store>>(shape, std::move(places));
  PULSE_RETURN_IF_ERROR(deployment->Fill());
  return std::unique_ptr<Deployment>(std::move(deployment));
}

}  // namespace

double DeploymentRun::per_second() const {
  double sum = 0;
  for (const Endpoint& endpoint : endpoints) sum += endpoint.per_second;
  return sum;
}

absl::StatusOr<std::unique_ptr<Deployment>> Deployment::Open(const KvShape& shape) {
  std::vector<Place> places = PlacesOf(shape.design);
  if (places.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no design \"", shape.design, "\""));
  }
  if (shape.engine == "mica") return OpenOn<kv::MicaCache>(shape, std::move(places));
  return OpenOn<kv::Partition>(shape, std::move(places));
}

}  // namespace pulse::bench
