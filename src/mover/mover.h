// Mover: how payload crosses between the host's arena and memory that the agent can do I/O on.
//   shared  the agent maps the arena and does I/O straight from it; nothing is moved
//   vmread  process_vm_readv/writev into a mirror on the agent: one-sided, driven by the agent,
//   needing
//           nothing from the host; it stands for the DPU-driven DMA of PulseDB III-D
// A mover for RDMA implements the same interface; copies within one memory are copy_engine.h's.
//
// It moves payload, and, for the message rings (channel/message_ring.h), pointers too: words in
// shared memory that the agent reads and writes only through local() and a call. A call has a
// price, about that of a system call with `vmread`, nothing with `shared`; how many there are is
// what the rings are designed for.
//
// Owned by the agent, one per queue; used by that queue's worker thread only. Pull and Push block
// for the duration of the copy; StartPull and StartPush need not: they tell a time of arrival.
// Those of a link that cannot know it in advance would need completions, as CopyEngine has them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse {

enum class MoverKind { kShared, kVmRead };
absl::StatusOr<MoverKind> ParseMoverKind(absl::string_view name);
absl::string_view MoverName(MoverKind kind);

// A piece of the arena.
struct MoverSpan {
  uint64_t offset;
  uint64_t length;
};

// Whether every mover of this build reads one span in ascending order of addresses: on x86-64 the
// kernel's copy does, since loads are not reordered with each other there. Else words whose order
// counts must be spans of their own.
#if defined(__x86_64__)
inline constexpr bool kSpansReadAscending = true;
#else
inline constexpr bool kSpansReadAscending = false;
#endif

class Mover {
 public:
  static constexpr size_t kMaxSpans = 32;
  virtual ~Mover() = default;

  // The agent's memory for arena bytes [0, arena_bytes): where I/O happens. Page-aligned.
  virtual char* local() const = 0;
  virtual size_t size() const = 0;
  // Makes local()[offset, offset+length) hold what the host's arena holds there.
  virtual absl::Status Pull(uint64_t offset, uint64_t length) = 0;
  // Makes the host's arena hold what local() holds there.
  virtual absl::Status Push(uint64_t offset, uint64_t length) = 0;
  // Several spans, at most kMaxSpans, for the price of one call, each moved wholly before the next:
  // what is in a later span was read, or becomes visible, after what is in an earlier one. An empty
  // span is none. After an error any of them may have been moved.
  virtual absl::Status PullSpans(const MoverSpan* spans, size_t n);
  virtual absl::Status PushSpans(const MoverSpan* spans, size_t n);
  // Pull and Push for who need not wait: they begin the move, and say when it will be done
  // (NowNanos; 0 or gone by: it is). Until then local(), or the host's arena, must not be relied
  // on, nor changed. Movers without an engine of their own are done when they return.
  virtual absl::Status StartPull(uint64_t offset, uint64_t length, int64_t* there_at);
  virtual absl::Status StartPush(uint64_t offset, uint64_t length, int64_t* there_at);
  virtual MoverKind kind() const = 0;

  // `arena` is mapped by the agent and must outlive the mover.
  static std::unique_ptr<Mover> CreateShared(char* arena, size_t bytes);
  // `peer_address` is where process `peer` maps its arena. PermissionDenied when ptrace rules
  // forbid reading that process.
  static absl::StatusOr<std::unique_ptr<Mover>> CreateVmRead(pid_t peer, uint64_t peer_address,
                                                             size_t bytes);
};

}  // namespace pulse
