// Of KvStore: where items lie, by design, and moving them while clients are served.
#include <chrono>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/kv/held.h"
#include "services/kv/store.h"
#include "services/redis/commands/handlers.h"

namespace pulse::kv {
namespace {

// Between two pages: others get the partition's lock.
constexpr auto kPause = std::chrono::microseconds(100);

}  // namespace

bool KvStore::IsOnAgent(std::string_view design, size_t shard) const {
  if (redis::EqualsIgnoringCase(design, "dpu")) return true;
  // The half whose loops Designs has there.
  return redis::EqualsIgnoringCase(design, "shrd") && shards_.size() > 1 &&
         shard >= shards_.size() / 2;
}

absl::Status KvStore::CheckItems(std::string_view design) const {
  if (file_ != nullptr) return absl::OkStatus();
  const auto cannot_run = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("design '", redis::AbslOf(design), "' cannot run here: ", why));
  };
  uint64_t needed = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Partition& partition = *shards_[i].partition;
    const bool on_agent = IsOnAgent(design, i);
    if (on_agent) needed += partition.limit_bytes();
    // Of a transaction, which has it: nobody else would be served for as long as it takes.
    if (Held::IsHere(this, i) && partition.side() != (on_agent ? Side::kAgent : Side::kHost)) {
      return cannot_run("items would have to move, and cannot within MULTI; send it by itself");
    }
  }
  const uint64_t has =
      options_.agent_memory_bytes == 0 ? options_.memory_bytes : options_.agent_memory_bytes;
  if (needed <= has) return absl::OkStatus();
  return cannot_run(absl::StrCat("its items may take ", needed >> 20,
                                 " MiB of the agent's memory, which has ", has >> 20,
                                 " MiB; start with more --agent-memory, or less --memory"));
}

absl::Status KvStore::SetDesign(std::string_view design) {
  const std::unique_lock<std::mutex> lock(design_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    return absl::UnavailableError(
        absl::StrCat("another change of the design is under way (items_moving in INFO KV); ",
                     DesignName(), " stays in force until it is done"));
  }
  if (const absl::Status status = MoveItems(design); !status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), ". ", DesignName(),
                     " stays in force; items that have moved stay there until the next change"));
  }
  const absl::Status set = options_.designs->Set(design);
  if (set.ok()) return set;
  return absl::Status(set.code(), absl::StrCat(set.message(), "; ", DesignName(),
                                               " stays in force, and items that have moved stay "
                                               "where they are until the next change"));
}

absl::Status KvStore::MoveItems(std::string_view design) {
  if (file_ != nullptr) return absl::OkStatus();
  items_moving_ = true;
  const absl::Cleanup done = [this] { items_moving_ = false; };
  // What leaves the agent first, as it makes room there.
  for (const bool to_agent : {false, true}) {
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (IsOnAgent(design, i) != to_agent) continue;
      while (true) {
        {
          std::unique_lock<std::mutex> lock(shards_[i].mutex, std::defer_lock);
          // Of a transaction: CheckItems has seen that there is nothing to move.
          if (!Held::IsHere(this, i)) lock.lock();
          PULSE_ASSIGN_OR_RETURN(const bool moved, shards_[i].partition->MoveNext(to_agent));
          if (!moved) break;
        }
        // The server stops, and waits for this thread.
        if (!options_.designs->Check("cpu").ok()) {
          return absl::UnavailableError("the server stops");
        }
        std::this_thread::sleep_for(kPause);
      }
    }
  }
  return absl::OkStatus();
}

void KvStore::AddItemsInfo(const Place& place, std::string* out) const {
  uint64_t bytes = 0;
  bool on_host = false;
  bool on_agent = false;
  for (uint32_t i = place.begin(); i < place.end(); ++i) {
    std::unique_lock<std::mutex> lock(shards_[i].mutex, std::defer_lock);
    if (!Held::IsHere(this, i)) lock.lock();
    const Side side = shards_[i].partition->side();
    on_host |= side != Side::kAgent;
    on_agent |= side != Side::kHost;
    bytes += shards_[i].partition->agent_bytes();
  }
  const absl::string_view where = file_ != nullptr      ? "file"
                                  : on_host && on_agent ? "both"
                                  : on_agent            ? "agent"
                                                        : "host";
  absl::StrAppend(out, "items_in:", where, "\r\n");
  // On a DPU, whose memory goes with it. Here all goes with this process.
  if (file_ == nullptr) absl::StrAppend(out, "items_lost_with:", where, "\r\n");
  absl::StrAppend(out, "agent_items_bytes:", bytes, "\r\n");
  absl::StrAppend(out, "items_moving:", items_moving_ ? 1 : 0, "\r\n");
}

}  // namespace pulse::kv
