// The agent's ends of the message rings against a host that writes anything into pointers, headers
// and payload, between honest messages. The consumer hands out only bytes of its ring, batches end,
// what is wrong is an error for good; the response buffer reserves only space of its own.
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "bench/rivals/farm_ring.h"
#include "channel/progress_ring.h"
#include "channel/region.h"
#include "channel/response_buffer.h"
#include "fuzz_input.h"

namespace pulse {
namespace {

using fuzz::Input;

constexpr RingShape kShape{.capacity = 4096, .limit = 2048};
constexpr ResponseShape kResponses{.capacity = 4096, .batch = 512, .slots = 16};
constexpr FarmShape kFarm{.slots = 32};

// Copies as `vmread` does, but in this process: the mirror can be watched by the sanitizer.
class CopyMover : public Mover {
 public:
  CopyMover(char* host, size_t bytes)
      : host_(host), mirror_(new char[bytes + 64]()), bytes_(bytes) {}
  ~CopyMover() override { delete[] mirror_; }
  char* local() const override { return Aligned(); }
  size_t size() const override { return bytes_; }
  absl::Status Pull(uint64_t offset, uint64_t length) override {
    FUZZ_CHECK(offset <= bytes_ && length <= bytes_ - offset);
    std::memcpy(Aligned() + offset, host_ + offset, length);
    return absl::OkStatus();
  }
  absl::Status Push(uint64_t offset, uint64_t length) override {
    FUZZ_CHECK(offset <= bytes_ && length <= bytes_ - offset);
    std::memcpy(host_ + offset, Aligned() + offset, length);
    return absl::OkStatus();
  }
  MoverKind kind() const override { return MoverKind::kVmRead; }

 private:
  char* Aligned() const {
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(mirror_) + 63) & ~uintptr_t{63});
  }
  char* host_;
  char* mirror_;
  size_t bytes_;
};

struct Memory {
  explicit Memory(size_t bytes) : region(Region::CreatePrivate(bytes).value()) {}
  std::unique_ptr<Mover> MakeMover(bool copies, size_t bytes) {
    std::memset(region.data(), 0, bytes);
    if (copies) return std::make_unique<CopyMover>(region.data(), bytes);
    return Mover::CreateShared(region.data(), bytes);
  }
  Region region;
};

// Scribbles over pointers, a header, or anything.
void Lie(Input& in, char* region, size_t messages, uint64_t near) {
  RingPointers<>& p = *PointersOf(region);
  switch (in.Byte() % 6) {
    case 0:
      p.tail = p.progress = in.Evil(near);
      break;
    case 1:
      p.tail = in.Evil(near);
      break;
    case 2:
      p.progress = in.Evil(near);
      break;
    case 3:
      p.head = in.Evil(near);
      break;
    case 4: {
      const MessageHeader header{static_cast<uint32_t>(in.Evil(64)), in.Byte(), 0};
      std::memcpy(region + wire::kPage + in.Number<uint16_t>() % (messages / 8) * 8, &header, 8);
      break;
    }
    default:
      region[wire::kPage + in.Number<uint16_t>() % messages] = static_cast<char>(in.Byte());
  }
}

void FuzzRequests(Input& in) {
  static auto* const memory = new Memory(RingBytes(kShape));
  auto mover = memory->MakeMover(in.Byte() % 2 == 0, RingBytes(kShape));
  char* region = memory->region.data();
  auto producer = MakeProgressProducer(region, kShape);
  auto ring = MakeProgressConsumer(mover.get(), kShape).value();
  const char* const begin = MessagesOf(mover->local());
  std::vector<uint64_t> ends;
  uint64_t sum = 0, taken = 0;
  bool failed = false;
  char text[512] = "request";
  for (int step = 0; step < 300 && !in.empty(); ++step) {
    switch (in.Byte() % 5) {
      case 0:
      case 1: {
        const size_t n = in.Byte() * 2u;
        const PushResult result =
            producer.TryPush(1 + in.Byte() % 3, {text, 8}, {text, n}, uint64_t{8} << in.Byte() % 6);
        FUZZ_CHECK(result == PushResult::kDone || result == PushResult::kRetry);
        break;
      }
      case 2:
        Lie(in, region, kShape.capacity, taken);
        break;
      case 3: {
        const auto some = ring.Fetch();
        if (!some.ok()) {
          FUZZ_CHECK(ring.corrupt());
          failed = true;
        }
        FUZZ_CHECK(some.ok() || !ring.Fetch().ok());
        if (!some.ok()) break;
        FUZZ_CHECK(!failed);
        int messages = 0;
        for (RingMessage m; ring.Next(&m);) {
          FUZZ_CHECK(++messages <= static_cast<int>(kShape.capacity / 8));
          FUZZ_CHECK(m.kind != kPadding);
          FUZZ_CHECK(m.data >= begin && m.data <= begin + kShape.capacity);
          FUZZ_CHECK(m.length <= static_cast<uint64_t>(begin + kShape.capacity - m.data));
          for (uint32_t i = 0; i < m.length; ++i) sum += static_cast<uint8_t>(m.data[i]);
          FUZZ_CHECK(m.end > taken && m.end - taken <= kShape.capacity);
          taken = m.end;
          ends.push_back(m.end);
        }
        FUZZ_CHECK(ring.outstanding() <= kShape.capacity);
        break;
      }
      default: {
        const size_t n = std::min<size_t>(in.Byte(), ends.size());
        if (n > 0) ring.Release(ends[n - 1]);
        ends.erase(ends.begin(), ends.begin() + static_cast<ptrdiff_t>(n));
      }
    }
  }
  FUZZ_CHECK(sum < ~uint64_t{0});
}

void FuzzResponses(Input& in) {
  static auto* const memory = new Memory(ResponseBytes(kResponses));
  auto mover = memory->MakeMover(in.Byte() % 2 == 0, ResponseBytes(kResponses));
  char* region = memory->region.data();
  auto agent = MakeResponseBuffer(mover.get(), kResponses).value();
  auto host = MakeResponseReader(region, kResponses);
  char* const begin = MessagesOf(mover->local());
  const char* const host_begin = MessagesOf(region);
  std::vector<Reservation> open;
  uint64_t next = 0, sum = 0;
  for (int step = 0; step < 300 && !in.empty(); ++step) {
    switch (in.Byte() % 6) {
      case 0:
      case 1: {
        Reservation r;
        const uint64_t bytes = in.Evil(256);
        if (!agent->Allocate(next, 1, bytes, &r, uint64_t{8} << in.Byte() % 6)) break;
        ++next;
        FUZZ_CHECK(r.data >= begin && r.data <= begin + kResponses.capacity);
        FUZZ_CHECK(bytes <= static_cast<uint64_t>(begin + kResponses.capacity - r.data));
        std::memset(r.data, 'd', bytes);
        open.push_back(r);
        FUZZ_CHECK(open.size() <= kResponses.slots);
        break;
      }
      case 2: {
        if (open.empty()) break;
        const size_t at = in.Byte() % open.size();
        agent->Finish(open[at].ticket, in.Byte());
        open.erase(open.begin() + static_cast<ptrdiff_t>(at));
        break;
      }
      case 3:
        FUZZ_CHECK(agent->Deliver(in.Byte() % 2 == 0).ok());
        break;
      case 4:
        Lie(in, region, ResponseBytes(kResponses) - wire::kPage, next);
        break;
      default: {
        TakenResponse t;
        if (!host->Take(&t)) break;
        FUZZ_CHECK(t.data >= host_begin && t.data <= host_begin + kResponses.capacity);
        FUZZ_CHECK(t.capacity <= static_cast<uint64_t>(host_begin + kResponses.capacity - t.data));
        for (uint64_t i = 0; i < t.capacity; ++i) sum += static_cast<uint8_t>(t.data[i]);
        host->Done(t.ticket);
      }
    }
    FUZZ_CHECK(agent->undelivered() <= kResponses.slots);
  }
  for (const Reservation& r : open) agent->Finish(r.ticket, 0);
  FUZZ_CHECK(agent->in_flight() == 0 && agent->Deliver(true).ok() && agent->undelivered() == 0);
  FUZZ_CHECK(sum < ~uint64_t{0});
}

void FuzzFlags(Input& in) {
  static auto* const memory = new Memory(RingBytes(kFarm));
  auto mover = memory->MakeMover(in.Byte() % 2 == 0, RingBytes(kFarm));
  char* region = memory->region.data();
  FarmProducer producer(region, kFarm);
  auto ring = MakeFarmConsumer(mover.get(), kFarm).value();
  uint64_t sum = 0;
  char text[64] = "request";
  for (int step = 0; step < 300 && !in.empty(); ++step) {
    switch (in.Byte() % 3) {
      case 0:
        producer.TryPush(1, {text, in.Byte() % 60u});
        break;
      case 1:
        Lie(in, region, kFarm.slots * sizeof(FarmSlot), in.Byte());
        break;
      default: {
        RingMessage m;
        const auto some = ring.Fetch(&m);
        if (!some.ok()) return;
        if (!*some) break;
        FUZZ_CHECK(m.length <= FarmSlot::kPayload);
        for (uint32_t i = 0; i < m.length; ++i) sum += static_cast<uint8_t>(m.data[i]);
        FUZZ_CHECK(ring.Release().ok());
      }
    }
  }
  FUZZ_CHECK(sum < ~uint64_t{0});
}

}  // namespace
}  // namespace pulse

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  switch (in.Byte() % 4) {
    case 0:
      pulse::FuzzResponses(in);
      break;
    case 1:
      pulse::FuzzFlags(in);
      break;
    default:
      pulse::FuzzRequests(in);
  }
  return 0;
}
