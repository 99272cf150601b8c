#include "services/kv/client/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
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
#include "base/file_calls.h"
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
// Of the far memory, that stays when it is not used.
constexpr uint64_t kFarKept = uint64_t{1} << 20;

// A write beyond it would end the program by a signal.
uint64_t FileSizeLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

constexpr char kFarMemory[] = "far memory";

// All of it; false: the system has no memory left, or the program's files may not be so large.
bool WriteFar(int fd, std::string_view bytes) {
  return bytes.size() <= FileSizeLimit() &&
         WriteAt(fd, {bytes.data(), bytes.size()}, 0, kFarMemory).ok();
}

bool ReadFar(int fd, char* to, size_t size) {
  const auto n = ReadAt(fd, to, size, 0, "reading", kFarMemory);
  return n.ok() && *n == size;
}

// So that nobody else has to make the pages.
bool MakePages(int fd, size_t size) {
  for (;;) {
    if (fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace

int ShmClient::CodeOfOpening(const absl::Status& status) {
  switch (ErrnoOf(status)) {
    case EUSERS:
      return PULSE_KV_CLIENTS;
    case EPROTOTYPE:  // a socket of another service
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
  const uint64_t far_bytes = std::min(kShmFarBytes, FileSizeLimit() / wire::kPage * wire::kPage);
  PULSE_ASSIGN_OR_RETURN(UniqueFd far, Region::CreateFile(far_bytes));
  options.own_memory = far.get();
  PULSE_ASSIGN_OR_RETURN(Attachment made, AttachTo(options, timeout_ms, deadline));
  ShmFacts facts;
  std::memcpy(&facts, made.region.data(), sizeof(facts));
  if (!facts.Valid() || facts.bytes() != made.bytes) {
    return NotAServer("its memory makes no sense");
  }
  std::unique_ptr<ShmClient> client(new ShmClient(facts, timeout_ms, std::move(made.socket),
                                                  std::move(made.region), std::move(far),
                                                  far_bytes));
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

ShmClient::ShmClient(const ShmFacts& facts, int timeout_ms, UniqueFd socket, Region region,
                     UniqueFd far, uint64_t far_bytes)
    : facts_(facts),
      timeout_ms_(timeout_ms),
      socket_(std::move(socket)),
      region_(std::move(region)),
      set_bytes_(facts.buffer_bytes - RequestWriter::PayloadBegin(facts.batch)),
      get_bytes_(facts.buffer_bytes - sizeof(BatchHeader) -
                 facts.batch * sizeof(ResponseDescriptor)),
      spin_(kSpinNanos) {
  far_.fd = std::move(far);
  far_.bytes = far_bytes;
}

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
  return SubmitBy(key, tag, [&](Queue* queue, uint64_t hash) {
    return queue->writer->Add(op, key, hash, value, static_cast<int64_t>(ttl_ms), kTtl);
  });
}

template <class AddTo>
int ShmClient::SubmitBy(std::string_view key, uint64_t tag, const AddTo& add) {
  const uint64_t hash = HashKey(key, facts_.hash_seed);
  Queue& queue = queues_[PartitionOf(hash, facts_.partitions)];
  for (int tries = 0; tries < 2; ++tries) {
    if (!queue.writer.has_value()) {
      if (!queue.pair.HasRoom()) return PULSE_KV_BUSY;
      queue.writer.emplace(queue.pair.BeginRequests());
    }
    if (add(&queue, hash)) {
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
    const bool is_far = (d.flags & kFar) != 0;
    if (is_far && (d.status != WireStatus::kOk || queue != far_.queue ||
                   queue->answered != far_.request || d.value_size > far_.room)) {
      return Lose();
    }
    const uint64_t tag = queue->TagOf(queue->answered++);
    if (far_.to_trim) TrimFar();
    if (queue->abandoned > 0) {
      --queue->abandoned;
      continue;
    }
    --outstanding_;
    Completion& c = completions[(*count)++];
    c.tag = tag;
    c.value = d.status == WireStatus::kOk && !is_far ? value.data() : nullptr;
    c.value_size = is_far ? d.value_size : value.size();
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
  return CallBy([&] { return Submit(op, key, value, ttl_ms, 0); }, timeout_ms_, completion);
}

template <class Send>
int ShmClient::CallBy(const Send& send, int64_t timeout_ms, Completion* completion) {
  if (lost_) return PULSE_KV_LOST;
  if (outstanding_ > 0) return PULSE_KV_BUSY;
  ReleaseTaken();
  int code = send();
  size_t count = 0;
  if (code == PULSE_KV_BUSY) {
    // By calls that were not answered in time: it waits until they are.
    const int64_t deadline = NowNanos() + timeout_ms * 1'000'000;
    while (true) {
      code = Poll(completion, 1, &count);
      ReleaseTaken();
      if (code == PULSE_KV_OK) code = send();
      if (code != PULSE_KV_BUSY) break;
      if (NowNanos() >= deadline) return PULSE_KV_TIMEOUT;
      SleepUntil(deadline);
      if (ServerIsGone()) return Lose();
    }
    timeout_ms = std::max<int64_t>(0, (deadline - NowNanos()) / 1'000'000);
  }
  if (code != PULSE_KV_OK) return code;
  code = Wait(completion, 1, &count, timeout_ms);
  if (code == PULSE_KV_OK) return completion->code;
  if (code == PULSE_KV_TIMEOUT) {
    for (Queue& queue : queues_) queue.abandoned = queue.requests - queue.answered;
    outstanding_ = 0;
  }
  return code;
}

int64_t ShmClient::Deadline() const { return NowNanos() + int64_t{timeout_ms_} * 1'000'000; }

int ShmClient::AwaitFar(int64_t deadline) {
  while (far_.IsBusy()) {
    Completion none;
    size_t count = 0;
    if (const int code = Poll(&none, 1, &count); code != PULSE_KV_OK) return code;
    if (!far_.IsBusy()) break;
    if (NowNanos() >= deadline) return PULSE_KV_TIMEOUT;
    ReleaseTaken();
    SleepUntil(deadline);
    if (ServerIsGone()) return Lose();
  }
  return PULSE_KV_OK;
}

int ShmClient::CallFar(WireOp op, std::string_view key, size_t size, uint64_t ttl_ms,
                       int64_t deadline, Completion* completion) {
  const int64_t left_ms = (deadline - NowNanos()) / 1'000'000;
  const auto send = [&] {
    return SubmitBy(key, 0, [&](Queue* queue, uint64_t hash) {
      if (!queue->writer->AddFar(op, key, hash, size, static_cast<int64_t>(ttl_ms), kTtl)) {
        return false;
      }
      far_.queue = queue;
      far_.request = queue->requests;
      far_.room = op == WireOp::kGet ? size : 0;
      return true;
    });
  };
  return CallBy(send, std::max<int64_t>(left_ms, 0), completion);
}

void ShmClient::TrimFar() {
  far_.to_trim = far_.IsBusy();
  if (far_.to_trim) return;
  // Where that fails it stays until the client ends.
  (void)fallocate(far_.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kFarKept,
                  static_cast<off_t>(kShmFarBytes - kFarKept));  // of which a file may have less
}

int ShmClient::Set(std::string_view key, std::string_view value, uint64_t ttl_ms) {
  Completion done{};
  if (value.size() <= set_bytes_ && key.size() <= set_bytes_ - value.size()) {
    return Call(WireOp::kSet, key, value, ttl_ms, &done);
  }
  if (lost_) return PULSE_KV_LOST;
  if (outstanding_ > 0) return PULSE_KV_BUSY;
  if (key.size() > std::min<size_t>(UINT16_MAX, set_bytes_) || value.size() > kShmFarBytes) {
    return PULSE_KV_TOO_LARGE;
  }
  if (ttl_ms > INT64_MAX / 2) return PULSE_KV_INVALID;
  if (value.size() > far_.bytes) return PULSE_KV_SYSTEM;
  const int64_t deadline = Deadline();
  int code = AwaitFar(deadline);
  if (code != PULSE_KV_OK) return code;
  code = WriteFar(far_.fd.get(), value)
             ? CallFar(WireOp::kSet, key, value.size(), ttl_ms, deadline, &done)
             : PULSE_KV_SYSTEM;
  TrimFar();
  return code;
}

int ShmClient::GetFar(std::string_view key, size_t room, int64_t deadline, Completion* got) {
  const size_t most = std::min<size_t>(room, kShmFarBytes);
  for (size_t wanted = got->value_size;;) {
    if (wanted > far_.bytes) return PULSE_KV_SYSTEM;
    if (const int code = AwaitFar(deadline); code != PULSE_KV_OK) return code;
    // The pages are this process's, and not the server's, who would write there first.
    if (!MakePages(far_.fd.get(), wanted)) return PULSE_KV_SYSTEM;
    const int code = CallFar(WireOp::kGet, key, wanted, 0, deadline, got);
    if (code != PULSE_KV_TOO_LARGE || got->value_size > most) return code;
    if (got->value_size <= wanted) return Lose();  // there was room
    // It has grown meanwhile, and may go on.
    if (NowNanos() >= deadline) return PULSE_KV_TIMEOUT;
    wanted = std::min<size_t>({got->value_size + got->value_size / 8, most, far_.bytes});
    wanted = std::max<size_t>(wanted, got->value_size);
  }
}

int ShmClient::Get(std::string_view key, char* value, size_t room, size_t* size) {
  // The clock is read for those alone who have room for more.
  const int64_t deadline = room > get_bytes_ ? Deadline() : 0;
  Completion got{};
  int code = Call(WireOp::kGet, key, {}, 0, &got);
  const bool is_far =
      code == PULSE_KV_TOO_LARGE && got.value_size > get_bytes_ && got.value_size <= room;
  if (is_far) code = GetFar(key, room, deadline, &got);
  *size = code == PULSE_KV_OK || code == PULSE_KV_TOO_LARGE ? got.value_size : 0;
  if (code == PULSE_KV_OK && *size > room) code = PULSE_KV_TOO_LARGE;
  if (code == PULSE_KV_OK && got.value == nullptr) {
    if (!ReadFar(far_.fd.get(), value, *size)) code = PULSE_KV_SYSTEM;
  } else if (code == PULSE_KV_OK && *size > 0) {
    std::memcpy(value, got.value, *size);
  }
  if (is_far) TrimFar();
  return code;
}

}  // namespace pulse::kv
