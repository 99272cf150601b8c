// The KV queue pair, both ways: what an agent writes to a host, and what a host answers. Any bytes
// are answered or refused, one response for each request, within the buffers.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "fuzz_input.h"
#include "services/kv/processing.h"
#include "services/kv/queue_pair.h"

namespace {

using pulse::kv::BatchBuffers;
using pulse::kv::BatchCounts;
using pulse::kv::BatchHeader;
using pulse::kv::BatchResult;
using pulse::kv::FarMemory;
using pulse::kv::HashKey;
using pulse::kv::kFar;
using pulse::kv::kLeastMemory;
using pulse::kv::kTtl;
using pulse::kv::Lookahead;
using pulse::kv::Partition;
using pulse::kv::PartitionOptions;
using pulse::kv::ProcessBatch;
using pulse::kv::QueuePair;
using pulse::kv::QueuePairOptions;
using pulse::kv::RequestWriter;
using pulse::kv::ResponseDescriptor;
using pulse::kv::ResponseReader;
using pulse::kv::WireOp;
using pulse::kv::WireStatus;

constexpr QueuePairOptions kOptions = {.slots = 2, .batch = 16, .buffer_bytes = 4096};

// Of the client's own.
FarMemory Far() {
  constexpr uint64_t kBytes = 64 << 10;
  static const int fd = [] {
    const int made = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(made >= 0 && ftruncate(made, kBytes) == 0);
    return made;
  }();
  return {fd, kBytes};
}

Partition* Keys() {
  static const auto partition = [] {
    PartitionOptions options;
    options.memory_bytes = kLeastMemory;
    return *Partition::Open(options);
  }();
  return partition.get();
}

// A batch of well-formed requests, some bytes of which are then changed.
void WriteRequests(pulse::fuzz::Input* in, char* buffer) {
  RequestWriter writer(buffer, kOptions.buffer_bytes, kOptions.batch);
  for (uint64_t left = in->Below(kOptions.batch + 1); left > 0; --left) {
    const auto op = static_cast<WireOp>(in->Below(5));
    const std::string key(in->Below(20), static_cast<char>('a' + in->Below(3)));
    if (in->Byte() % 8 == 7) {
      const uint32_t size = in->Byte() % 4 == 0 ? in->Number<uint32_t>() : in->Number<uint16_t>();
      if (!writer.AddFar(op, key, HashKey(key), size, in->Byte(), in->Byte() & kTtl)) break;
      continue;
    }
    const std::string value(in->Below(16) * in->Byte(), 'v');
    if (!writer.Add(op, key, HashKey(key), value, in->Byte(), in->Byte() & kTtl)) break;
  }
  writer.Finish();
  for (uint64_t left = in->Below(8); left > 0; --left) {
    buffer[in->Number<uint16_t>() % 600] = static_cast<char>(in->Byte());
  }
}

// Carries a batch out, in as many parts as it takes; returns the requests that were answered. What
// lies in the responses' buffer is said to be the next batch.
size_t Process(const char* requests, char* responses, uint32_t partition, uint32_t partitions,
               Lookahead* lookahead) {
  BatchCounts counts;
  BatchBuffers buffers{requests, responses, kOptions.buffer_bytes, kOptions.batch};
  buffers.far = Far();
  buffers.ahead = {lookahead, responses, responses};
  while (true) {
    const BatchResult result =
        ProcessBatch(Keys(), buffers, {.partition = partition, .partitions = partitions}, &counts);
    FUZZ_CHECK(result.bytes <= kOptions.buffer_bytes);
    FUZZ_CHECK(result.whole || result.answered > 0);
    const ResponseReader reader(responses, kOptions.buffer_bytes);
    FUZZ_CHECK(reader.count() == result.answered);
    for (size_t i = 0; i < result.answered; ++i) {
      ResponseDescriptor d;
      std::string_view value;
      FUZZ_CHECK(reader.Read(i, &d, &value));
      FUZZ_CHECK(d.status <= WireStatus::kMalformed);
      FUZZ_CHECK((d.flags & kFar) == 0 || d.value_size <= buffers.far.bytes);
      FUZZ_CHECK(value.data() >= responses &&
                 value.data() + value.size() <= responses + kOptions.buffer_bytes);
    }
    buffers.first += result.answered;
    if (result.whole) return buffers.first;
  }
}

// What a host that means harm answers.
void ReadResponses(pulse::fuzz::Input* in) {
  std::vector<char> responses(kOptions.buffer_bytes);
  for (size_t i = 0; i < 600; ++i) responses[i] = static_cast<char>(in->Byte());
  const ResponseReader reader(responses.data(), responses.size());
  for (size_t i = 0; i < std::min<size_t>(reader.count(), kOptions.batch); ++i) {
    ResponseDescriptor d;
    std::string_view value;
    if (!reader.Read(i, &d, &value)) continue;
    FUZZ_CHECK(value.data() >= responses.data() &&
               value.data() + value.size() <= responses.data() + responses.size());
  }
}

// Counters that the other side has written.
void LookAtCounters(pulse::fuzz::Input* in) {
  alignas(4096) static char memory[QueuePair::BytesFor(kOptions)];
  std::memset(memory, 0, 4096);
  QueuePair agent(kOptions, memory);
  QueuePair host(kOptions, memory);
  for (uint64_t left = in->Below(4); left > 0 && agent.HasRoom(); --left) agent.Submit();
  for (size_t line = 0; line < 3; ++line) {
    if (in->Byte() % 2 == 0) continue;
    const uint64_t evil = in->Evil(2);
    std::memcpy(memory + line * 64, &evil, sizeof(evil));
  }
  const char* found = nullptr;
  if (host.FindRequests(&found) == QueuePair::Found::kBatch) {
    FUZZ_CHECK(found >= memory && found + kOptions.buffer_bytes <= memory + sizeof(memory));
  }
  if (agent.FindResponses(&found) == QueuePair::Found::kBatch) {
    FUZZ_CHECK(agent.outstanding() > 0);
    FUZZ_CHECK(found >= memory && found + kOptions.buffer_bytes <= memory + sizeof(memory));
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  Keys()->SetNow(1'000'000);
  Keys()->Clear();
  LookAtCounters(&in);
  // Of exactly this size, so that a sanitizer sees what is outside.
  const auto requests = std::make_unique<char[]>(kOptions.buffer_bytes);
  const auto responses = std::make_unique<char[]>(kOptions.buffer_bytes);
  Lookahead lookahead;
  for (int batch = 0; batch < 3; ++batch) {
    WriteRequests(&in, requests.get());
    BatchHeader header;
    std::memcpy(&header, requests.get(), sizeof(header));
    const auto partitions = static_cast<uint32_t>(1 + in.Below(2));
    FUZZ_CHECK(Process(requests.get(), responses.get(), 0, partitions, &lookahead) ==
               std::min<size_t>(header.count, kOptions.batch));
  }
  ReadResponses(&in);
  return 0;
}
