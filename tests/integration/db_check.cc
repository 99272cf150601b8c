// db_check: fills RocksDB databases with reproducible contents and checks every key of them.
//
// It links against RocksDB only. With --fs-uri it asks RocksDB's registry for the file system, so
// a preloaded plug-in is reached exactly as any unmodified program reaches it; without, it is
// stock RocksDB, which is how the tests show that what the plug-in wrote is readable without it.
//
// Exit status: 0 all is well, 1 a check or an operation failed, 2 bad usage, 3 a fill was stopped
// by a write error (what was acknowledged is then in the --acked file).

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>
#include <vector>

#include "db_check_mixed.h"
#include "db_check_session.h"

namespace db_check {
namespace {

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
  --secondary DIR     verify, scan, mixed-verify: open as secondary, whose own files are in DIR
  --transactions      open as TransactionDB
)";

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

bool ParseNumber(const char* text, uint64_t* out) {
  char* end = nullptr;
  errno = 0;
  *out = strtoull(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

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
    } else if (arg == "--transactions") {
      flags->transactions = true;
    } else if (i + 1 >= argc) {
      return "unknown flag or missing value: " + arg;
    } else if (const char* value = argv[++i]; arg == "--fs-uri") {
      flags->fs_uri = value;
    } else if (arg == "--secondary") {
      flags->secondary = value;
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
    return MixedCommand(flags, args[1], seed, ops, args[4]);
  }
  return Usage("unknown command or wrong number of arguments: " + command);
}

}  // namespace
}  // namespace db_check

int main(int argc, char** argv) { return db_check::Main(argc, argv); }
