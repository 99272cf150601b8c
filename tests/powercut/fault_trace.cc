#include "powercut/fault_trace.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "powercut/archive.h"
#include "powercut/crash_image.h"
#include "powercut/cutter.h"
#include "powercut/watchdog.h"
#include "powercut/workload.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "services/lsm/core/options.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::powercut {
namespace {

using rocksdb::Status;

constexpr int kMaxTries = 400;
constexpr int kBatch = 10;
constexpr size_t kMaxErrors = 12;
// Turns a hang into a failure; one run takes a fraction of a second.
constexpr std::chrono::seconds kHangs{60};

Status MakeEnv(Setup setup, const std::string& root, std::unique_ptr<rocksdb::Env>* env) {
  std::string uri =
      "pulse://?engine=threads&io=direct&queue=1M&write_threshold=16K&fetch_memory=1M"
      "&fetch_chunk=64K&readahead=64K&spin_us=0";
  if (setup == Setup::kPool) uri += PoolOptions(root);
  auto options = lsm::ParseOptions(uri);
  if (!options.ok()) return Status::InvalidArgument(std::string(options.status().message()));
  auto fs = lsm::PulseFileSystem::Open(*options, rocksdb::FileSystem::Default());
  if (!fs.ok()) return Status::IOError(std::string(fs.status().message()));
  *env = rocksdb::NewCompositeEnv(*std::move(fs));
  return Status::OK();
}

class Errors : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason, Status* s) override {
    ++background;
    Add("background: " + s->ToString());
  }
  void Add(std::string text) {
    std::lock_guard lock(mu_);
    if (all_.size() < kMaxErrors) all_.push_back(std::move(text));
  }
  std::vector<std::string> Take() {
    std::lock_guard lock(mu_);
    return std::move(all_);
  }
  std::atomic<int> background{0};

 private:
  std::mutex mu_;
  std::vector<std::string> all_;
};

class FaultTrace {
 public:
  FaultTrace(Setup setup, std::string root) : setup_(setup), root_(std::move(root)) {
    options_ = StockOptions();
    options_.create_if_missing = true;
    options_.write_buffer_size = 1 << 20;
    options_.target_file_size_base = 64 << 10;
    options_.max_background_jobs = 2;
    options_.max_subcompactions = 2;
    options_.enable_blob_files = true;
    options_.min_blob_size = 3000;
    options_.max_manifest_file_size = 1 << 10;
    options_.bgerror_resume_retry_interval = 1000;
    options_.listeners = {errors_};
  }
  ~FaultTrace() { Drop(); }

  // "" or the step that did not succeed in the end.
  std::string Run();
  std::string Verify();
  Errors& errors() { return *errors_; }
  int failed_steps() const { return failed_steps_; }
  bool reopened() const { return reopened_; }
  bool remounted() const { return remounted_; }
  // The file system, which otherwise the first Open makes.
  Status Mount();

 private:
  Status Open();
  void Drop();
  // Until it succeeds.
  bool Do(const std::string& name, const std::function<Status()>& step);
  bool Repair(const Status& after);
  Status Remount();
  bool Fill(int from, int n, bool sync);
  bool Flush();
  bool Compact();
  std::string Differs(const std::string& path);

  const Setup setup_;
  const std::string root_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::Env> env_;
  const std::shared_ptr<Errors> errors_ = std::make_shared<Errors>();
  std::unique_ptr<rocksdb::DB> db_;
  std::map<std::string, std::string> model_;
  std::string stuck_;
  int round_ = 0;
  int failed_steps_ = 0;
  bool reopened_ = false;
  bool remounted_ = false;
};

Status FaultTrace::Mount() {
  if (setup_ == Setup::kStock || env_ != nullptr) return Status::OK();
  Status s = MakeEnv(setup_, root_, &env_);
  if (s.ok()) options_.env = env_.get();
  return s;
}

Status FaultTrace::Open() {
  rocksdb::DB* db = nullptr;
  Status s = Mount();
  if (s.ok()) s = rocksdb::DB::Open(options_, root_ + "/db", &db);
  db_.reset(db);
  return s;
}

void FaultTrace::Drop() {
  if (db_ == nullptr) return;
  db_->Close().PermitUncheckedError();
  db_.reset();
}

// What a pool asks for that could not record a change.
bool AsksForRemount(const Status& s) {
  return s.ToString().find("open the store again") != std::string::npos;
}

// The cause is gone; the database comes back. False to be asked again.
bool FaultTrace::Repair(const Status& after) {
  SimDisk::Get().ClearFault();
  if (AsksForRemount(after)) return Remount().ok();
  Status s;
  if (db_ != nullptr) {
    s = db_->Resume();
    if (s.ok() || s.IsBusy()) return s.ok();
    if (AsksForRemount(s)) return Remount().ok();
    if (s.severity() < Status::Severity::kFatalError) return false;  // still recovering by itself
    Drop();
  }
  reopened_ = true;
  s = Open();
  return s.ok() ||
         (s.ToString().find("open the store again") != std::string::npos && Remount().ok());
}

Status FaultTrace::Remount() {
  Drop();
  env_.reset();
  remounted_ = reopened_ = true;
  return Open();
}

bool FaultTrace::Do(const std::string& name, const std::function<Status()>& step) {
  if (!stuck_.empty()) return false;
  Status s;
  for (int n = 0; n < kMaxTries; ++n) {
    if (db_ == nullptr && name != "open") {
      reopened_ = true;
      if (!(s = Open()).ok()) continue;
    }
    s = step();
    // RocksDB 7.8 goes on taking itself for stopped after Resume has cleared a hard error (its
    // ErrorHandler::ClearBGError leaves is_db_stopped_ set): Flush then returns OK before it has
    // flushed, and ingestion fails an assertion. The rest of the trace is about files.
    if (s.ok() && n > 0 && name != "open") Drop();
    if (s.ok() && n > 0 && name != "open" && name != "close") s = Open();
    if (s.ok()) return true;
    if (n == 0) ++failed_steps_;
    if (n < 3) errors_->Add(name + ": " + s.ToString());
    for (int tries = 0; tries < 200 && (db_ != nullptr || AsksForRemount(s)) && !Repair(s);
         ++tries) {
      // sleep: RocksDB recovers by itself meanwhile, and tells nobody
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    SimDisk::Get().ClearFault();
  }
  stuck_ = name + " does not succeed: " + s.ToString();
  return false;
}

bool FaultTrace::Fill(int from, int n, bool sync) {
  ++round_;
  for (int i = from; i < from + n; i += kBatch) {
    std::map<std::string, std::string> content;
    rocksdb::WriteBatch batch;
    for (int k = i; k < i + kBatch; ++k) {
      const std::string key = "key" + std::to_string(10'000 + k);
      // Every tenth goes into a blob file.
      content[key] =
          key + std::string(k % 10 == 0 ? 5000 : 700, static_cast<char>('a' + (k + round_) % 26));
      const Status s = batch.Put(key, content[key]);
      if (!s.ok()) return false;
    }
    rocksdb::WriteOptions w;
    w.sync = sync && i % 20 == 0;
    if (!Do("put", [&] { return db_->Write(w, &batch); })) return false;
    for (const auto& [key, value] : content) model_[key] = value;
  }
  return true;
}

bool FaultTrace::Flush() {
  return Do("flush", [&] { return db_->Flush(rocksdb::FlushOptions()); });
}

bool FaultTrace::Compact() {
  rocksdb::CompactRangeOptions o;
  o.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  return Do("compact", [&] { return db_->CompactRange(o, nullptr, nullptr); });
}

std::string FaultTrace::Run() {
  Do("open", [&] { return Open(); });
  Fill(0, 60, true) && Flush() && Fill(30, 60, false) && Flush() && Fill(0, 90, true) && Flush();
  Compact();

  const std::string file = root_ + "/ingest.sst";
  std::map<std::string, std::string> ingested;
  Do("ingest", [&] {
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
    Status s = writer.Open(file);
    for (int i = 200; s.ok() && i < 220; ++i) {
      const std::string key = "key" + std::to_string(10'000 + i);
      ingested[key] = std::string(1000, 'i');
      s = writer.Put(key, ingested[key]);
    }
    if (s.ok()) s = writer.Finish();
    if (s.ok()) s = db_->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions());
    return s;
  });
  for (const auto& [key, value] : ingested) model_[key] = value;

  int copies = 0;
  Do("checkpoint", [&] {
    rocksdb::Checkpoint* made = nullptr;
    Status s = rocksdb::Checkpoint::Create(db_.get(), &made);
    const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
    const std::string to = root_ + "/copy" + std::to_string(++copies);
    return s.ok() ? checkpoint->CreateCheckpoint(to) : s;
  });

  Fill(60, 30, true);
  Do("close", [&] {
    Status s = db_->Close();
    db_.reset();
    // What Close could not do the next open must make up for.
    if (!s.ok()) errors_->Add("close: " + s.ToString());
    return Status::OK();
  });
  Do("open", [&] { return db_ == nullptr ? Open() : Status::OK(); });
  Fill(0, 40, false) && Flush() && Compact() && Fill(5, 10, true);
  Flush();
  return stuck_;
}

std::string FaultTrace::Differs(const std::string& path) {
  rocksdb::Options options = StockOptions();
  std::unique_ptr<rocksdb::Env> pool;
  if (setup_ == Setup::kPool) {
    std::string why;
    pool = OpenPool(root_, &why);
    if (pool == nullptr) return "the pool does not open: " + why;
    options.env = pool.get();
  }
  rocksdb::DB* raw = nullptr;
  Status s = rocksdb::DB::Open(options, path, &raw);
  const std::unique_ptr<rocksdb::DB> db(raw);
  if (!s.ok()) return "does not open: " + s.ToString();
  s = db->VerifyChecksum();
  if (!s.ok()) return "checksums: " + s.ToString();
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  auto want = model_.begin();
  for (it->SeekToFirst(); it->Valid() && want != model_.end(); it->Next(), ++want) {
    if (it->key() != want->first)
      return "wanted " + want->first + ", found " + it->key().ToString();
    if (it->value() != want->second) return "wrong value of " + want->first;
  }
  if (!it->status().ok()) return it->status().ToString();
  if (it->Valid()) return "extra key " + it->key().ToString();
  return want == model_.end() ? "" : "missing key " + want->first;
}

// Everything was flushed: it must survive a power cut now, and of course an orderly end.
std::string FaultTrace::Verify() {
  const size_t cut = SimDisk::Get().position();
  Drop();
  env_.reset();
  const OpLog log = SimDisk::Get().Stop();
  std::string problem = Differs(root_ + "/db");
  if (!problem.empty()) return "after closing: " + problem;
  const std::string cache = root_ + ".cache";
  CrashImage images(&log, cache);
  for (uint64_t seed = 0; problem.empty() && seed < 2; ++seed) {
    // A pool knows directories by their paths, so that the image is where the disk was.
    std::filesystem::remove_all(root_);
    images.Build(cut, seed, "", root_);
    problem = Differs(root_ + "/db");
  }
  std::filesystem::remove_all(cache);
  return problem.empty() ? "" : "after a power cut: " + problem;
}

}  // namespace

const char* NameOf(Setup setup) {
  static constexpr const char* kNames[] = {"stock", "plug-in", "plug-in, pool"};
  return kNames[static_cast<int>(setup)];
}

Outcome RunFaultTrace(Setup setup, const Fault& fault, const std::string& root) {
  Outcome outcome;
  std::filesystem::create_directories(root + "/db");
  SimDisk& disk = SimDisk::Get();
  if (setup == Setup::kPool && !MakePool(root)) {
    outcome.problem = "no pool";
    return outcome;
  }
  FaultTrace trace(setup, root);
  if (setup == Setup::kFiles && !trace.Mount().ok()) {
    outcome.problem = "no file system";
    return outcome;
  }
  disk.Start(root, {});
  disk.SetFault(fault);
  outcome.problem = trace.Run();
  outcome.hits = disk.fault_hits();
  outcome.thread = disk.fault_thread();
  for (const std::string& name : disk.fault_files()) outcome.files.push_back(name);
  outcome.counts = disk.counts();
  disk.ClearFault();
  const std::string damage = trace.Verify();
  if (outcome.problem.empty()) outcome.problem = damage;
  outcome.errors = trace.errors().Take();
  outcome.failed_steps = trace.failed_steps();
  outcome.background_errors = trace.errors().background;
  outcome.reopened = trace.reopened();
  outcome.remounted = trace.remounted();
  return outcome;
}

// "" where there is none.
std::string LastLineWith(const std::string& text, const std::string& file) {
  std::ifstream in(file);
  std::string found;
  for (std::string line; std::getline(in, line);) {
    if (line.find(text) != std::string::npos) found = line;
  }
  return found;
}

Outcome RunFaultTraceInChild(Setup setup, const Fault& fault) {
  const std::string root = FastScratchDir("fault");
  const std::string report = root + ".outcome";
  const pid_t child = fork();
  if (child == 0) {
    // What an assertion says, for the verdict.
    const int errors = open((root + ".stderr").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (errors >= 0) dup2(errors, STDERR_FILENO);
    Watchdog watchdog(kHangs);
    if (getenv("PULSE_FAULT") != nullptr) signal(SIGABRT, PrintStack);
    watchdog.Feed(std::string(NameOf(setup)) + ", " + fault.ToString());
    Outcome outcome = RunFaultTrace(setup, fault, root);
    Archive save(report, Archive::kSave);
    outcome.Visit(save);
    _exit(save.Failed() ? 1 : 0);
  }
  int status = -1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Outcome outcome;
  Archive load(report, Archive::kLoad);
  outcome.Visit(load);
  if (status != 0 || load.Failed()) {
    outcome = {};
    outcome.hits = 1;
    outcome.problem = status >= 0 && WIFSIGNALED(status)
                          ? std::string("killed: ") + strsignal(WTERMSIG(status))
                          : "ended early";
    const std::string said = LastLineWith("Assertion", root + ".stderr");
    if (!said.empty()) outcome.problem += ": " + said;
    const std::string hang = LastLineWith("hangs: ", root + ".stderr");
    if (!hang.empty()) {
      // With the stacks of all threads.
      outcome.problem = hang;
      std::ifstream in(root + ".stderr");
      for (std::string line; std::getline(in, line);) outcome.errors.push_back(line);
    }
  }
  std::error_code ec;
  std::filesystem::remove_all(root, ec);
  std::filesystem::remove(report, ec);
  std::filesystem::remove(root + ".stderr", ec);
  return outcome;
}

}  // namespace pulse::powercut
