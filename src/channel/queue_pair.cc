#include "channel/queue_pair.h"

#include <new>

#include "absl/strings/str_cat.h"

namespace pulse {
namespace {

absl::Status CheckArena(uint64_t arena_bytes, size_t region_bytes) {
  if (arena_bytes < wire::kMinArenaBytes || arena_bytes > wire::kMaxArenaBytes ||
      arena_bytes % wire::kPage != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("queue of ", arena_bytes, " bytes; expected a multiple of ", wire::kPage,
                     " from ", wire::kMinArenaBytes, " to ", wire::kMaxArenaBytes));
  }
  if (region_bytes < QueueRegionBytes(arena_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("queue region of ", region_bytes,
                                                   " bytes is too small for an arena of ",
                                                   arena_bytes, " bytes"));
  }
  return absl::OkStatus();
}

wire::QueueHeader* HeaderOf(const Region& region, uint64_t arena_bytes) {
  return reinterpret_cast<wire::QueueHeader*>(region.data() + arena_bytes);
}

wire::Descriptor* DescriptorsOf(const Region& region, uint64_t arena_bytes) {
  return reinterpret_cast<wire::Descriptor*>(region.data() + arena_bytes + wire::kPage);
}

wire::Completion* CompletionsOf(const Region& region, uint64_t arena_bytes) {
  return reinterpret_cast<wire::Completion*>(region.data() + arena_bytes + wire::kPage +
                                             wire::kSubmissionSlots * sizeof(wire::Descriptor));
}

}  // namespace

absl::StatusOr<HostQueue> HostQueue::Init(const Region& region, uint32_t queue_id,
                                          uint64_t arena_bytes) {
  if (absl::Status st = CheckArena(arena_bytes, region.size()); !st.ok()) return st;
  wire::QueueHeader* h = new (HeaderOf(region, arena_bytes)) wire::QueueHeader();
  h->magic = wire::kRegionMagic;
  h->version = wire::kProtocolVersion;
  h->queue_id = queue_id;
  h->arena_bytes = arena_bytes;
  h->submission_slots = wire::kSubmissionSlots;
  h->completion_slots = wire::kCompletionSlots;
  HostQueue q;
  q.header_ = h;
  q.arena_ = region.data();
  q.arena_bytes_ = arena_bytes;
  q.id_ = queue_id;
  q.submissions_ =
      RingProducer<wire::Descriptor>(DescriptorsOf(region, arena_bytes), wire::kSubmissionSlots,
                                     &h->submission_head.value, &h->submission_tail.value);
  q.completions_ =
      RingConsumer<wire::Completion>(CompletionsOf(region, arena_bytes), wire::kCompletionSlots,
                                     &h->completion_head.value, &h->completion_tail.value);
  return q;
}

absl::StatusOr<AgentQueue> AgentQueue::Attach(const Region& region, uint64_t arena_bytes) {
  if (absl::Status st = CheckArena(arena_bytes, region.size()); !st.ok()) return st;
  wire::QueueHeader* h = HeaderOf(region, arena_bytes);
  if (h->magic != wire::kRegionMagic || h->version != wire::kProtocolVersion) {
    return absl::InvalidArgumentError("the queue region carries a wrong magic number or version");
  }
  if (h->arena_bytes != arena_bytes || h->submission_slots != wire::kSubmissionSlots ||
      h->completion_slots != wire::kCompletionSlots) {
    return absl::InvalidArgumentError("the queue region's geometry is not what was announced");
  }
  AgentQueue q;
  q.header_ = h;
  q.arena_ = region.data();
  q.arena_bytes_ = arena_bytes;
  q.submissions_ =
      RingConsumer<wire::Descriptor>(DescriptorsOf(region, arena_bytes), wire::kSubmissionSlots,
                                     &h->submission_head.value, &h->submission_tail.value);
  q.completions_ =
      RingProducer<wire::Completion>(CompletionsOf(region, arena_bytes), wire::kCompletionSlots,
                                     &h->completion_head.value, &h->completion_tail.value);
  return q;
}

}  // namespace pulse
