// db_check: fills RocksDB databases with reproducible contents and checks every key of them.
//
// It links against RocksDB only. With --fs-uri it asks RocksDB's registry for the file system, so
// a preloaded plug-in is reached exactly as any unmodified program reaches it; without, it is
// stock RocksDB, which is how the tests show that what the plug-in wrote is readable without it.
//
// Exit status: 0 all is well, 1 a check or an operation failed, 2 bad usage, 3 a fill was stopped
// by a write error (what was acknowledged is then in the --acked file).

#include <fcntl.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/slice.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kStopped = 3;

const char kHelp[] =
    R"(usage: db_check COMMAND ARGUMENTS [FLAGS]
  fill DB N VALUESIZE SEED         write N keys in a scattered order
  verify DB N VALUESIZE SEED       check every key a fill wrote, and all checksums
  scan DB                          print the number of keys and a hash of all keys and values
  mixed DB SEED OPS MODEL          puts, deletes, merges, range deletes, ingestion, flushes,
                                   compactions, reopens; MODEL receives what the DB must hold;
                                   a checkpoint goes to DB.ckpt
  mixed-verify DB MODEL            compare every key with MODEL
flags
  --fs-uri URI        file system from RocksDB's registry (needs the plug-in preloaded)
  --blob              values of 256 bytes and more go to blob files
  --direct            direct reads, direct I/O for flush and compaction
  --rounds R          fill: write every key R times; verify: as filled with R rounds
  --acked FILE        fill: keep the number of acknowledged writes in FILE
  --first K           verify: only the first K writes were acknowledged
  --write-buffer B    memtable size in bytes (default 1048576)
  --table-size B      size of compaction outputs in bytes (default: as --write-buffer)
  --read-only         verify, scan, mixed-verify: open read-only
)";

struct Flags {
  std::string fs_uri;
  std::string acked;
  bool blob = false;
  bool direct = false;
  bool read_only = false;
  uint64_t rounds = 1;
  uint64_t first = UINT64_MAX;
  uint64_t write_buffer = 1 << 20;
  uint64_t table_size = 0;  // 0: as write_buffer
};

uint64_t SplitMix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// FNV-1a over the bytes, folded into a running value so that order matters.
uint64_t Roll(uint64_t hash, std::string_view bytes) {
  for (unsigned char c : bytes) hash = (hash ^ c) * 0x100000001b3ULL;
  return (hash ^ bytes.size()) * 0x100000001b3ULL;
}

constexpr uint64_t kHashStart = 0xcbf29ce484222325ULL;

std::string KeyOf(uint64_t index) {
  char buf[32];
  snprintf(buf, sizeof(buf), "%016llx", static_cast<unsigned long long>(index));
  return buf;
}

std::string ValueOf(uint64_t index, uint64_t size, uint64_t seed) {
  uint64_t state = seed * 0x2545f4914f6cdd1dULL ^ index;
  std::string value(size, '\0');
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = SplitMix(state);
    memcpy(value.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return value;
}

// A permutation of 0..n-1 and its inverse: the scattered order of a fill.
class Order {
 public:
  Order(uint64_t n, uint64_t seed) : step_of_(n), index_of_(n) {
    uint64_t state = seed;
    for (uint64_t i = 0; i < n; ++i) index_of_[i] = i;
    for (uint64_t i = n; i > 1; --i) std::swap(index_of_[i - 1], index_of_[SplitMix(state) % i]);
    for (uint64_t s = 0; s < n; ++s) step_of_[index_of_[s]] = s;
  }
  uint64_t IndexAt(uint64_t step) const { return index_of_[step]; }
  uint64_t StepOf(uint64_t index) const { return step_of_[index]; }

 private:
  std::vector<uint64_t> step_of_;
  std::vector<uint64_t> index_of_;
};

// Prints what failed and gives the exit status.
int Fail(const std::string& what) {
  fprintf(stderr, "db_check: %s\n", what.c_str());
  return kFailed;
}

int Fail(const std::string& what, const rocksdb::Status& status) {
  return Fail(what + ": " + status.ToString());
}

bool ParseNumber(const char* text, uint64_t* out) {
  char* end = nullptr;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

// Owns the Env made from the URI, so it must outlive every DB opened through it.
class Session {
 public:
  explicit Session(const Flags& flags) : flags_(flags) {}

  rocksdb::Status Prepare() {
    if (flags_.fs_uri.empty()) return rocksdb::Status::OK();
    rocksdb::ConfigOptions config;
    config.ignore_unsupported_options = false;  // an unknown scheme is an error, not a null
    return rocksdb::Env::CreateFromUri(config, "", flags_.fs_uri, &env_, &env_guard_);
  }

  // Small tables and four background jobs: many flushes and compactions side by side.
  rocksdb::Options MakeOptions(bool writing) const {
    rocksdb::Options o;
    o.env = env_;
    o.create_if_missing = writing;
    o.write_buffer_size = flags_.write_buffer;
    o.target_file_size_base = flags_.table_size ? flags_.table_size : flags_.write_buffer;
    o.max_bytes_for_level_base = 4 * flags_.write_buffer;
    o.level0_file_num_compaction_trigger = 2;
    o.max_background_jobs = 4;
    o.max_subcompactions = 2;
    o.compression = rocksdb::kNoCompression;
    o.disable_auto_compactions = !writing;
    o.info_log_level = rocksdb::INFO_LEVEL;
    if (flags_.blob) {
      o.enable_blob_files = true;
      o.min_blob_size = 256;
      o.blob_file_size = 2 * flags_.write_buffer;
      o.enable_blob_garbage_collection = true;
    }
    if (flags_.direct) {
      o.use_direct_reads = true;
      o.use_direct_io_for_flush_and_compaction = true;
    }
    rocksdb::Status s = rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(),
                                                                 "stringappend", &o.merge_operator);
    if (!s.ok()) fprintf(stderr, "db_check: no merge operator: %s\n", s.ToString().c_str());
    return o;
  }

  rocksdb::Status Open(const std::string& path, bool writing, std::unique_ptr<rocksdb::DB>* db) {
    rocksdb::DB* raw = nullptr;
    rocksdb::Status s = flags_.read_only && !writing
                            ? rocksdb::DB::OpenForReadOnly(MakeOptions(writing), path, &raw)
                            : rocksdb::DB::Open(MakeOptions(writing), path, &raw);
    db->reset(raw);
    return s;
  }

  rocksdb::Env* env() const { return env_; }

 private:
  const Flags& flags_;
  std::shared_ptr<rocksdb::Env> env_guard_;
  rocksdb::Env* env_ = rocksdb::Env::Default();
};

// The count of acknowledged writes, kept in a file that outlives a killed process.
class AckedFile {
 public:
  ~AckedFile() {
    if (fd_ >= 0) close(fd_);
  }
  bool Open(const std::string& path) {
    if (path.empty()) return true;
    fd_ = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    return fd_ >= 0 && Set(0);
  }
  bool Set(uint64_t count) {
    if (fd_ < 0) return true;
    char buf[32];
    const int n = snprintf(buf, sizeof(buf), "%020llu\n", static_cast<unsigned long long>(count));
    return pwrite(fd_, buf, static_cast<size_t>(n), 0) == n;
  }

 private:
  int fd_ = -1;
};

int FillCommand(const Flags& flags, const std::string& path, uint64_t n, uint64_t value_size,
                uint64_t seed) {
  Session session(flags);
  std::unique_ptr<rocksdb::DB> db;
  if (auto s = session.Prepare(); !s.ok()) return Fail("file system " + flags.fs_uri, s);
  if (auto s = session.Open(path, true, &db); !s.ok()) return Fail("open " + path, s);
  AckedFile acked;
  if (!acked.Open(flags.acked)) return Fail("cannot write " + flags.acked);
  const Order order(n, seed);
  uint64_t done = 0;
  auto stopped = [&](const char* at, const rocksdb::Status& s) {
    acked.Set(done);
    fprintf(stderr, "db_check: %s stopped after %llu acknowledged writes: %s\n", at,
            static_cast<unsigned long long>(done), s.ToString().c_str());
    // Close reports the same error once more; what counts is that it returns.
    rocksdb::Status closed = db->Close();
    if (!closed.ok()) fprintf(stderr, "db_check: close: %s\n", closed.ToString().c_str());
    return kStopped;
  };
  for (uint64_t round = 0; round < flags.rounds; ++round) {
    for (uint64_t step = 0; step < n; ++step) {
      const uint64_t index = order.IndexAt(step);
      auto s =
          db->Put(rocksdb::WriteOptions(), KeyOf(index), ValueOf(index, value_size, seed + round));
      if (!s.ok()) return stopped("put", s);
      ++done;
      if (!acked.Set(done)) return Fail("cannot write " + flags.acked);
    }
  }
  if (auto s = db->Flush(rocksdb::FlushOptions()); !s.ok()) return stopped("flush", s);
  if (auto s = db->Close(); !s.ok()) return Fail("close " + path, s);
  printf("fill: %llu writes\n", static_cast<unsigned long long>(done));
  return 0;
}

// Which rounds a key may show when only the first `first` writes were acknowledged. An
// unacknowledged later write may or may not be there, so every later round is allowed.
struct Allowed {
  bool absent;
  uint64_t from_round;
};

Allowed AllowedFor(uint64_t step, uint64_t n, uint64_t rounds, uint64_t first) {
  if (first > n * rounds) first = n * rounds;
  if (step >= first) return {true, 0};
  return {false, (first - 1 - step) / n};
}

int VerifyCommand(const Flags& flags, const std::string& path, uint64_t n, uint64_t value_size,
                  uint64_t seed) {
  Session session(flags);
  std::unique_ptr<rocksdb::DB> db;
  if (auto s = session.Prepare(); !s.ok()) return Fail("file system " + flags.fs_uri, s);
  if (auto s = session.Open(path, false, &db); !s.ok()) return Fail("open " + path, s);
  const Order order(n, seed);
  std::vector<bool> seen(n);
  uint64_t count = 0;
  auto matches = [&](uint64_t index, std::string_view value) {
    const Allowed allowed = AllowedFor(order.StepOf(index), n, flags.rounds, flags.first);
    for (uint64_t r = allowed.from_round; r < flags.rounds; ++r) {
      if (value == ValueOf(index, value_size, seed + r)) return true;
    }
    return false;
  };
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++count) {
    const std::string key = it->key().ToString();
    const uint64_t index = strtoull(key.c_str(), nullptr, 16);
    if (index >= n || KeyOf(index) != key) return Fail("key that was never written: " + key);
    if (!matches(index, it->value().ToStringView())) return Fail("wrong value of key " + key);
    seen[index] = true;
  }
  if (!it->status().ok()) return Fail("iterate " + path, it->status());
  it.reset();
  for (uint64_t index = 0; index < n; ++index) {
    const Allowed allowed = AllowedFor(order.StepOf(index), n, flags.rounds, flags.first);
    if (!seen[index] && !allowed.absent) return Fail("lost acknowledged key " + KeyOf(index));
  }
  // The iterator has compared every key; point lookups take the other read path.
  const uint64_t stride = n > 20000 ? n / 20000 : 1;
  std::string value;
  for (uint64_t index = 0; index < n; index += stride) {
    auto s = db->Get(rocksdb::ReadOptions(), KeyOf(index), &value);
    if (s.IsNotFound() && !seen[index]) continue;
    if (!s.ok()) return Fail("get " + KeyOf(index), s);
    if (!matches(index, value)) return Fail("wrong value from get of key " + KeyOf(index));
  }
  if (auto s = db->VerifyChecksum(); !s.ok()) return Fail("verify checksums of " + path, s);
  if (auto s = db->Close(); !s.ok()) return Fail("close " + path, s);
  printf("verify: %llu keys\n", static_cast<unsigned long long>(count));
  return 0;
}

int ScanCommand(const Flags& flags, const std::string& path) {
  Session session(flags);
  std::unique_ptr<rocksdb::DB> db;
  if (auto s = session.Prepare(); !s.ok()) return Fail("file system " + flags.fs_uri, s);
  if (auto s = session.Open(path, false, &db); !s.ok()) return Fail("open " + path, s);
  uint64_t count = 0;
  uint64_t hash = kHashStart;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++count) {
    hash = Roll(Roll(hash, it->key().ToStringView()), it->value().ToStringView());
  }
  if (!it->status().ok()) return Fail("iterate " + path, it->status());
  it.reset();
  if (auto s = db->VerifyChecksum(); !s.ok()) return Fail("verify checksums of " + path, s);
  if (auto s = db->Close(); !s.ok()) return Fail("close " + path, s);
  printf("scan: %llu keys, hash %016llx\n", static_cast<unsigned long long>(count),
         static_cast<unsigned long long>(hash));
  return 0;
}

using Model = std::map<std::string, std::string>;

// Compares a whole database with a model; empty text means equal.
std::string Difference(rocksdb::DB* db, const Model& model) {
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  auto want = model.begin();
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string key = it->key().ToString();
    if (want == model.end() || key < want->first) return "key that must not exist: " + key;
    if (key > want->first) return "missing key " + want->first;
    if (it->value().ToStringView() != want->second) return "wrong value of key " + key;
    ++want;
  }
  if (!it->status().ok()) return "iterate: " + it->status().ToString();
  if (want != model.end()) return "missing key " + want->first;
  return "";
}

// Runs a seeded sequence of operations on a DB and on a model of it.
class MixedRun {
 public:
  MixedRun(const Flags& flags, std::string path, uint64_t seed)
      : session_(flags), path_(std::move(path)), state_(seed) {}

  int Run(uint64_t ops, const std::string& model_path) {
    if (auto s = session_.Prepare(); !s.ok()) return Fail("file system", s);
    if (auto s = session_.Open(path_, true, &db_); !s.ok()) return Fail("open " + path_, s);
    const uint64_t leg = ops / 4 + 1;
    for (uint64_t op = 0; op < ops; ++op) {
      auto s = Step();
      if (!s.ok()) return Fail("operation " + std::to_string(op) + " (" + what_ + ")", s);
      if (!wrong_.empty()) return Fail("operation " + std::to_string(op) + ": " + wrong_);
      if ((op + 1) % leg == 0) {
        if (auto r = Reopen(); !r.ok()) return Fail("reopen " + path_, r);
        if (auto d = Difference(db_.get(), model_); !d.empty()) return Fail("after reopen: " + d);
      }
    }
    if (auto s = Checkpoint(); !s.ok()) return Fail("checkpoint " + path_ + ".ckpt", s);
    if (auto s = db_->VerifyChecksum(); !s.ok()) return Fail("verify checksums", s);
    if (auto d = Difference(db_.get(), model_); !d.empty()) return Fail(d);
    if (auto s = db_->Close(); !s.ok()) return Fail("close " + path_, s);
    printf("mixed: %zu keys\n", model_.size());
    return WriteModel(model_path);
  }

 private:
  static constexpr uint64_t kKeys = 20000;

  uint64_t Rand(uint64_t below) { return SplitMix(state_) % below; }
  std::string RandomKey() { return KeyOf(Rand(kKeys)); }
  std::string RandomValue() {
    const uint64_t tag = SplitMix(state_);
    return ValueOf(tag, 20 + Rand(Rand(50) == 0 ? 100000 : 1500), tag);
  }

  rocksdb::Status Step() {
    const uint64_t dice = Rand(10000);
    if (dice < 6200) return Put();
    if (dice < 7400) return Delete();
    if (dice < 8400) return Merge();
    if (dice < 9900) return Read();
    if (dice < 9930) return DeleteRange();
    if (dice < 9960) return Flush();
    if (dice < 9980) return Compact();
    return Ingest();
  }

  rocksdb::Status Put() {
    what_ = "put";
    const std::string key = RandomKey();
    return db_->Put(rocksdb::WriteOptions(), key, model_[key] = RandomValue());
  }

  rocksdb::Status Delete() {
    what_ = "delete";
    const std::string key = RandomKey();
    model_.erase(key);
    return db_->Delete(rocksdb::WriteOptions(), key);
  }

  rocksdb::Status Merge() {
    what_ = "merge";
    const std::string key = RandomKey();
    const std::string operand = KeyOf(SplitMix(state_));
    if (auto [at, fresh] = model_.try_emplace(key, operand); !fresh) at->second += "," + operand;
    return db_->Merge(rocksdb::WriteOptions(), key, operand);
  }

  rocksdb::Status Read() {
    what_ = "get";
    const std::string key = RandomKey();
    std::string value;
    auto s = db_->Get(rocksdb::ReadOptions(), key, &value);
    const auto want = model_.find(key);
    if (s.IsNotFound()) {
      if (want != model_.end()) wrong_ = "get lost key " + key;
      return rocksdb::Status::OK();
    }
    if (s.ok() && (want == model_.end() || want->second != value)) {
      wrong_ = "get of key " + key + " returned another value";
    }
    return s;
  }

  rocksdb::Status DeleteRange() {
    what_ = "delete range";
    const uint64_t from = Rand(kKeys);
    const std::string begin = KeyOf(from), end = KeyOf(from + 1 + Rand(200));
    model_.erase(model_.lower_bound(begin), model_.lower_bound(end));
    return db_->DeleteRange(rocksdb::WriteOptions(), db_->DefaultColumnFamily(), begin, end);
  }

  rocksdb::Status Flush() {
    what_ = "flush";
    return db_->Flush(rocksdb::FlushOptions());
  }

  rocksdb::Status Compact() {
    what_ = "compact range";
    const uint64_t from = Rand(kKeys);
    const std::string begin = KeyOf(from), end = KeyOf(from + kKeys / 4);
    const rocksdb::Slice b(begin), e(end);
    return db_->CompactRange(rocksdb::CompactRangeOptions(), &b, &e);
  }

  rocksdb::Status Ingest() {
    what_ = "ingest";
    const std::string file = path_ + ".ingest.sst";
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), session_.MakeOptions(true));
    if (auto s = writer.Open(file); !s.ok()) return s;
    const uint64_t from = Rand(kKeys);
    for (uint64_t i = 0; i < 100; ++i) {
      const std::string key = KeyOf(from + i);
      if (auto s = writer.Put(key, model_[key] = RandomValue()); !s.ok()) return s;
    }
    if (auto s = writer.Finish(); !s.ok()) return s;
    rocksdb::IngestExternalFileOptions options;
    options.move_files = Rand(2) == 0;
    auto s = db_->IngestExternalFile({file}, options);
    // A moved file may already be gone; only a file that stays can be in the next one's way.
    if (session_.env()->FileExists(file).ok() && s.ok()) s = session_.env()->DeleteFile(file);
    return s;
  }

  rocksdb::Status Reopen() {
    if (auto s = db_->Close(); !s.ok()) return s;
    db_.reset();
    return session_.Open(path_, true, &db_);
  }

  rocksdb::Status Checkpoint() {
    rocksdb::Checkpoint* raw = nullptr;
    if (auto s = rocksdb::Checkpoint::Create(db_.get(), &raw); !s.ok()) return s;
    std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
    return checkpoint->CreateCheckpoint(path_ + ".ckpt");
  }

  int WriteModel(const std::string& model_path) const {
    std::ofstream out(model_path);
    for (const auto& [key, value] : model_) {
      out << key << ' ' << value.size() << ' ' << Roll(kHashStart, value) << '\n';
    }
    out.close();
    return out ? 0 : Fail("cannot write " + model_path);
  }

  Session session_;
  const std::string path_;
  uint64_t state_;
  Model model_;
  std::string what_;
  std::string wrong_;
  std::unique_ptr<rocksdb::DB> db_;
};

int MixedVerifyCommand(const Flags& flags, const std::string& path, const std::string& model_path) {
  Session session(flags);
  std::unique_ptr<rocksdb::DB> db;
  if (auto s = session.Prepare(); !s.ok()) return Fail("file system " + flags.fs_uri, s);
  if (auto s = session.Open(path, false, &db); !s.ok()) return Fail("open " + path, s);
  std::ifstream model(model_path);
  if (!model) return Fail("cannot read " + model_path);
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  it->SeekToFirst();
  std::string key, value;
  uint64_t size = 0, hash = 0, count = 0;
  for (; model >> key >> size >> hash; it->Next(), ++count) {
    if (!it->Valid()) {
      if (!it->status().ok()) return Fail("iterate " + path, it->status());
      return Fail("missing key " + key + " and all after it");
    }
    if (it->key() != key) return Fail("found key " + it->key().ToString() + ", wanted " + key);
    if (it->value().size() != size || Roll(kHashStart, it->value().ToStringView()) != hash) {
      return Fail("wrong value of key " + key);
    }
    if (auto s = db->Get(rocksdb::ReadOptions(), key, &value); !s.ok())
      return Fail("get " + key, s);
    if (Roll(kHashStart, value) != hash) return Fail("wrong value from get of key " + key);
  }
  if (it->Valid()) return Fail("key that must not exist: " + it->key().ToString());
  if (!it->status().ok()) return Fail("iterate " + path, it->status());
  it.reset();
  if (auto s = db->VerifyChecksum(); !s.ok()) return Fail("verify checksums of " + path, s);
  if (auto s = db->Close(); !s.ok()) return Fail("close " + path, s);
  printf("mixed-verify: %llu keys\n", static_cast<unsigned long long>(count));
  return 0;
}

int Usage(const std::string& why) {
  fprintf(stderr, "db_check: %s\n%s", why.c_str(), kHelp);
  return kUsage;
}

// Splits flags from positional arguments; empty text means it went well.
std::string ParseFlags(int argc, char** argv, Flags* flags, std::vector<std::string>* args) {
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--", 0) != 0) {
      args->push_back(arg);
      continue;
    }
    if (arg == "--blob") {
      flags->blob = true;
    } else if (arg == "--direct") {
      flags->direct = true;
    } else if (arg == "--read-only") {
      flags->read_only = true;
    } else if (i + 1 >= argc) {
      return "unknown flag or missing value: " + arg;
    } else if (const char* value = argv[++i]; arg == "--fs-uri") {
      flags->fs_uri = value;
    } else if (arg == "--acked") {
      flags->acked = value;
    } else {
      uint64_t number = 0;
      if (!ParseNumber(value, &number)) return "not a number for " + arg + ": " + value;
      if (arg == "--rounds" && number > 0) {
        flags->rounds = number;
      } else if (arg == "--first") {
        flags->first = number;
      } else if (arg == "--write-buffer") {
        flags->write_buffer = number;
      } else if (arg == "--table-size") {
        flags->table_size = number;
      } else {
        return "unknown flag " + arg;
      }
    }
  }
  return "";
}

int Main(int argc, char** argv) {
  Flags flags;
  std::vector<std::string> args;
  if (auto why = ParseFlags(argc, argv, &flags, &args); !why.empty()) return Usage(why);
  if (args.empty()) return Usage("no command");
  const std::string command = args[0];
  if (command == "fill" || command == "verify") {
    uint64_t n = 0, value_size = 0, seed = 0;
    if (args.size() != 5 || !ParseNumber(args[2].c_str(), &n) || n == 0 ||
        !ParseNumber(args[3].c_str(), &value_size) || !ParseNumber(args[4].c_str(), &seed)) {
      return Usage(command + " takes DB N VALUESIZE SEED");
    }
    return command == "fill" ? FillCommand(flags, args[1], n, value_size, seed)
                             : VerifyCommand(flags, args[1], n, value_size, seed);
  }
  if (command == "scan" && args.size() == 2) return ScanCommand(flags, args[1]);
  if (command == "mixed-verify" && args.size() == 3) {
    return MixedVerifyCommand(flags, args[1], args[2]);
  }
  if (command == "mixed") {
    uint64_t seed = 0, ops = 0;
    if (args.size() != 5 || !ParseNumber(args[2].c_str(), &seed) ||
        !ParseNumber(args[3].c_str(), &ops)) {
      return Usage("mixed takes DB SEED OPS MODEL");
    }
    return MixedRun(flags, args[1], seed).Run(ops, args[4]);
  }
  return Usage("unknown command or wrong number of arguments: " + command);
}

}  // namespace

int main(int argc, char** argv) { return Main(argc, argv); }
