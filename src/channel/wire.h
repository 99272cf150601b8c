// What both sides of the channel agree on: the layout of shared memory and of control messages.
// docs/reference/protocol.md describes the same in prose; a change here raises kProtocolVersion.
//
// Rules: fixed-width fields, offsets and never pointers, one cache line per writer. The peer is
// untrusted: copy a value out of shared memory once, check the copy, use the copy.
//
// Implements the queue layout of PulseDB III-D (request queue with payload, completion queue).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pulse::wire {

inline constexpr uint64_t kRegionMagic = 0x31304244'45534c50;  // "PLSEDB01", little-endian
inline constexpr uint32_t kMessageMagic = 0x4d534c50;          // "PLSM"
inline constexpr uint32_t kProtocolVersion = 6;

inline constexpr size_t kCacheLine = 64;
inline constexpr size_t kPage = 4096;

// A queue region is [arena: arena_bytes][meta: kMetaBytes]. The arena comes first so that it can
// sit on huge pages. Meta is [QueueHeader: one page][descriptors][completions].
inline constexpr size_t kMetaBytes = size_t{1} << 20;
inline constexpr uint32_t kSubmissionSlots = 1024;
inline constexpr uint32_t kCompletionSlots = 16384;
inline constexpr uint64_t kMinArenaBytes = uint64_t{64} << 10;
inline constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 30;

// One request, host to agent. Opcodes and the use of `aux` belong to the service.
struct Descriptor {
  uint32_t opcode;
  uint32_t flags;
  uint32_t file;  // service-level file number, unique within the session
  uint32_t reserved;
  uint64_t tag;  // returned in the completion
  uint64_t file_offset;
  uint64_t arena_offset;  // first payload byte, from the start of the arena
  uint64_t length;        // bytes of payload
  uint64_t position;      // free-running arena position just past the payload, for reclaiming
  uint64_t aux;
};
static_assert(sizeof(Descriptor) == 64 && std::is_trivially_copyable_v<Descriptor>);
static_assert(offsetof(Descriptor, tag) == 16 && offsetof(Descriptor, aux) == 56);

// One result, agent to host.
struct Completion {
  uint64_t tag;
  int64_t result;  // bytes or 0; -errno on failure
  uint32_t opcode;
  uint32_t file;
  uint64_t aux;
};
static_assert(sizeof(Completion) == 32 && std::is_trivially_copyable_v<Completion>);

template <typename T>
struct alignas(kCacheLine) Line {
  std::atomic<T> value;
};
static_assert(sizeof(Line<uint64_t>) == kCacheLine);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<uint32_t>::is_always_lock_free);

struct QueueHeader {
  // Written once by the host before the region is offered.
  alignas(kCacheLine) uint64_t magic;
  uint32_t version;
  uint32_t queue_id;
  uint64_t arena_bytes;
  uint32_t submission_slots;
  uint32_t completion_slots;
  // All counters are free-running.
  Line<uint64_t> submission_tail;  // host
  Line<uint64_t> submission_head;  // agent
  Line<uint64_t> completion_tail;  // agent
  Line<uint64_t> completion_head;  // host
  Line<uint64_t> reclaimed;        // agent: arena bytes that the host may overwrite
};
static_assert(sizeof(QueueHeader) == 6 * kCacheLine && sizeof(QueueHeader) <= kPage);
static_assert(kPage + kSubmissionSlots * sizeof(Descriptor) +
                  kCompletionSlots * sizeof(Completion) <=
              kMetaBytes);

// One page per session: the two sleep flags and the agent's sign of life.
struct ControlPage {
  alignas(kCacheLine) uint64_t magic;
  uint32_t version;
  uint32_t reserved;
  Line<uint32_t> agent_sleeping;  // agent sets, host clears and kicks
  Line<uint32_t> host_waiting;    // host sets, agent clears and notifies
  Line<uint64_t> agent_progress;  // agent: grows while it works
  Line<uint32_t> urgent;    // host: somebody waits for completions (PulseDB's progress message)
  Line<uint32_t> pressure;  // host: how much its work waits for the agent's; see PressureWord
};
static_assert(sizeof(ControlPage) == 6 * kCacheLine && sizeof(ControlPage) <= kPage);
static_assert(offsetof(ControlPage, pressure) == 320);

// The word `pressure`: a level in the low bits, and above it a count that grows each time the host
// sees the level again. The agent forgets a level whose word has not changed for some seconds, so a
// host that is stopped or gone leaves nothing behind.
inline constexpr uint32_t kPressureNone = 0, kPressureDelayed = 1, kPressureStopped = 2;
inline constexpr uint32_t kPressureLevelBits = 2;
inline constexpr uint32_t PressureLevel(uint32_t word) {
  return word & ((1U << kPressureLevelBits) - 1);
}
inline constexpr uint32_t PressureWord(uint32_t level, uint32_t count) {
  return count << kPressureLevelBits | level;
}

// What the host tells of itself, for people who watch (pulse top): the second half of the control
// page. Nobody acts on it. Which number is what, and what the names name, is the service's to say
// (agent/service_spec.h); only the first is the same for all: CLOCK_MONOTONIC of the writing.
inline constexpr size_t kHostNumbersOffset = 2048;
inline constexpr size_t kHostNumbers = 63;
inline constexpr size_t kHostNames = 1024;  // bytes
struct HostNumbers {
  // Odd while the host writes, and grows with each writing; 0: never written.
  alignas(kCacheLine) std::atomic<uint64_t> sequence;
  std::atomic<uint64_t> numbers[kHostNumbers];
  // Each ended by a zero byte; what has no room is left out.
  std::atomic<uint64_t> names[kHostNames / sizeof(uint64_t)];
};
static_assert(sizeof(HostNumbers) == 1536 && kHostNumbersOffset % kCacheLine == 0 &&
              kHostNumbersOffset + sizeof(HostNumbers) <= kPage);

// Control messages over the Unix socket (SOCK_SEQPACKET), all of one size.
enum class MessageType : uint32_t {
  // host: args {pid, service, mover (0 agent's, 1 shared, 2 vmread), version of the service},
  // descriptors {control, notify: the ring end of the host's doorbell}. A host of an early release
  // sends no version, which counts as 1.
  kHello = 1,
  // agent: status, args {max queues, max arena bytes, pid, engine, two facts of the service's},
  // text,
  // descriptor {kick: the ring end of the agent's doorbell}
  kHelloAck = 2,
  kAttachQueue = 3,  // host: args {queue id, arena bytes, arena address}, descriptor {region}
  kAttachAck = 4,    // agent: status, args {queue id}, text
  kFile = 5,         // host: args {file}, descriptor {file}; no answer
  // host: a message group (group_wire.h): args {group, request bytes, response bytes, requests,
  // address}, descriptors {region, notify}; answered by kAttachAck {group, alignment}
  kAttachGroup = 6,
  // host: a question of the service's own: args {number, ...}, descriptors as the service says
  kService = 7,
  kServiceAck = 8,  // agent: status, args {number, ...}, text
  kStatus = 32,     // anybody, instead of a hello: what the agent does; no arguments
  kStatusAck = 33,  // agent: status, args {bytes}, text, descriptor {memory with the answer, JSON}
};

struct Message {
  uint32_t magic;
  uint32_t version;
  uint32_t type;
  int32_t status;  // 0 or an errno
  uint64_t args[6];
  char text[192];  // for people; zero-terminated
};
static_assert(sizeof(Message) == 256 && std::is_trivially_copyable_v<Message>);

}  // namespace pulse::wire
