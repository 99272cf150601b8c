#include "services/ops/library/agent_lanes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::ops {
namespace {

std::string KeyOf(const EngineOrder& order) {
  return absl::StrCat(static_cast<int>(order.kind), "/", order.codec, "/", order.format, "/",
                      order.level, "/", order.portable ? 1 : 0, "/", order.chunk_bytes, "/",
                      order.text);
}

}  // namespace

class AgentLanes::Lane : public Engine {
 public:
  Lane(AgentLanes* owner, EngineTraits traits, const EngineOrder& order, MakeLocal make_local,
       uint64_t* fallen_back)
      : Engine(std::move(traits)),
        owner_(owner),
        order_(order),
        key_(KeyOf(order)),
        make_local_(std::move(make_local)),
        fallen_back_(fallen_back) {}

  absl::Status Process(int, const Chunk& chunk, Result& result) override {
    // For this chunk alone: lanes are kept for ever, and the agent has room for few engines.
    PULSE_ASSIGN_OR_RETURN(const Shared remote, owner_->Find(key_, order_, make_local_));
    if (remote != nullptr && !(owner_->lost() && owner_->host_may_)) {
      const absl::Status status = remote->Process(0, chunk, result);
      if (status.ok()) {
        owner_->done_.fetch_add(1, std::memory_order_relaxed);
        return status;
      }
      if (absl::IsUnavailable(status)) {
        owner_->Lose(status);
      } else if (!absl::IsUnimplemented(status)) {
        return status;  // about the chunk; the host has found the same
      }
      if (!owner_->host_may_) return status;
      result.Clear();
    }
    owner_->fallen_back_.fetch_add(1, std::memory_order_relaxed);
    ++*fallen_back_;
    if (local_ == nullptr) {
      PULSE_ASSIGN_OR_RETURN(local_, make_local_({traits().name, Side::kHost, 1, {}}));
    }
    return local_->Process(0, chunk, result);
  }

 private:
  AgentLanes* const owner_;
  const EngineOrder order_;
  const std::string key_;
  const MakeLocal make_local_;
  uint64_t* const fallen_back_;  // of the thread
  std::unique_ptr<Engine> local_;
};

void AgentLanes::Lose(const absl::Status& why) {
  if (lost_.exchange(true) || !host_may_) return;
  LogOnce("ops agent lost", absl::StrCat(why.message(), "; the host does all by itself"));
}

absl::StatusOr<AgentLanes::Shared> AgentLanes::Find(const std::string& key,
                                                    const EngineOrder& order,
                                                    const MakeLocal& local) {
  const std::lock_guard lock(mutex_);
  const auto it =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == key; });
  if (it != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, it);
    return kept_.front().second;
  }
  if (lost() && host_may_) return Shared();
  // First, so that the agent has room.
  if (kept_.size() >= kMostKept) kept_.pop_back();
  auto made = agent_->Make(order, {"agent", Side::kAgent, 1, {}}, local);
  if (!made.ok()) {
    if (absl::IsUnavailable(made.status())) Lose(made.status());
    if (!host_may_) return made.status();
    if (!absl::IsUnavailable(made.status())) {
      LogOnce("ops agent full",
              absl::StrCat(made.status().message(), "; the host does this operation by itself"));
    }
  }
  // Others' orders take its room only now.
  if (absl::IsResourceExhausted(made.status())) return Shared();
  kept_.emplace_front(key, made.ok() ? Shared(*std::move(made)) : Shared());
  return kept_.front().second;
}

absl::StatusOr<std::unique_ptr<Engine>> AgentLanes::MakeLane(const EngineOrder& order,
                                                             EngineTraits traits, MakeLocal local,
                                                             uint64_t* fallen_back) {
  // Says at once what the agent does not do where the host may not.
  PULSE_RETURN_IF_ERROR(Find(KeyOf(order), order, local).status());
  traits.lanes = 1;
  return std::make_unique<Lane>(this, std::move(traits), order, std::move(local), fallen_back);
}

}  // namespace pulse::ops
