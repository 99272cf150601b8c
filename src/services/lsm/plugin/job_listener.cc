// The EventListener that tells what each flush and compaction has waited for (pulse/rocksdb.h).
#include "services/lsm/plugin/job_listener.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"
#include "services/lsm/core/thread_waits.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::lsm {
namespace {

// RocksDB does not tell the end of jobs that fail or whose database is being closed: a job is
// forgotten after so many later ones.
constexpr size_t kMaxJobs = 256;

class JobListener : public rocksdb::EventListener {
 public:
  explicit JobListener(JobCallback callback) : callback_(std::move(callback)) {}

  static const char* kClassName() { return kJobListenerName; }
  const char* Name() const override { return kClassName(); }

  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    Begin(db, info.job_id, info.cf_name);
  }
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override {
    End(db, info.job_id, info.cf_name, /*is_flush=*/true);
  }
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    Begin(db, info.job_id, info.cf_name);
  }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override {
    End(db, info.job_id, info.cf_name, /*is_flush=*/false);
  }
  // One of a job's subcompactions runs on the job's own thread, and is counted with it.
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo& info) override {
    std::lock_guard lock(mu_);
    for (auto& [key, job] : jobs_) {
      if (key.job_id != info.job_id || key.cf_name != info.cf_name) continue;
      if (job.thread == std::this_thread::get_id()) return;
      job.parts.push_back({ThreadWaits::Mine(), ThreadWaits::Mine()->Totals(), {}, false});
      return;
    }
  }
  void OnSubcompactionCompleted(const rocksdb::SubcompactionJobInfo& info) override {
    std::lock_guard lock(mu_);
    for (auto& [key, job] : jobs_) {
      if (key.job_id != info.job_id || key.cf_name != info.cf_name) continue;
      for (Part& part : job.parts) {
        if (part.ended || part.waits != ThreadWaits::Mine()) continue;
        part.end = part.waits->Totals();
        part.ended = true;
        return;
      }
    }
  }

 private:
  struct Key {
    rocksdb::DB* db;
    int job_id;
    std::string cf_name;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  // What a thread did for the job.
  struct Part {
    std::shared_ptr<ThreadWaits> waits;
    WaitTotals begin;
    WaitTotals end;
    bool ended;
  };
  struct Job {
    uint64_t number;  // in the order of their beginnings
    std::thread::id thread;
    std::vector<Part> parts;
  };

  void Begin(rocksdb::DB* db, int job_id, const std::string& cf_name) {
    std::lock_guard lock(mu_);
    if (jobs_.size() >= kMaxJobs) {
      auto oldest = jobs_.begin();
      for (auto it = jobs_.begin(); it != jobs_.end(); ++it) {
        if (it->second.number < oldest->second.number) oldest = it;
      }
      jobs_.erase(oldest);
    }
    jobs_[{db, job_id, cf_name}] = {
        next_++,
        std::this_thread::get_id(),
        {{ThreadWaits::Mine(), ThreadWaits::Mine()->Totals(), {}, false}}};
  }

  void End(rocksdb::DB* db, int job_id, const std::string& cf_name, bool is_flush) {
    Job job;
    {
      std::lock_guard lock(mu_);
      const auto it = jobs_.find({db, job_id, cf_name});
      if (it == jobs_.end()) return;  // began before this listener could see it
      job = std::move(it->second);
      jobs_.erase(it);
    }
    WaitTotals sum{};
    for (const Part& part : job.parts) {
      const WaitTotals end = part.ended ? part.end : part.waits->Totals();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += end[i] - part.begin[i];
    }
    const auto of = [&sum](Waited what) { return sum[static_cast<size_t>(what)]; };
    JobWaits w;
    w.database = db->GetName();
    w.column_family = cf_name;
    w.job_id = job_id;
    w.is_flush = is_flush;
    w.backpressure_waits = of(Waited::kBackpressureWaits);
    w.backpressure_nanos = of(Waited::kBackpressureNanos);
    w.barrier_waits = of(Waited::kBarrierWaits);
    w.barrier_nanos = of(Waited::kBarrierNanos);
    w.fetch_waits = of(Waited::kFetchWaits);
    w.fetch_wait_nanos = of(Waited::kFetchNanos);
    w.bytes_persisted = of(Waited::kBytesPersisted);
    w.bytes_inline = of(Waited::kBytesInline);
    w.bytes_fetched = of(Waited::kBytesFetched);
    Tell(db, w);
    if (callback_) callback_(w);
  }

  static void Tell(rocksdb::DB* db, const JobWaits& w) {
    const std::shared_ptr<rocksdb::Logger> log = db->GetDBOptions().info_log;
    if (log == nullptr) return;
    const FileSystem* fs = db->GetFileSystem();
    if (fs == nullptr || fs->CheckedCast<PulseFileSystem>() == nullptr) {
      rocksdb::Warn(log,
                    "[pulse] job %d: the database is not on pulse://, so its waits are not known",
                    w.job_id);
      return;
    }
    const std::string text = Describe(w);
    rocksdb::Info(log, "%s", text.c_str());
  }

  static std::string Describe(const JobWaits& w) {
    const auto number = [](const char* format, double value) {
      char text[32];
      std::snprintf(text, sizeof(text), format, value);
      return std::string(text);
    };
    const auto wait = [&](const char* what, uint64_t count, uint64_t nanos) {
      return absl::StrCat(number("%.1f", static_cast<double>(nanos) / 1e6), " ms ", what, " (",
                          count, " x)");
    };
    const auto size = [&](const char* what, uint64_t bytes) {
      return absl::StrCat(number("%.1f", static_cast<double>(bytes) / 1048576), " MiB ", what);
    };
    return absl::StrCat("[pulse] [", w.column_family, "] ", w.is_flush ? "flush" : "compaction",
                        " job ", w.job_id, ": waited ",
                        wait("for queue space", w.backpressure_waits, w.backpressure_nanos), ", ",
                        wait("for input", w.fetch_waits, w.fetch_wait_nanos), ", ",
                        wait("at the barrier", w.barrier_waits, w.barrier_nanos), "; ",
                        size("through the agent", w.bytes_persisted), ", ",
                        size("inline", w.bytes_inline), ", ", size("fetched", w.bytes_fetched));
  }

  const JobCallback callback_;
  std::mutex mu_;
  uint64_t next_ = 0;
  std::map<Key, Job> jobs_;
};

}  // namespace

std::unique_ptr<rocksdb::EventListener> MakeJobListener(JobCallback callback) {
  return std::make_unique<JobListener>(std::move(callback));
}

}  // namespace pulse::lsm
