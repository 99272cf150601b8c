#include "options/option_case.h"

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "pulse/rocksdb.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::options_test {
namespace {

using rocksdb::Status;

constexpr char kSecondFamily[] = "second";
constexpr int kKeys = 300;

// Fixed width, and in groups that a prefix extractor tells apart.
std::string Key(uint64_t n) {
  char key[16];
  std::snprintf(key, sizeof(key), "g%03llu-%05llu", static_cast<unsigned long long>(n % 7),
                static_cast<unsigned long long>(n));
  return key;
}

Setup MakeSetup(const std::vector<const Setting*>& settings, rocksdb::Env* env,
                const std::string& dir) {
  Setup setup;
  setup.options = lsm::test::SmallDbOptions(env);
  setup.options.write_buffer_size = 64 << 10;
  setup.options.target_file_size_base = 32 << 10;
  setup.options.max_bytes_for_level_base = 128 << 10;
  setup.dir = dir;
  for (const Setting* s : settings) s->apply(setup);
  setup.options.table_factory =
      setup.other_table != nullptr
          ? setup.other_table
          : std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory(setup.table));
  return setup;
}

class Case {
 public:
  Case(const Setup& setup, uint64_t seed)
      : setup_(setup), rng_(seed), db_(setup.options, setup.dir + "/db", {kSecondFamily}) {}

  // Each returns "" or what is wrong.
  std::string Fill() {
    if (const std::string e = Failed("open", db_.Open()); !e.empty()) return e;
    for (int round = 0; round < 3; ++round) {
      if (const std::string e = Write(400); !e.empty()) return e;
      if (const std::string e = Failed("flush", Flush()); !e.empty()) return e;
    }
    if (const std::string e = Failed("compact", Compact()); !e.empty()) return e;
    return CheckAndClose("after a compaction: ");
  }
  std::string Reopen() {
    if (const std::string e = Failed("reopen", db_.Open()); !e.empty()) return e;
    if (const std::string e = Verify(); !e.empty()) return "reopened: " + e;
    if (const std::string e = Write(60); !e.empty()) return e;  // it stays in the log
    return CheckAndClose("reopened and written: ");
  }
  // With `options` for another file system, and the same model.
  static std::string VerifyOn(const Setup& setup, const lsm::test::Model& model) {
    Case c(setup, 0);
    c.db_.model() = model;
    if (const std::string e = Failed("open", c.db_.Open()); !e.empty()) return e;
    const Status s = c.db_->VerifyChecksum();
    if (!s.ok() && !s.IsNotSupported()) return "checksums: " + s.ToString();
    return c.Verify();
  }
  const lsm::test::Model& model() { return db_.model(); }

 private:
  static std::string Failed(const char* what, const Status& s) {
    return s.ok() ? "" : absl::StrCat(what, ": ", s.ToString());
  }

  std::string Write(int n) {
    for (int i = 0; i < n; ++i) {
      const std::string family =
          rng_() % 3 == 0 ? kSecondFamily : rocksdb::kDefaultColumnFamilyName;
      const std::string key = Key(rng_() % kKeys);
      const size_t size = rng_() % 20 == 0 ? 3000 : rng_() % 400;
      const Status s = rng_() % 8 == 0
                           ? db_.Delete(family, key)
                           : db_.Put(family, key, Value(size), /*sync=*/rng_() % 100 == 0);
      if (!s.ok()) return absl::StrCat("write: ", s.ToString());
    }
    return "";
  }
  // Half of it compresses.
  std::string Value(size_t size) {
    std::string v = lsm::test::RandomBytes(&rng_, size / 2);
    v.append(size - v.size(), static_cast<char>('a' + rng_() % 26));
    return v;
  }

  Status Flush() {
    rocksdb::FlushOptions o;
    o.allow_write_stall = true;  // with few levels or no compactions it would wait for ever
    Status s;
    for (const std::string& family : db_.families()) {
      if (s.ok()) s = db_->Flush(o, db_.family(family));
    }
    return s;
  }

  Status Compact() {
    Status s = db_.CompactAll();
    // FIFO and None know no manual compaction to a level below; the rest is still to be checked.
    const bool may_not = setup_.options.compaction_style == rocksdb::kCompactionStyleNone ||
                         setup_.options.compaction_style == rocksdb::kCompactionStyleFIFO;
    return may_not && (s.IsNotSupported() || s.IsInvalidArgument()) ? Status::OK() : s;
  }

  std::string CheckAndClose(const char* when) {
    if (const std::string e = Verify(); !e.empty()) return when + e;
    if (setup_.flush_before_close) {
      if (const std::string e = Failed("flush", Flush()); !e.empty()) return e;
    }
    if (const std::string e = Failed("flush of the log", db_->FlushWAL(/*sync=*/true));
        !e.empty()) {
      return e;
    }
    db_.Close();
    return "";
  }

  std::string Verify() {
    rocksdb::ReadOptions read;
    read.total_order_seek = true;
    for (const auto& [family, keys] : db_.model()) {
      size_t found = 0;
      std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read, db_.family(family)));
      for (it->SeekToFirst(); it->Valid(); it->Next(), ++found) {
        const auto want = keys.find(it->key().ToString());
        if (want == keys.end()) return absl::StrCat(family, ": extra key ", it->key().ToString());
        if (it->value() != want->second)
          return absl::StrCat(family, ": wrong value of ", want->first);
      }
      if (!it->status().ok()) return absl::StrCat(family, ": ", it->status().ToString());
      if (found != keys.size()) {
        return absl::StrCat(family, ": ", found, " keys instead of ", keys.size());
      }
      for (int n = 0; n < kKeys; n += 5) {
        std::string value;
        const Status s = db_->Get(rocksdb::ReadOptions(), db_.family(family), Key(n), &value);
        const auto want = keys.find(Key(n));
        if (want == keys.end() ? !s.IsNotFound() : !s.ok() || value != want->second) {
          return absl::StrCat(family, ": Get of ", Key(n), ": ", s.ToString());
        }
      }
    }
    return "";
  }

  const Setup setup_;
  std::mt19937_64 rng_;
  lsm::test::TestDb db_;
};

}  // namespace

std::string RunCase(const std::vector<const Setting*>& settings, Where where,
                    const std::string& dir, uint64_t seed) {
  // What a database without the plug-in needs to read it: with a pool, another instance of it.
  // The files are small, and the kernel clears a queue's memory for each case.
  std::string uri = "pulse://?queue=2M";
  std::shared_ptr<rocksdb::FileSystem> fs;
  std::unique_ptr<rocksdb::Env> env;
  std::unique_ptr<rocksdb::Env> check_env;
  const std::string more = MakeSetup(settings, rocksdb::Env::Default(), dir).uri;
  std::string agent;
  const std::vector<int> cpus = MyCpus();
  if (!more.empty() && where != Where::kStock && cpus.size() < 2) {
    printf("without %s: host and agent need a CPU each\n", more.c_str());
  } else if (!more.empty() && where != Where::kStock) {
    // This process is the case's own.
    const absl::Status placed = SetThreadAffinity({cpus.begin(), cpus.end() - 1});
    if (!placed.ok()) return "placing the host: " + std::string(placed.message());
    agent = more + "&agent_cpus=" + std::to_string(cpus.back());
  }
  if (where == Where::kPulsePool) {
    lsm::test::CreatePool(dir + "/pool", 64 << 20);
    uri += "&layout=pool&pool=" + dir + "/pool";
  }
  if (where != Where::kStock) {
    const Status s = NewFileSystem(uri + agent, nullptr, &fs);
    if (!s.ok()) return "file system: " + s.ToString();
    env = rocksdb::NewCompositeEnv(fs);
    env->SetBackgroundThreads(4, rocksdb::Env::HIGH);
    env->SetBackgroundThreads(4, rocksdb::Env::LOW);
  }

  lsm::test::Model model;
  {
    rocksdb::Env* const used = where == Where::kStock ? rocksdb::Env::Default() : env.get();
    Case written(MakeSetup(settings, used, dir), seed);
    if (std::string e = written.Fill(); !e.empty()) return e;
    if (std::string e = written.Reopen(); !e.empty()) return e;
    model = written.model();
  }
  if (where != Where::kStock) {
    Stats stats{};
    if (!GetStats(fs.get(), &stats) || stats.files_persisted == 0) return "no output by the agent";
    if (stats.failovers != 0) return "the agent was lost";
  }
  if (where == Where::kPulsePool) {
    env.reset();
    fs.reset();
    std::shared_ptr<rocksdb::FileSystem> other;
    const Status s = NewFileSystem(uri + "&fetch=off&placement=host", nullptr, &other);
    if (!s.ok()) return "file system to check with: " + s.ToString();
    check_env = rocksdb::NewCompositeEnv(other);
  }
  rocksdb::Env* const stock = check_env != nullptr ? check_env.get() : rocksdb::Env::Default();
  const std::string e = Case::VerifyOn(MakeSetup(settings, stock, dir), model);
  return e.empty() ? "" : "without the plug-in: " + e;
}

}  // namespace pulse::options_test
