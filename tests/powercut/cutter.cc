#include "powercut/cutter.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "powercut/faults.h"
#include "rocksdb/db.h"

namespace pulse::powercut {
namespace {

// A database opened without the plug-in.
struct StockDb {
  ~StockDb() {
    for (auto* h : handles) db->DestroyColumnFamilyHandle(h).PermitUncheckedError();
    delete db;
  }
  rocksdb::Status Open(const rocksdb::Options& options, const std::string& path) {
    std::vector<std::string> names;
    if (!rocksdb::DB::ListColumnFamilies(options, path, &names).ok()) names = {"default"};
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    for (const std::string& name : names) families.emplace_back(name, options);
    return rocksdb::DB::Open(options, path, families, &handles, &db);
  }
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
};

bool IsPivot(const Op& op, const std::vector<FileClass>& classes) {
  if (op.kind == OpKind::kRename || op.kind == OpKind::kUnlink) return true;
  if (op.kind != OpKind::kWrite && op.kind != OpKind::kSyncEnd) return false;
  const FileClass c = classes[op.node];
  return c == FileClass::kManifest || c == FileClass::kCurrent || c == FileClass::kDirectory;
}

}  // namespace

Cutter::Cutter(const RecordedRun* run, std::string scratch)
    : run_(*run), scratch_(std::move(scratch)), images_(&run->log, scratch_ + "/cache") {}

Cutter::~Cutter() {
  std::error_code ec;
  std::filesystem::remove_all(scratch_, ec);
  if (run_.pool) std::filesystem::remove_all(run_.root, ec);
}

std::vector<Cut> Cutter::Choose(int n, uint64_t seed) const {
  std::mt19937_64 rng(seed);
  std::vector<FileClass> classes(1, FileClass::kDirectory);
  std::vector<size_t> pivots;
  for (size_t i = 0; i < run_.log.size(); ++i) {
    const Op& op = run_.log[i];
    if (op.kind == OpKind::kCreate || op.kind == OpKind::kMakeDir) {
      classes.resize(std::max<size_t>(classes.size(), op.node + 1), FileClass::kOther);
      classes[op.node] = op.kind == OpKind::kMakeDir ? FileClass::kDirectory : ClassOf(op.name);
    }
    if (i >= run_.begin && IsPivot(op, classes)) pivots.push_back(i + 1);
  }
  const std::vector<size_t> promises = run_.history.promises();
  std::vector<Cut> cuts;
  while (static_cast<int>(cuts.size()) < n) {
    Cut cut{run_.begin + rng() % (run_.log.size() - run_.begin + 1), rng()};
    const uint64_t dice = rng() % 10;
    if (dice < 5 && !pivots.empty()) cut.at = pivots[rng() % pivots.size()] + rng() % 2;
    if (dice >= 5 && dice < 8 && !promises.empty()) cut.at = promises[rng() % promises.size()];
    cut.at = std::min(cut.at, run_.log.size());
    cuts.push_back(cut);
  }
  return cuts;
}

std::string Cutter::Judge(const Cut& cut) {
  std::filesystem::remove_all(image_dir());
  images_.Build(cut.at, cut.image, "", image_dir());
  std::unique_ptr<rocksdb::Env> pool;
  rocksdb::Env* env = rocksdb::Env::Default();
  if (run_.pool) {
    std::string why;
    pool = OpenPool(image_dir(), &why);
    if (pool == nullptr) return "the pool does not open: " + why;
    env = pool.get();
  }
  std::string problem = JudgeDatabase(cut, env);
  return problem.empty() ? JudgeCheckpoints(cut, env) : problem;
}

void Cutter::Build(const Cut& cut, const std::string& to) {
  images_.Build(cut.at, cut.image, "", to);
}

std::string Cutter::JudgeDatabase(const Cut& cut, rocksdb::Env* env) {
  const std::string path = image_dir() + "/db";
  rocksdb::Options options = StockOptions();
  options.env = env;
  options.create_if_missing = !run_.history.OpenedBefore(cut.at);
  // Half of the time RocksDB flushes what it recovers, as it does by itself.
  options.avoid_flush_during_recovery = cut.image % 2 == 0;
  if (run_.two_paths) {
    options.db_paths = {{path, 256 << 10}, {image_dir() + "/db2", uint64_t{1} << 30}};
  }
  if (run_.wal_dir) options.wal_dir = image_dir() + "/wal";
  StockDb stock;
  rocksdb::Status s = stock.Open(options, path);
  if (!s.ok()) return "does not open: " + s.ToString();
  s = stock.db->VerifyChecksum();
  if (!s.ok()) return "checksums: " + s.ToString();
  uint32_t state = 0;
  return run_.history.Check(stock.db, stock.handles, cut.at, &state);
}

std::string Cutter::JudgeCheckpoints(const Cut& cut, rocksdb::Env* env) {
  rocksdb::Options options = StockOptions();
  options.env = env;
  for (const History::Checkpoint& c : run_.history.checkpoints()) {
    const std::string path = image_dir() + "/" + c.path;
    // RocksDB does not sync the directory that a checkpoint is in: its name may be lost.
    if (c.done > cut.at || !std::filesystem::exists(path)) continue;
    // Now and then is enough: it is the same in all later images.
    if ((cut.image + c.done) % 8 != 0 && cut.at != c.done) continue;
    ++checkpoints_judged_;
    StockDb stock;
    rocksdb::Status s = stock.Open(options, path);
    if (!s.ok()) return c.path + " does not open: " + s.ToString();
    s = stock.db->VerifyChecksum();
    if (!s.ok()) return c.path + ": checksums: " + s.ToString();
    std::string problem = run_.history.CheckState(stock.db, stock.handles, c.state);
    if (!problem.empty()) return c.path + ": " + problem;
  }
  return "";
}

std::string FastScratchDir(const std::string& name) {
  static std::atomic<int> counter{0};
  const std::string base = access("/dev/shm", W_OK) == 0 ? std::string("/dev/shm")
                                                         : std::filesystem::current_path().string();
  const std::string dir = base + "/pulse-powercut-" + std::to_string(getpid()) + "-" +
                          std::to_string(counter++) + "-" + name;
  std::filesystem::create_directories(dir);
  return dir;
}

}  // namespace pulse::powercut
