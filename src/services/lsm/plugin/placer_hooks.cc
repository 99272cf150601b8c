#include "services/lsm/plugin/placer_hooks.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "services/lsm/core/rocksdb_compat.h"

namespace pulse::lsm {
namespace {

using rocksdb::CompactionServiceJobStatus;

class PlacerService : public rocksdb::CompactionService {
 public:
  PlacerService(std::shared_ptr<CompactionPlacer> placer,
                std::weak_ptr<rocksdb::EventListener> listener)
      : placer_(std::move(placer)), listener_(std::move(listener)) {}

  static const char* kClassName() { return "PulseCompactionService"; }
  const char* Name() const override { return kClassName(); }
  CompactionPlacer* placer() const { return placer_.get(); }

#if PULSE_ROCKSDB_AT_LEAST(10, 0)
  rocksdb::CompactionServiceScheduleResponse Schedule(const rocksdb::CompactionServiceJobInfo& info,
                                                      const std::string& input) override {
    if (!Begin(info, input)) {
      return rocksdb::CompactionServiceScheduleResponse(CompactionServiceJobStatus::kUseLocal);
    }
    return {absl::StrCat(info.job_id, " ", info.db_name), CompactionServiceJobStatus::kSuccess};
  }
  CompactionServiceJobStatus Wait(const std::string& id, std::string* result) override {
    const size_t space = id.find(' ');
    return placer_->Wait(id.substr(space + 1), std::strtoull(id.c_str(), nullptr, 10), result)
               ? CompactionServiceJobStatus::kSuccess
               : CompactionServiceJobStatus::kUseLocal;
  }
#if PULSE_ROCKSDB_AT_LEAST(10, 4)
  // Called just before the database begins to close.
  void CancelAwaitingJobs() override { placer_->Cancel(true); }
#endif
#else
  CompactionServiceJobStatus StartV2(const rocksdb::CompactionServiceJobInfo& info,
                                     const std::string& input) override {
    return Begin(info, input) ? CompactionServiceJobStatus::kSuccess
                              : CompactionServiceJobStatus::kUseLocal;
  }
  CompactionServiceJobStatus WaitForCompleteV2(const rocksdb::CompactionServiceJobInfo& info,
                                               std::string* result) override {
    return placer_->Wait(info.db_name, info.job_id, result) ? CompactionServiceJobStatus::kSuccess
                                                            : CompactionServiceJobStatus::kUseLocal;
  }
#endif

 private:
  bool Begin(const rocksdb::CompactionServiceJobInfo& info, const std::string& input) {
    // Options hold it, and so do databases that were opened with them.
    if (listener_.expired() && !said_.exchange(true)) {
      Log(LogLevel::kWarn,
          "compactions are not placed, and placement= and flushes= of the URI have no effect: "
          "the listener that PlaceCompactions has added to the options is gone. Set listeners "
          "before it is called; in Java, setListeners before env.place(options)");
    }
    return placer_->Start(info.db_name, info.job_id, input);
  }

  const std::shared_ptr<CompactionPlacer> placer_;
  const std::weak_ptr<rocksdb::EventListener> listener_;
  std::atomic<bool> said_{false};
};

class PlacerListener : public rocksdb::EventListener {
 public:
  explicit PlacerListener(std::shared_ptr<CompactionPlacer> placer) : placer_(std::move(placer)) {}

  static const char* kClassName() { return "PulsePlacerListener"; }
  const char* Name() const override { return kClassName(); }

  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    placer_->OnBegin(db, info);
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    placer_->OnPartEnd(false);  // if it failed before it began
    placer_->OnEnd(db, info);
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override {
    placer_->OnPartEnd(info.status.ok());
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    if (info.reason == rocksdb::TableFileCreationReason::kFlush) {
      placer_->OnFlushBegin(info.db_name);
    }
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    if (info.reason == rocksdb::TableFileCreationReason::kFlush) placer_->OnFlushEnd();
  }

 private:
  const std::shared_ptr<CompactionPlacer> placer_;
};

}  // namespace

bool HasPlacer(const rocksdb::DBOptions& options) {
  return std::any_of(options.listeners.begin(), options.listeners.end(), [](const auto& listener) {
    return listener != nullptr && listener->Name() == std::string(PlacerListener::kClassName());
  });
}

CompactionPlacer* PlacerOf(const rocksdb::CompactionService* service) {
  const PlacerService* ours = service == nullptr ? nullptr : service->CheckedCast<PlacerService>();
  return ours == nullptr ? nullptr : ours->placer();
}

std::shared_ptr<rocksdb::EventListener> NewPlacerListener(
    std::shared_ptr<CompactionPlacer> placer) {
  return std::make_shared<PlacerListener>(std::move(placer));
}

std::shared_ptr<rocksdb::CompactionService> NewPlacerService(
    std::shared_ptr<CompactionPlacer> placer, std::weak_ptr<rocksdb::EventListener> listener) {
  return std::make_shared<PlacerService>(std::move(placer), std::move(listener));
}

}  // namespace pulse::lsm
