// `pulse bench kv --part network`: the designs of the DPU-KV paper on a network in memory, one
// request a packet. A thread for the host's core, and one for the agent's; both poll.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/macro/kv/kv_load.h"
#include "bench/macro/kv/packet.h"
#include "bench/macro/workload.h"
#include "nlohmann/json.hpp"
#include "services/kv/processing.h"
#include "services/kv/queue_pair.h"

namespace pulse::bench {
namespace {

using kv::WireOp;
using kv::WireStatus;

constexpr size_t kPackets = size_t{1} << 20;
constexpr uint32_t kSlots = 4;
// A batch in so many has its stages timed; each request of it.
constexpr uint64_t kSampled = 16;

// Packets that arrive at a rate, or as fast as they are taken.
class PacketSource {
 public:
  PacketSource(const KvShape& shape, uint32_t part, uint32_t parts)
      : shape_(shape),
        stride_((sizeof(PacketHead) + shape.key_bytes + shape.value_bytes + 63) / 64 * 64),
        bytes_(kPackets * stride_) {
    const auto numbers = DrawNumbers(shape, kPackets * parts, part + 1);
    Random random(part + 100);
    std::string key(shape.key_bytes, '\0');
    size_t made = 0;
    for (size_t i = 0; made < kPackets; ++i) {
      WriteKey(numbers[i % numbers.size()], key.size(), key.data());
      // As a NIC's flow director would sort them.
      if (parts > 1 && kv::PartitionOf(kv::HashKey(key), parts) != part) continue;
      MakePacket(&bytes_[made * stride_], key, random.Unit() < shape.set_share, made);
      ++made;
    }
  }
  void Start(int64_t now) { begin_ = now; }
  // At most `burst` of those that have arrived.
  size_t Receive(size_t burst, int64_t now, uint64_t* first) {
    size_t count = burst;
    if (shape_.rate > 0) {
      const double arrived = static_cast<double>(now - begin_) * shape_.rate / 1e9;
      count = std::min<size_t>(burst, static_cast<size_t>(arrived) - taken_);
    }
    *first = taken_;
    taken_ += count;
    // As a NIC writes them into the last-level cache.
    for (size_t i = 0; i < count; ++i) __builtin_prefetch(at(taken_ + i));
    return count;
  }
  const char* at(uint64_t number) const { return &bytes_[number % kPackets * stride_]; }
  size_t size_at(uint64_t) const { return stride_; }
  // When it was to arrive; its client measures from then on.
  int64_t ArrivalOf(uint64_t number) const {
    return begin_ + static_cast<int64_t>(static_cast<double>(number) * 1e9 / shape_.rate);
  }
  size_t stride() const { return stride_; }

 private:
  void MakePacket(char* at, const std::string& key, bool set, uint64_t stamp) const {
    PacketHead head{};
    head.ether_type = Swap16(0x0800);
    head.version = 0x45;
    head.ttl = 64;
    head.protocol = 17;
    head.ip_from = 0x0100000a;
    head.ip_to = 0x0200000a;
    head.port_from = Swap16(40000 + stamp % 1000);
    head.port_to = Swap16(11211);
    head.stamp = stamp;
    head.op = set ? WireOp::kSet : WireOp::kGet;
    head.key_bytes = static_cast<uint16_t>(key.size());
    head.value_bytes = set ? static_cast<uint32_t>(shape_.value_bytes) : 0;
    SetLengths(&head);
    std::memcpy(at, &head, sizeof(head));
    std::memcpy(at + sizeof(head), key.data(), key.size());
    std::memset(at + sizeof(head) + key.size(), 'w', head.value_bytes);
  }

  const KvShape& shape_;
  const size_t stride_;
  std::vector<char> bytes_;
  int64_t begin_ = 0;
  uint64_t taken_ = 0;
};

// What one side has counted. One thread writes it.
struct Counts {
  uint64_t requests = 0;
  uint64_t malformed = 0;
  uint64_t not_ok = 0;
  uint64_t sampled = 0;  // requests of timed batches
  int64_t receive = 0;   // nanoseconds of them
  int64_t parse = 0;
  int64_t process = 0;
  int64_t prepare = 0;  // of lat
  int64_t respond = 0;  // of lat: to send
  int64_t busy = 0;     // of the host, in all batches
  Histogram latency;
};

// Where responses are built. Sending one is to leave it there.
class PacketSink {
 public:
  explicit PacketSink(const PacketSource& source)
      : stride_(source.stride() + 64), bytes_(kSlots * 256 * stride_) {}
  char* at(size_t slot, size_t i) { return &bytes_[(slot * 256 + i) * stride_]; }

 private:
  const size_t stride_;
  std::vector<char> bytes_;
};

// Of one request in so many: to record each would cost as much as to answer it. By its number, not
// by its place in a batch: the first of a batch has waited longest.
constexpr size_t kLatencySampled = 16;

void RecordLatencies(const KvShape& shape, const PacketSource& source, const uint64_t* numbers,
                     size_t count, int64_t now, Counts* counts) {
  if (shape.rate <= 0 || count == 0) return;
  for (size_t i = -numbers[0] % kLatencySampled; i < count; i += kLatencySampled) {
    counts->latency.Record(
        static_cast<uint64_t>(std::max<int64_t>(0, now - source.ArrivalOf(numbers[i]))));
  }
}

// Of each interval that is timed, so much is the clock's own.
int64_t ClockNanos() {
  const int64_t begin = NowNanos();
  for (int i = 0; i < 1000; ++i) NowNanos();
  return (NowNanos() - begin) / 1000;
}

// All on one core: Figure 4(a) of the paper.
class WholeServer {
 public:
  WholeServer(const KvShape& shape, kv::Partition* partition, PacketSource* source)
      : shape_(shape), partition_(partition), source_(*source), sink_(*source) {}

  void Serve(const std::atomic<bool>& stop, Counts* counts) {
    std::array<kv::BatchRequest, 256> requests;
    Responder responder{this, counts};
    for (uint64_t batch = 0; !stop.load(std::memory_order_relaxed); ++batch) {
      const bool timed = batch % kSampled == 0;
      int64_t t0 = timed || shape_.rate > 0 ? NowNanos() : 0;
      const size_t count = source_.Receive(shape_.batch, t0, &first_);
      if (count == 0) continue;
      const int64_t t1 = timed ? NowNanos() : 0;
      size_t parsed = 0;
      for (size_t i = 0; i < count; ++i) {
        PacketRequest request;
        if (!ParsePacket(source_.at(first_ + i), source_.size_at(first_ + i), &request)) {
          ++counts->malformed;
          continue;
        }
        kv::BatchRequest& r = requests[parsed];
        r.key = request.key;
        r.value = request.value;
        r.hash = kv::HashKey(request.key);
        r.op = request.op == WireOp::kSet ? kv::Op::kSet : kv::Op::kGet;
        packet_of_[parsed++] = first_ + i;
      }
      const int64_t t2 = timed ? NowNanos() : 0;
      responder.timed = timed;
      responder.respond = 0;
      kv::ExecuteBatch(partition_, requests.data(), parsed, parsed, kv::BestMatch(), &responder);
      counts->requests += parsed;
      const int64_t t3 = timed || shape_.rate > 0 ? NowNanos() : 0;
      RecordLatencies(shape_, source_, packet_of_.data(), parsed, t3, counts);
      if (!timed) continue;
      counts->sampled += parsed;
      counts->receive += t1 - t0 - clock_nanos_;
      counts->parse += t2 - t1 - clock_nanos_;
      // Two clocks for each response that was timed.
      const int64_t clocks = 1 + 2 * static_cast<int64_t>((parsed + 7) / 8);
      counts->process += t3 - t2 - responder.respond - clocks * clock_nanos_;
      counts->respond += responder.respond;
    }
  }

 private:
  struct Responder {
    WholeServer* server;
    Counts* counts;
    bool timed = false;
    int64_t respond = 0;
    void Respond(size_t i, WireStatus status, std::string_view value) {
      // Timing each would cost as much as it: one in eight, for the others, too.
      const bool clock = timed && i % 8 == 0;
      const int64_t before = clock ? NowNanos() : 0;
      char* out = server->sink_.at(0, i);
      PrepareResponse(server->source_.at(server->packet_of_[i]), out);
      FinishResponse(out, status, value);
      counts->not_ok += status != WireStatus::kOk ? 1 : 0;
      if (clock) respond += 8 * std::max<int64_t>(0, NowNanos() - before - server->clock_nanos_);
    }
    void Got(size_t i, const kv::Item* item) {
      if (item == nullptr) return Respond(i, WireStatus::kNotFound, {});
      Respond(i, WireStatus::kOk, item->value());
    }
    void Stored(size_t i, kv::Partition::Result result) {
      Respond(i, result == kv::Partition::Result::kStored ? WireStatus::kOk : WireStatus::kNoMemory,
              {});
    }
    void Deleted(size_t i, bool deleted) {
      Respond(i, deleted ? WireStatus::kOk : WireStatus::kNotFound, {});
    }
  };
  const KvShape& shape_;
  kv::Partition* const partition_;
  PacketSource& source_;
  PacketSink sink_;
  uint64_t first_ = 0;
  std::array<uint64_t, 256> packet_of_;
  const int64_t clock_nanos_ = ClockNanos();
};

// The agent's half of `lat`: the communication engine, with the pipeline of section 4.3.
class CommunicationEngine {
 public:
  CommunicationEngine(const KvShape& shape, kv::QueuePair* queue, PacketSource* source)
      : shape_(shape), queue_(*queue), source_(*source), sink_(*source) {}

  void Serve(const std::atomic<bool>& stop, Counts* counts) {
    while (!stop.load(std::memory_order_relaxed)) {
      // What is ready leaves before more is parsed.
      if (const char* responses = queue_.PeekResponses(); responses != nullptr) {
        Send(responses, counts);
      } else if (queue_.HasRoom()) {
        ReceiveAndPrepare(counts);
      }
    }
  }

 private:
  void ReceiveAndPrepare(Counts* counts) {
    const bool timed = next_ % kSampled == 0;
    const int64_t now = timed || shape_.rate > 0 ? NowNanos() : 0;
    uint64_t first = 0;
    const size_t count = source_.Receive(shape_.batch, now, &first);
    if (count == 0) return;
    auto& packets = packet_of_[next_ % kSlots];
    size_t parsed = 0;
    kv::RequestWriter writer = queue_.BeginRequests();
    for (size_t i = 0; i < count; ++i) {
      PacketRequest request;
      if (!ParsePacket(source_.at(first + i), source_.size_at(first + i), &request) ||
          !writer.Add(request.op, request.key, kv::HashKey(request.key), request.value, 0)) {
        ++counts->malformed;
        continue;
      }
      packets[parsed++] = first + i;
    }
    writer.Finish();
    queue_.Submit();
    const int64_t submitted = timed ? NowNanos() : 0;
    // The host is at it; meanwhile, what is known of the replies.
    for (size_t i = 0; i < parsed; ++i) {
      PrepareResponse(source_.at(packets[i]), sink_.at(next_ % kSlots, i));
    }
    parsed_[next_++ % kSlots] = parsed;
    if (!timed) return;
    counts->receive += submitted - now - clock_nanos_;
    counts->prepare += NowNanos() - submitted - clock_nanos_;
  }

  void Send(const char* responses, Counts* counts) {
    const size_t slot = sent_ % kSlots;
    const bool timed = sent_ % kSampled == 0;
    const int64_t begin = timed ? NowNanos() : 0;
    const kv::ResponseReader reader(responses, queue_.options().buffer_bytes);
    for (size_t i = 0; i < parsed_[slot]; ++i) {
      kv::ResponseDescriptor descriptor;
      std::string_view value;
      if (!reader.Read(i, &descriptor, &value)) {
        ++counts->malformed;
        continue;
      }
      FinishResponse(sink_.at(slot, i), descriptor.status, value);
      counts->not_ok += descriptor.status != WireStatus::kOk ? 1 : 0;
    }
    queue_.TakeResponses();
    if (timed) {
      counts->respond += NowNanos() - begin - clock_nanos_;
      counts->sampled += parsed_[slot];
    }
    if (shape_.rate > 0) {
      RecordLatencies(shape_, source_, packet_of_[slot].data(), parsed_[slot], NowNanos(), counts);
    }
    counts->requests += parsed_[slot];
    ++sent_;
  }

  const KvShape& shape_;
  kv::QueuePair& queue_;
  PacketSource& source_;
  PacketSink sink_;
  std::array<std::array<uint64_t, 256>, kSlots> packet_of_;
  std::array<size_t, kSlots> parsed_{};
  uint64_t next_ = 0;
  uint64_t sent_ = 0;
  const int64_t clock_nanos_ = ClockNanos();
};

// The host's half of `lat`.
void ProcessQueue(kv::Partition* partition, kv::QueuePair* queue, const std::atomic<bool>& stop,
                  Counts* counts, kv::BatchCounts* moved) {
  const auto& options = queue->options();
  while (!stop.load(std::memory_order_relaxed)) {
    const char* requests = queue->PeekRequests();
    if (requests == nullptr) continue;
    const int64_t begin = NowNanos();
    // All responses fit: values are short.
    kv::ProcessBatch(
        partition, {requests, queue->ResponseBufferOfOldest(), options.buffer_bytes, options.batch},
        {.trusted = true}, moved);
    queue->Answer();
    counts->busy += NowNanos() - begin;
  }
}

nlohmann::json Describe(const KvShape& shape, const Counts& counts, double seconds) {
  const auto requests = std::max<double>(1, static_cast<double>(counts.requests));
  nlohmann::json result = {{"ops_per_s", static_cast<double>(counts.requests) / seconds},
                           {"not_ok", counts.not_ok},
                           {"malformed", counts.malformed}};
  if (shape.rate > 0) {
    result["p50_us"] = static_cast<double>(counts.latency.ValueAtPercentile(50)) / 1e3;
    result["p99_us"] = static_cast<double>(counts.latency.ValueAtPercentile(99)) / 1e3;
  }
  if (counts.sampled > 0) {
    const auto n = static_cast<double>(counts.sampled);
    result["receive_ns"] = static_cast<double>(counts.receive) / n;
    result["parse_ns"] = static_cast<double>(counts.parse) / n;
    result["process_ns"] = static_cast<double>(counts.process) / n;
    result["prepare_ns"] = static_cast<double>(counts.prepare) / n;
    result["respond_ns"] = static_cast<double>(counts.respond) / n;
  }
  if (counts.busy > 0) result["host_ns"] = static_cast<double>(counts.busy) / requests;
  return result;
}

// Lets `work(i)` run on each CPU for the time; returns the seconds.
template <class Work>
double RunThreads(const KvShape& shape, const std::vector<int>& cpus, std::atomic<bool>* stop,
                  const Work& work) {
  std::vector<std::thread> threads;
  const int64_t begin = NowNanos();
  for (size_t i = 0; i < cpus.size(); ++i) {
    threads.emplace_back([&, i] {
      // A CPU that this process may not use: the figures would say so by themselves.
      SetThreadAffinity({cpus[i]}).IgnoreError();
      work(i);
    });
  }
  std::this_thread::sleep_for(std::chrono::nanoseconds(static_cast<int64_t>(shape.seconds * 1e9)));
  stop->store(true);
  const double seconds = static_cast<double>(NowNanos() - begin) / 1e9;
  for (std::thread& thread : threads) thread.join();
  return seconds;
}

absl::StatusOr<nlohmann::json> RunWhole(const KvShape& shape, uint32_t parts) {
  std::vector<std::unique_ptr<kv::Partition>> partitions;
  std::vector<std::unique_ptr<PacketSource>> sources;
  std::vector<std::unique_ptr<WholeServer>> servers;
  for (uint32_t part = 0; part < parts; ++part) {
    PULSE_ASSIGN_OR_RETURN(auto partition, FillPartition(shape, part, parts));
    partitions.push_back(std::move(partition));
    sources.push_back(std::make_unique<PacketSource>(shape, part, parts));
    servers.push_back(
        std::make_unique<WholeServer>(shape, partitions.back().get(), sources.back().get()));
  }
  std::vector<Counts> counts(parts);
  std::vector<int> cpus = {shape.host_cpus.at(0)};
  if (parts > 1) cpus.push_back(shape.agent_cpus.at(0));
  std::atomic<bool> stop{false};
  for (auto& source : sources) source->Start(NowNanos());
  const double seconds =
      RunThreads(shape, cpus, &stop, [&](size_t i) { servers[i]->Serve(stop, &counts[i]); });
  nlohmann::json result = Describe(shape, counts[0], seconds);
  for (uint32_t part = 1; part < parts; ++part) {
    result["ops_per_s"] =
        result["ops_per_s"].get<double>() + static_cast<double>(counts[part].requests) / seconds;
  }
  result["host_ns"] = static_cast<double>(parts) * 1e9 / result["ops_per_s"].get<double>();
  return result;
}

absl::StatusOr<nlohmann::json> RunSplit(const KvShape& shape) {
  PULSE_ASSIGN_OR_RETURN(auto partition, FillPartition(shape, 0, 1));
  PacketSource source(shape, 0, 1);
  kv::QueuePairOptions options;
  options.slots = kSlots;
  kv::QueuePair queue(options);
  CommunicationEngine engine(shape, &queue, &source);
  Counts agent;
  Counts host;
  kv::BatchCounts moved;
  std::atomic<bool> stop{false};
  source.Start(NowNanos());
  const double seconds =
      RunThreads(shape, {shape.host_cpus.at(0), shape.agent_cpus.at(0)}, &stop, [&](size_t i) {
        if (i == 0) {
          ProcessQueue(partition.get(), &queue, stop, &host, &moved);
        } else {
          engine.Serve(stop, &agent);
        }
      });
  nlohmann::json result = Describe(shape, agent, seconds);
  const auto n = std::max<double>(1, static_cast<double>(moved.requests));
  result["host_ns"] = static_cast<double>(host.busy) / n;
  result["request_bytes"] = static_cast<double>(moved.request_bytes) / n;
  result["response_bytes"] = static_cast<double>(moved.response_bytes) / n;
  return result;
}

// The time from one core's Submit until the other one sees it: half of an empty batch's round.
absl::StatusOr<nlohmann::json> RunTransfer(const KvShape& shape) {
  kv::QueuePair queue({});
  uint64_t rounds = 0;
  std::atomic<bool> stop{false};
  const double seconds =
      RunThreads(shape, {shape.host_cpus.at(0), shape.agent_cpus.at(0)}, &stop, [&](size_t i) {
        if (i == 1) queue.Submit();
        while (!stop.load(std::memory_order_relaxed)) {
          if (i == 0) {
            if (queue.PeekRequests() != nullptr) queue.Answer();
          } else if (queue.PeekResponses() != nullptr) {
            queue.TakeResponses();
            queue.Submit();
            ++rounds;
          }
        }
      });
  return nlohmann::json{{"transfer_ns", seconds * 1e9 / 2 / static_cast<double>(rounds)}};
}

}  // namespace

absl::StatusOr<nlohmann::json> RunKvNetwork(const KvShape& shape) {
  if (shape.design == "transfer") return RunTransfer(shape);
  if (shape.design == "cpu") return RunWhole(shape, 1);
  if (shape.design == "cpu-2") return RunWhole(shape, 2);
  return RunSplit(shape);
}

}  // namespace pulse::bench
