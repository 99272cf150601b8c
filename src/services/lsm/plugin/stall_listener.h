// StallListener: tells the agent of write stalls as they begin and end, for databases whose options
// name it (pulse::NewStallListener). Without it the host knows of stalls from the priority of
// outputs only: later, without their end, and not whether writers are delayed or stopped.
//
// Thread-safe. Does not block, beyond a mutex that is held briefly.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "rocksdb/listener.h"
#include "services/lsm/core/host_session.h"

namespace pulse::lsm {

class StallListener : public rocksdb::EventListener {
 public:
  explicit StallListener(std::shared_ptr<HostSession> session) : session_(std::move(session)) {}

  ~StallListener() override {
    for (uint32_t level = 0; level < families_.size(); ++level) {
      session_->AddStalls(level, -families_[level]);
    }
  }

  void OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) override {
    std::lock_guard lock(mu_);
    // Of all column families of all databases that share the listener. RocksDB may tell of two
    // changes in the wrong order: a count may be below zero for a moment.
    --families_[LevelOf(info.condition.prev)];
    ++families_[LevelOf(info.condition.cur)];
    session_->AddStalls(LevelOf(info.condition.prev), -1);
    session_->AddStalls(LevelOf(info.condition.cur), 1);
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
  std::array<int64_t, 3> families_{};
};

}  // namespace pulse::lsm
