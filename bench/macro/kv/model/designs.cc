#include "bench/macro/kv/model/designs.h"

#include <deque>
#include <memory>

#include "base/check.h"
#include "base/histogram.h"
#include "bench/macro/kv/model/stations.h"

namespace pulse::kvmodel {
namespace {

constexpr std::string_view kNames[] = {"cpu", "dpu", "lat", "sav", "dual", "shrd"};

struct Batch {
  size_t endpoint;
  std::vector<double> stamps;
  size_t size() const { return stamps.size(); }
};
using BatchPtr = std::shared_ptr<const Batch>;

class Simulation {
 public:
  Simulation(const Machine& machine, const StageCosts& costs, const Load& load)
      : machine_(machine),
        costs_(costs),
        load_(load),
        engine_(machine.dma_rate),
        to_host_(machine.pcie_rate),
        to_card_(machine.pcie_rate) {}

  Core* AddHost(Core::Order order) { return Add(&host_, order); }
  Core* AddAgent() { return Add(&agent_, Core::Order::kFirst); }

  // `core` does all stages.
  void AddWhole(Core* core, bool on_host) {
    const size_t endpoint = AddEndpoint();
    const double speed = on_host ? 1 : machine_.agent_speed;
    core->AddSource([=, this]() -> std::optional<Core::Work> {
      const BatchPtr batch = Receive(endpoint, core);
      if (batch == nullptr) return std::nullopt;
      const auto n = static_cast<double>(batch->size());
      if (on_host) to_host_.Send(events_.now(), n * machine_.packet_request_bytes);
      return Core::Work{costs_.whole.Of(batch->size()) / speed, [=, this] {
                          if (on_host) {
                            to_card_.Send(events_.now(), n * machine_.packet_response_bytes);
                          }
                          Answer(*batch);
                        }};
    });
  }

  // `agent` communicates, `host` processes, with a queue pair between them.
  void AddSplit(Core* agent, Core* host) {
    const size_t endpoint = AddEndpoint();
    pairs_.push_back(std::make_unique<Pair>());
    Pair* const pair = pairs_.back().get();
    const double speed = machine_.agent_speed;
    agent->AddSource([=, this]() -> std::optional<Core::Work> {
      if (pair->to_prepare == 0) return std::nullopt;
      const size_t n = std::exchange(pair->to_prepare, 0);
      return Core::Work{costs_.prepare.Of(n) / speed, [] {}};
    });
    agent->AddSource([=, this]() -> std::optional<Core::Work> {
      const BatchPtr batch = Next(&pair->answered);
      if (batch == nullptr) return std::nullopt;
      return Core::Work{costs_.send.Of(batch->size()) / speed, [=, this] {
                          --pair->under_way;
                          Answer(*batch);
                        }};
    });
    agent->AddSource([=, this]() -> std::optional<Core::Work> {
      if (pair->under_way == machine_.slots) return std::nullopt;
      const BatchPtr batch = Receive(endpoint, agent);
      if (batch == nullptr) return std::nullopt;
      ++pair->under_way;
      return Core::Work{costs_.receive.Of(batch->size()) / speed, [=, this] {
                          pair->to_prepare = batch->size();
                          Transfer(&to_host_, *batch, machine_.pair_request_bytes, [=] {
                            pair->submitted.push_back(batch);
                            host->Wake();
                          });
                        }};
    });
    host->AddSource([=, this]() -> std::optional<Core::Work> {
      const BatchPtr batch = Next(&pair->submitted);
      if (batch == nullptr) return std::nullopt;
      return Core::Work{costs_.process.Of(batch->size()), [=, this] {
                          Transfer(&to_card_, *batch, machine_.pair_response_bytes, [=] {
                            pair->answered.push_back(batch);
                            agent->Wake();
                          });
                        }};
    });
  }

  Outcome Run() {
    for (const auto& core : host_) core->Wake();
    for (const auto& core : agent_) core->Wake();
    events_.RunUntil(load_.warm_up);
    counting_ = true;
    const double host_before = Busy(host_);
    const double agent_before = Busy(agent_);
    const double in_before = to_host_.moved();
    const double out_before = to_card_.moved();
    events_.RunUntil(load_.warm_up + load_.length);
    Outcome outcome;
    for (const Endpoint& endpoint : endpoints_) {
      const double rate = static_cast<double>(endpoint.counted) / load_.length * 1e9;
      outcome.endpoint_rates.push_back(rate);
      outcome.per_second += rate;
      outcome.arrived += endpoint.queue.arrived();
      outcome.dropped += endpoint.queue.dropped();
      outcome.waiting += endpoint.queue.waiting();
      outcome.served += endpoint.served;
      outcome.under_way += endpoint.taken - endpoint.served;
    }
    outcome.p50_us = static_cast<double>(latency_.ValueAtPercentile(50)) / 1e3;
    outcome.p99_us = static_cast<double>(latency_.ValueAtPercentile(99)) / 1e3;
    outcome.mean_us = latency_.Mean() / 1e3;
    outcome.host_cores = static_cast<int>(host_.size());
    outcome.host_busy = (Busy(host_) - host_before) / load_.length;
    outcome.agent_busy = (Busy(agent_) - agent_before) / load_.length;
    if (transfers_ > 0) outcome.transfer_us = transfer_nanos_ / transfers_ / 1e3;
    outcome.pcie_share = std::max(to_host_.moved() - in_before, to_card_.moved() - out_before) /
                         load_.length / machine_.pcie_rate;
    return outcome;
  }

 private:
  struct Endpoint {
    ReceiveQueue queue;
    double wake_at = -1;  // an event for it is there
    uint64_t taken = 0;
    uint64_t served = 0;
    uint64_t counted = 0;  // after the warm-up
  };
  struct Pair {
    std::deque<BatchPtr> submitted;
    std::deque<BatchPtr> answered;
    size_t under_way = 0;
    size_t to_prepare = 0;
  };

  Core* Add(std::vector<std::unique_ptr<Core>>* cores, Core::Order order) {
    cores->push_back(std::make_unique<Core>(&events_, order));
    return cores->back().get();
  }

  size_t AddEndpoint() {
    const size_t number = endpoints_.size();
    ReceiveQueue::Options options;
    if (!load_.rates.empty()) options.rate = load_.rates.at(number) / 1e9;
    options.even = load_.even;
    options.capacity = machine_.receive_queue;
    options.seed = load_.seed * 1000 + number;
    endpoints_.push_back({ReceiveQueue(options)});
    return number;
  }

  // What has arrived; null when there is nothing, and then the core looks again when there is.
  BatchPtr Receive(size_t number, Core* core) {
    Endpoint& endpoint = endpoints_[number];
    auto batch =
        std::make_shared<Batch>(Batch{number, endpoint.queue.Take(events_.now(), machine_.burst)});
    endpoint.taken += batch->size();
    if (batch->size() > 0) return batch;
    if (endpoint.wake_at != endpoint.queue.next()) {
      endpoint.wake_at = endpoint.queue.next();
      events_.At(endpoint.wake_at, [core] { core->Wake(); });
    }
    return nullptr;
  }

  static BatchPtr Next(std::deque<BatchPtr>* queue) {
    if (queue->empty()) return nullptr;
    BatchPtr batch = std::move(queue->front());
    queue->pop_front();
    return batch;
  }

  void Transfer(Link* pcie, const Batch& batch, double bytes_each, EventQueue::Action there) {
    const double now = events_.now();
    const double bytes = static_cast<double>(batch.size()) * bytes_each;
    const double at =
        std::max(engine_.Send(now, bytes), pcie->Send(now, bytes)) + machine_.dma_latency;
    if (counting_) {
      transfer_nanos_ += at - now;
      ++transfers_;
    }
    events_.At(at, std::move(there));
  }

  void Answer(const Batch& batch) {
    Endpoint& endpoint = endpoints_[batch.endpoint];
    endpoint.served += batch.size();
    if (!counting_) return;
    endpoint.counted += batch.size();
    for (const double stamp : batch.stamps) {
      latency_.Record(static_cast<uint64_t>(events_.now() - stamp));
    }
  }

  static double Busy(const std::vector<std::unique_ptr<Core>>& cores) {
    double nanos = 0;
    for (const auto& core : cores) nanos += core->busy_nanos();
    return nanos;
  }

  const Machine& machine_;
  const StageCosts& costs_;
  const Load& load_;
  EventQueue events_;
  Link engine_;   // of the card: both directions, all cores
  Link to_host_;  // the host's PCIe
  Link to_card_;
  std::vector<std::unique_ptr<Core>> host_;
  std::vector<std::unique_ptr<Core>> agent_;
  std::deque<Endpoint> endpoints_;
  std::vector<std::unique_ptr<Pair>> pairs_;
  bool counting_ = false;
  Histogram latency_;
  double transfer_nanos_ = 0;
  double transfers_ = 0;
};

}  // namespace

std::string_view DesignName(Design design) { return kNames[static_cast<size_t>(design)]; }

std::optional<Design> ParseDesign(std::string_view name) {
  for (const Design design : kDesigns) {
    if (DesignName(design) == name) return design;
  }
  return std::nullopt;
}

size_t EndpointsOf(Design design, const Machine& machine) {
  const auto host = static_cast<size_t>(machine.host_cores);
  const auto agent = static_cast<size_t>(machine.agent_cores);
  switch (design) {
    case Design::kCpu:
      return host;
    case Design::kDual:
      return static_cast<size_t>(machine.spare_cores) + agent;
    case Design::kShrd:
      return host + agent;
    default:
      return agent;
  }
}

Outcome Simulate(Design design, const Machine& machine, const StageCosts& costs, const Load& load) {
  PULSE_CHECK(load.rates.empty() || load.rates.size() == EndpointsOf(design, machine));
  Simulation s(machine, costs, load);
  const int whole_hosts = design == Design::kCpu || design == Design::kShrd ? machine.host_cores
                          : design == Design::kDual                         ? machine.spare_cores
                                                                            : 0;
  for (int i = 0; i < whole_hosts; ++i) s.AddWhole(s.AddHost(Core::Order::kFirst), true);
  if (design == Design::kCpu) return s.Run();
  const bool shared_host = design == Design::kSav || design == Design::kDual;
  Core* host = shared_host ? s.AddHost(Core::Order::kInTurn) : nullptr;
  for (int i = 0; i < machine.agent_cores; ++i) {
    Core* const agent = s.AddAgent();
    if (design == Design::kDpu || design == Design::kShrd) {
      s.AddWhole(agent, false);
    } else {
      s.AddSplit(agent, shared_host ? host : s.AddHost(Core::Order::kFirst));
    }
  }
  return s.Run();
}

}  // namespace pulse::kvmodel
