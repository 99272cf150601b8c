// The halves of the DPU-KV paper's designs on the memory network: a server that does all on one
// core, the communication engine of an agent's core, and the processing engine of a host's core.
// Each has a Round, which its thread calls again and again: it does one batch, if there is one.
//
// Store: kv::Partition or kv::MicaCache. Each object is one thread's.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "bench/macro/kv/memory_network.h"
#include "bench/macro/kv/priced_queue.h"
#include "bench/rivals/kv/mica_cache.h"
#include "services/kv/processing.h"
#include "vdpu/core_pace.h"

namespace pulse::bench {

// A batch in so many has its stages timed; each request of it.
inline constexpr uint64_t kStagesSampled = 16;

// All on one core: Figure 4(a) of the paper; on the agent's core Figure 4(b).
template <class Store>
class WholeServer {
 public:
  WholeServer(const KvShape& shape, Store* store, PacketSource* source, double speed)
      : shape_(shape), store_(store), source_(*source), sink_(*source), pace_(speed) {}

  void Round(Counts* counts) {
    const bool stages = batch_++ % kStagesSampled == 0;
    const bool timed = stages || source_.timed();
    pace_.Begin();
    const int64_t t0 = timed ? NowNanos() : 0;
    uint64_t first = 0;
    const size_t count = source_.Receive(shape_.batch, t0, &first);
    if (count == 0) return;
    const int64_t t1 = stages ? NowNanos() : 0;
    size_t parsed = 0;
    for (size_t i = 0; i < count; ++i) {
      PacketRequest request;
      source_.Prefetch(first + i + kPacketsAhead);
      if (!ParsePacket(source_.at(first + i), source_.size_at(first + i), &request)) {
        ++counts->malformed;
        continue;
      }
      kv::BatchRequest& r = requests_[parsed];
      r.key = request.key;
      r.value = request.value;
      r.hash = kv::HashKey(request.key);
      r.op = request.op == kv::WireOp::kSet ? kv::Op::kSet : kv::Op::kGet;
      packet_of_[parsed++] = first + i;
    }
    const int64_t t2 = stages ? NowNanos() : 0;
    Responder responder{this, counts, stages, 0};
    kv::ExecuteBatch(store_, requests_.data(), parsed, kv::MatchOf(*store_), &responder);
    pace_.Settle();
    counts->requests += parsed;
    ++counts->batches;
    const int64_t t3 = timed ? NowNanos() : 0;
    if (source_.timed()) counts->RecordLatencies(&sink_, 0, packet_of_.data(), parsed, t3);
    if (!stages) return;
    counts->sampled += parsed;
    counts->receive += t1 - t0 - clock_nanos_;
    counts->parse += t2 - t1 - clock_nanos_;
    // Two clocks for each response that was timed.
    const int64_t clocks = 1 + 2 * static_cast<int64_t>((parsed + 7) / 8);
    counts->process += t3 - t2 - responder.respond - clocks * clock_nanos_;
    counts->respond += responder.respond;
  }

 private:
  struct Responder {
    WholeServer* server;
    Counts* counts;
    bool timed;
    int64_t respond;
    void Respond(size_t i, kv::WireStatus status, std::string_view value) {
      // Timing each would cost as much as it: one in eight, for the others, too.
      const bool clock = timed && i % 8 == 0;
      const int64_t before = clock ? NowNanos() : 0;
      char* out = server->sink_.at(0, i);
      PrepareResponse(server->source_.at(server->packet_of_[i]), out);
      FinishResponse(out, status, value);
      counts->not_ok += status != kv::WireStatus::kOk ? 1 : 0;
      if (clock) respond += 8 * std::max<int64_t>(0, NowNanos() - before - server->clock_nanos_);
    }
    void Got(size_t i, const kv::Item* item) {
      if (item == nullptr) return Respond(i, kv::WireStatus::kNotFound, {});
      Respond(i, kv::WireStatus::kOk, item->value());
    }
    void Stored(size_t i, kv::Partition::Result result) {
      Respond(i,
              result == kv::Partition::Result::kStored ? kv::WireStatus::kOk
                                                       : kv::WireStatus::kNoMemory,
              {});
    }
    void Deleted(size_t i, bool deleted) {
      Respond(i, deleted ? kv::WireStatus::kOk : kv::WireStatus::kNotFound, {});
    }
  };
  const KvShape& shape_;
  Store* const store_;
  PacketSource& source_;
  PacketSink sink_;
  vdpu::CorePace pace_;
  uint64_t batch_ = 0;
  std::array<kv::BatchRequest, 256> requests_;
  std::array<uint64_t, 256> packet_of_;
  const int64_t clock_nanos_ = ClockNanos();
};

// A batch that is not full is submitted while fewer are under way: one is carried out, and one
// waits for its end. More would wait in line, each with the host's cost of a batch; one that grows
// has it once.
inline constexpr uint64_t kSmallUnderWay = 2;

// The agent's half: the communication engine, with the pipeline of section 4.3.
class CommunicationEngine {
 public:
  CommunicationEngine(const KvShape& shape, PricedQueue* queue, PacketSource* source, double speed)
      : shape_(shape), queue_(*queue), source_(*source), sink_(*source), pace_(speed) {}

  void Round(Counts* counts) {
    pace_.Begin();
    // What is ready leaves before more is parsed.
    if (const char* responses = queue_.PeekResponses(); responses != nullptr) {
      Send(responses, counts);
    } else if (queue_.HasRoom()) {
      ReceiveAndPrepare(counts);
    }
  }

 private:
  void ReceiveAndPrepare(Counts* counts) {
    const bool stages = next_ % kStagesSampled == 0;
    const int64_t now = stages || source_.timed() ? NowNanos() : 0;
    uint64_t first = 0;
    const size_t least = queue_.outstanding() < kSmallUnderWay ? 1 : shape_.batch;
    const size_t count = source_.Receive(shape_.batch, now, &first, least);
    if (count == 0) return;
    auto& packets = packet_of_[next_ % kNetworkSlots];
    size_t parsed = 0;
    kv::RequestWriter writer = queue_.BeginRequests();
    for (size_t i = 0; i < count; ++i) {
      PacketRequest request;
      source_.Prefetch(first + i + kPacketsAhead);
      if (!ParsePacket(source_.at(first + i), source_.size_at(first + i), &request) ||
          !writer.Add(request.op, request.key, kv::HashKey(request.key), request.value, 0)) {
        ++counts->malformed;
        continue;
      }
      packets[parsed++] = first + i;
    }
    const size_t bytes = writer.Finish();
    pace_.Settle();
    queue_.Submit(bytes);
    const int64_t submitted = stages ? NowNanos() : 0;
    // The host is at it; meanwhile, what is known of the replies.
    for (size_t i = 0; i < parsed; ++i) {
      PrepareResponse(source_.at(packets[i]), sink_.at(next_ % kNetworkSlots, i));
    }
    pace_.Settle();
    parsed_[next_++ % kNetworkSlots] = parsed;
    if (!stages) return;
    counts->receive += submitted - now - clock_nanos_;
    counts->prepare += NowNanos() - submitted - clock_nanos_;
  }

  void Send(const char* responses, Counts* counts) {
    const size_t slot = sent_ % kNetworkSlots;
    const bool stages = sent_ % kStagesSampled == 0;
    const int64_t begin = stages ? NowNanos() : 0;
    const kv::ResponseReader reader(responses, queue_.options().buffer_bytes);
    for (size_t i = 0; i < parsed_[slot]; ++i) {
      kv::ResponseDescriptor descriptor;
      std::string_view value;
      if (!reader.Read(i, &descriptor, &value)) {
        ++counts->malformed;
        continue;
      }
      FinishResponse(sink_.at(slot, i), descriptor.status, value);
      counts->not_ok += descriptor.status != kv::WireStatus::kOk ? 1 : 0;
    }
    pace_.Settle();
    queue_.TakeResponses();
    if (stages) {
      counts->respond += NowNanos() - begin - clock_nanos_;
      counts->sampled += parsed_[slot];
    }
    if (source_.timed()) {
      counts->RecordLatencies(&sink_, slot, packet_of_[slot].data(), parsed_[slot], NowNanos());
    }
    counts->requests += parsed_[slot];
    ++counts->batches;
    ++sent_;
  }

  const KvShape& shape_;
  PricedQueue& queue_;
  PacketSource& source_;
  PacketSink sink_;
  vdpu::CorePace pace_;
  std::array<std::array<uint64_t, 256>, kNetworkSlots> packet_of_;
  std::array<size_t, kNetworkSlots> parsed_{};
  uint64_t next_ = 0;
  uint64_t sent_ = 0;
  const int64_t clock_nanos_ = ClockNanos();
};

// The host's half, for one agent core or for several: one batch of each in turn (section 4.4).
template <class Store>
class ProcessingEngine {
 public:
  struct Port {
    Store* store;
    PricedQueue* queue;
    kv::Lookahead lookahead = {};
  };
  explicit ProcessingEngine(std::vector<Port> ports) : ports_(std::move(ports)) {}

  void Round(Counts* counts, kv::BatchCounts* moved) {
    for (Port& port : ports_) {
      const char* requests = port.queue->PeekRequests();
      if (requests == nullptr) continue;
      const int64_t begin = NowNanos();
      const auto& options = port.queue->options();
      // All responses fit: values are short.
      const auto result = kv::ProcessBatch(port.store,
                                           {requests,
                                            port.queue->ResponseBufferOfOldest(),
                                            options.buffer_bytes,
                                            options.batch,
                                            0,
                                            {},
                                            {.lookahead = &port.lookahead,
                                             .requests = port.queue->PeekNext(),
                                             .responses = port.queue->ResponseBufferOfNext()}},
                                           {.trusted = true}, moved);
      port.queue->Answer(result.bytes);
      counts->busy += NowNanos() - begin;
    }
  }

 private:
  std::vector<Port> ports_;
};

}  // namespace pulse::bench
