// StallListener: tells the agent of write stalls as they begin and end, for databases whose options
// name it (pulse::NewStallListener). Without it the host learns of them from the priority of
// outputs: later, not their end, and not whether writers are delayed or stopped.
//
// Thread-safe. Does not block, beyond a mutex that is held briefly.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lsm/host_session.h"
#include "rocksdb/listener.h"

namespace pulse::lsm {

class StallListener : public rocksdb::EventListener {
 public:
  explicit StallListener(std::shared_ptr<HostSession> session) : session_(std::move(session)) {}

  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    std::lock_guard lock(mu_);
    // Of all column families of all databases that share the listener.
    uint64_t& before = families_[LevelOf(info.condition.prev)];
    if (before > 0) --before;
    ++families_[LevelOf(info.condition.cur)];
    session_->SetStall(families_[wire::kPressureStopped] > 0   ? wire::kPressureStopped
                       : families_[wire::kPressureDelayed] > 0 ? wire::kPressureDelayed
                                                               : wire::kPressureNone);
  }

 private:
  static uint32_t LevelOf(rocksdb::WriteStallCondition condition) {
    switch (condition) {
      case rocksdb::WriteStallCondition::kDelayed:
        return wire::kPressureDelayed;
      case rocksdb::WriteStallCondition::kStopped:
        return wire::kPressureStopped;
      default:
        return wire::kPressureNone;
    }
  }

  const std::shared_ptr<HostSession> session_;
  std::mutex mu_;
  std::array<uint64_t, 3> families_{};
};

}  // namespace pulse::lsm
