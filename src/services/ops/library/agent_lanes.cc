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
  Lane(AgentLanes* owner, EngineTraits traits, Shared remote, MakeLocal make_local)
      : Engine(std::move(traits)),
        owner_(owner),
        remote_(std::move(remote)),
        make_local_(std::move(make_local)) {}

  absl::Status Process(int, const Chunk& chunk, Result& result) override {
    if (remote_ != nullptr && !(owner_->lost() && owner_->host_may_)) {
      const absl::Status status = remote_->Process(0, chunk, result);
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
    if (local_ == nullptr) {
      PULSE_ASSIGN_OR_RETURN(local_, make_local_({traits().name, Side::kHost, 1, {}}));
    }
    return local_->Process(0, chunk, result);
  }

 private:
  AgentLanes* const owner_;
  const Shared remote_;  // null: the agent does not do this
  const MakeLocal make_local_;
  std::unique_ptr<Engine> local_;
};

void AgentLanes::Lose(const absl::Status& why) {
  if (lost_.exchange(true) || !host_may_) return;
  LogOnce("ops agent lost", absl::StrCat(why.message(), "; the host does all by itself"));
}

absl::StatusOr<AgentLanes::Shared> AgentLanes::Find(const EngineOrder& order,
                                                    const MakeLocal& local) {
  const std::string key = KeyOf(order);
  const std::lock_guard lock(mutex_);
  const auto it =
      std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one.first == key; });
  if (it != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, it);
    return kept_.front().second;
  }
  if (lost() && host_may_) return Shared();
  auto made = agent_->Make(order, {"agent", Side::kAgent, 1, {}}, local);
  if (!made.ok()) {
    if (absl::IsUnavailable(made.status())) Lose(made.status());
    if (!host_may_) return made.status();
    if (!absl::IsUnavailable(made.status())) {
      LogOnce("ops agent full",
              absl::StrCat(made.status().message(), "; the host does this operation by itself"));
    }
  }
  if (kept_.size() >= kMostKept) kept_.pop_back();
  kept_.emplace_front(key, made.ok() ? Shared(*std::move(made)) : Shared());
  return kept_.front().second;
}

absl::StatusOr<std::unique_ptr<Engine>> AgentLanes::Make(const EngineOrder& order,
                                                         EngineTraits traits, MakeLocal local) {
  PULSE_ASSIGN_OR_RETURN(Shared remote, Find(order, local));
  traits.lanes = 1;
  return std::make_unique<Lane>(this, std::move(traits), std::move(remote), std::move(local));
}

}  // namespace pulse::ops
