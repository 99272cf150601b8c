#include "services/kv/client/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "services/kv/core/hash.h"
#include "services/kv/shm/attach.h"

namespace pulse::kv {
namespace {

static_assert(int{PULSE_KV_OK} == static_cast<int>(WireStatus::kOk) &&
              int{PULSE_KV_NOT_FOUND} == static_cast<int>(WireStatus::kNotFound) &&
              int{PULSE_KV_NO_MEMORY} == static_cast<int>(WireStatus::kNoMemory) &&
              int{PULSE_KV_TOO_LARGE} == static_cast<int>(WireStatus::kTooLarge) &&
              int{PULSE_KV_REFUSED} == static_cast<int>(WireStatus::kMalformed));

// For how long it looks for answers before it sleeps, and looks between two looks at the clock.
constexpr int64_t kSpinNanos = 50'000;
constexpr int kLooks = 16;
// Polls in vain until it asks the kernel whether the server lives.
constexpr uint32_t kEmptyPolls = 256;

}  // namespace

int ShmClient::CodeOfOpening(const absl::Status& status) {
  switch (ErrnoOf(status)) {
    case EUSERS:
      return PULSE_KV_CLIENTS;
    case EPROTONOSUPPORT:
      return PULSE_KV_VERSION;
    default:
      break;
  }
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return PULSE_KV_OK;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnavailable:
      return PULSE_KV_NO_SERVER;
    case absl::StatusCode::kPermissionDenied:
      return PULSE_KV_DENIED;
    case absl::StatusCode::kDeadlineExceeded:
      return PULSE_KV_TIMEOUT;
    case absl::StatusCode::kInvalidArgument:
      return PULSE_KV_INVALID;
    case absl::StatusCode::kFailedPrecondition:
      return PULSE_KV_VERSION;
    default:
      return PULSE_KV_SYSTEM;
  }
}

absl::StatusOr<std::unique_ptr<ShmClient>> ShmClient::Open(const std::string& path,
                                                           int timeout_ms) {
  const int64_t deadline = NowNanos() + int64_t{timeout_ms} * 1'000'000;
  AttachOptions options;
  options.path = path;
  options.start = "pulse kv --shm";
  options.service = kShmService;
  options.version = kShmVersion;
  options.least_bytes = sizeof(ShmHeader);
  PULSE_ASSIGN_OR_RETURN(Attachment made, AttachTo(options, timeout_ms, deadline));
  ShmFacts facts;
  std::memcpy(&facts, made.region.data(), sizeof(facts));
  if (!facts.Valid() || facts.bytes() != made.bytes) {
    return NotAServer("its memory makes no sense");
  }
  std::unique_ptr<ShmClient> client(
      new ShmClient(facts, timeout_ms, std::move(made.socket), std::move(made.region)));
  auto* header = reinterpret_cast<ShmHeader*>(client->region_.data());
  client->notify_ = Doorbell(std::move(made.notify.sleep), &header->client_waiting.value);
  for (uint32_t i = 0; i < facts.threads; ++i) {
    PULSE_ASSIGN_OR_RETURN(UniqueFd kick, ReceiveKick(client->socket_.get(), deadline));
    client->kicks_.emplace_back(std::move(kick), &header->server_sleeping[i].value);
  }
  for (uint32_t p = 0; p < facts.partitions; ++p) {
    client->queues_.emplace_back(facts, client->region_.data() + ShmQueueOffset(facts, p),
                                 &client->kicks_[p % facts.threads]);
  }
  return client;
}

ShmClient::ShmClient(const ShmFacts& facts, int timeout_ms, UniqueFd socket, Region region)
    : facts_(facts),
      timeout_ms_(timeout_ms),
      socket_(std::move(socket)),
      region_(std::move(region)),
      set_bytes_(facts.buffer_bytes - RequestWriter::PayloadBegin(facts.batch)),
      get_bytes_(facts.buffer_bytes - sizeof(BatchHeader) -
                 facts.batch * sizeof(ResponseDescriptor)),
      spin_(kSpinNanos) {}

ShmClient::Queue::Queue(const ShmFacts& facts, char* memory, Doorbell* of_server)
    : pair(facts.queue(), memory),
      kick(of_server),
      tags(std::bit_ceil(size_t{facts.slots} * facts.batch)),
      sizes(facts.slots) {}

int ShmClient::Submit(WireOp op, std::string_view key, std::string_view value, uint64_t ttl_ms,
                      uint64_t tag) {
  if (lost_) return PULSE_KV_LOST;
  if (key.size() > UINT16_MAX || value.size() > set_bytes_ ||
      key.size() > set_bytes_ - value.size()) {
    return PULSE_KV_TOO_LARGE;
  }
  if (ttl_ms > INT64_MAX / 2) return PULSE_KV_INVALID;
  const uint64_t hash = HashKey(key, facts_.hash_seed);
  Queue& queue = queues_[PartitionOf(hash, facts_.partitions)];
  for (int tries = 0; tries < 2; ++tries) {
    if (!queue.writer.has_value()) {
      if (!queue.pair.HasRoom()) return PULSE_KV_BUSY;
      queue.writer.emplace(queue.pair.BeginRequests());
    }
    if (queue.writer->Add(op, key, hash, value, static_cast<int64_t>(ttl_ms), kTtl)) {
      queue.TagOf(queue.requests++) = tag;
      ++outstanding_;
      if (queue.writer->count() == facts_.batch) Submit(&queue);
      return PULSE_KV_OK;
    }
    Submit(&queue);  // an empty one takes it
  }
  return PULSE_KV_BUSY;
}

void ShmClient::Submit(Queue* queue) {
  queue->sizes[queue->batches++ & (facts_.slots - 1)] =
      static_cast<uint32_t>(queue->writer->count());
  queue->writer->Finish();
  queue->writer.reset();
  queue->pair.Submit();
  queue->kick->Ring();
}

int ShmClient::Flush() {
  if (lost_) return PULSE_KV_LOST;
  for (Queue& queue : queues_) {
    if (queue.writer.has_value()) Submit(&queue);
  }
  return PULSE_KV_OK;
}

void ShmClient::ReleaseTaken() {
  for (Queue& queue : queues_) {
    if (queue.responses == nullptr || queue.read < queue.readable) continue;
    queue.responses = nullptr;
    queue.pair.TakeResponses(queue.left == 0);
    // The server may be waiting for room for the next part.
    if (queue.left > 0) queue.kick->Ring();
  }
}

int ShmClient::Lose() {
  lost_ = true;
  return PULSE_KV_LOST;
}

int ShmClient::FindResponses(Queue* queue) {
  switch (queue->pair.FindResponses(&queue->responses)) {
    case QueuePair::Found::kNothing:
      return PULSE_KV_OK;
    case QueuePair::Found::kCorrupt:
      return Lose();
    case QueuePair::Found::kBatch:
      break;
  }
  if (queue->left == 0) {
    const uint64_t oldest = queue->batches - queue->pair.outstanding();
    queue->left = queue->sizes[oldest & (facts_.slots - 1)];
  }
  const uint32_t count = ResponseReader(queue->responses, facts_.buffer_bytes).count();
  if (count == 0 || count > queue->left) return Lose();
  queue->left -= count;
  queue->read = 0;
  queue->readable = count;
  return PULSE_KV_OK;
}

int ShmClient::TakeFrom(Queue* queue, Completion* completions, size_t most, size_t* count) {
  if (queue->responses == nullptr) {
    if (queue->pair.outstanding() == 0) return PULSE_KV_OK;
    if (const int code = FindResponses(queue); code != PULSE_KV_OK) return code;
    if (queue->responses == nullptr) return PULSE_KV_OK;
  }
  const ResponseReader reader(queue->responses, facts_.buffer_bytes);
  for (; *count < most && queue->read < queue->readable; ++queue->read) {
    ResponseDescriptor d;
    std::string_view value;
    if (!reader.Read(queue->read, &d, &value) || d.status > WireStatus::kMalformed) return Lose();
    const uint64_t tag = queue->TagOf(queue->answered++);
    if (queue->abandoned > 0) {
      --queue->abandoned;
      continue;
    }
    --outstanding_;
    Completion& c = completions[(*count)++];
    c.tag = tag;
    c.value = d.status == WireStatus::kOk ? value.data() : nullptr;
    c.value_size = value.size();
    c.code = static_cast<int32_t>(d.status);
    c.zero = 0;
    if (d.status == WireStatus::kOk) continue;
    c.value_size = d.status == WireStatus::kTooLarge && d.value_size == 8 ? d.value : 0;
  }
  return PULSE_KV_OK;
}

int ShmClient::Poll(Completion* completions, size_t most, size_t* count) {
  *count = 0;
  if (lost_) return PULSE_KV_LOST;
  ReleaseTaken();
  if (const int code = Flush(); code != PULSE_KV_OK) return code;
  for (uint32_t i = 0; i < facts_.partitions && *count < most; ++i) {
    const int code = TakeFrom(&queues_[next_queue_], completions, most, count);
    if (++next_queue_ == facts_.partitions) next_queue_ = 0;
    // What was taken before is lost with it: nobody knows what a server that lies has written.
    if (code != PULSE_KV_OK) {
      *count = 0;
      return code;
    }
  }
  if (*count > 0 || most == 0) {
    empty_polls_ = 0;
  } else if (++empty_polls_ % kEmptyPolls == 0 && ServerIsGone()) {
    return Lose();
  }
  return PULSE_KV_OK;
}

bool ShmClient::HasResponses() {
  for (Queue& queue : queues_) {
    const char* responses = nullptr;
    if (queue.responses != nullptr ||
        queue.pair.FindResponses(&responses) != QueuePair::Found::kNothing) {
      return true;
    }
  }
  return false;
}

// The server says nothing more on the socket: whatever comes is its end. Its last answers may
// still be there.
bool ShmClient::ServerIsGone() {
  pollfd fd{socket_.get(), POLLIN, 0};
  return poll(&fd, 1, 0) > 0 && !HasResponses();
}

void ShmClient::SleepUntil(int64_t until) {
  notify_.PrepareSleep();
  if (!HasResponses()) {
    pollfd fds[] = {{notify_.fd(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    const int64_t left = std::max<int64_t>(0, until - NowNanos());
    // Rounded up; what interrupts it does no harm.
    poll(fds, 2, static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, INT32_MAX)));
  }
  notify_.FinishSleep();
}

int ShmClient::Wait(Completion* completions, size_t most, size_t* count, int64_t timeout_ms) {
  *count = 0;
  if (most == 0) return PULSE_KV_INVALID;
  const auto look = [&] { return Poll(completions, most, count); };
  int code = look();
  if (code != PULSE_KV_OK || *count > 0 || outstanding_ == 0) return code;
  const int64_t begin = NowNanos();
  const int64_t until = begin + timeout_ms * 1'000'000;
  int64_t now = begin;
  for (int64_t idle_since = begin;;) {
    for (int i = 0; i < kLooks; ++i) {
      code = look();
      if (code != PULSE_KV_OK || *count > 0) return code;
      CpuPause();
    }
    now = NowNanos();
    if (now >= until) return ServerIsGone() ? Lose() : PULSE_KV_TIMEOUT;
    if (now - idle_since < spin_.now()) continue;
    SleepUntil(until);
    idle_since = NowNanos();
    spin_.Slept(idle_since - now);
    if (ServerIsGone()) return Lose();
  }
}

int ShmClient::Call(WireOp op, std::string_view key, std::string_view value, uint64_t ttl_ms,
                    Completion* completion) {
  if (lost_) return PULSE_KV_LOST;
  if (outstanding_ > 0) return PULSE_KV_BUSY;
  ReleaseTaken();
  int code = Submit(op, key, value, ttl_ms, 0);
  size_t count = 0;
  if (code == PULSE_KV_BUSY) {
    // By calls that were not answered in time; perhaps they are now.
    code = Poll(completion, 1, &count);
    ReleaseTaken();
    if (code == PULSE_KV_OK) code = Submit(op, key, value, ttl_ms, 0);
    if (code == PULSE_KV_BUSY) return PULSE_KV_TIMEOUT;
  }
  if (code != PULSE_KV_OK) return code;
  code = Wait(completion, 1, &count, timeout_ms_);
  if (code == PULSE_KV_OK) return completion->code;
  if (code == PULSE_KV_TIMEOUT) {
    for (Queue& queue : queues_) queue.abandoned = queue.requests - queue.answered;
    outstanding_ = 0;
  }
  return code;
}

}  // namespace pulse::kv
