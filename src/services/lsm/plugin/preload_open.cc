// DB::Open and its like of a preloaded object stand before RocksDB's own. For databases of an
// unmodified program
//   PULSE_URI decides on which file system they are (preload_default_env.h), and fails an open with
//     the reason where that cannot be had;
//   placement=whole, placement=adaptive and flushes= get what PlaceCompactions sets up, before
//     RocksDB 10;
//   compression=agent gets what CompressOnAgent sets up, in all column families.
// All others go through unchanged.
#include <dlfcn.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pulse/rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/transaction_db.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/plugin/placer_hooks.h"
#include "services/lsm/plugin/preload_default_env.h"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::Options;
using rocksdb::Status;
using rocksdb::TransactionDB;
using rocksdb::TransactionDBOptions;

using Families = std::vector<ColumnFamilyDescriptor>;
using Handles = std::vector<ColumnFamilyHandle*>;
// What a database is opened into.
#if PULSE_ROCKSDB_AT_LEAST(9, 11)
using Opened = std::unique_ptr<DB>;
#else
using Opened = DB*;
#endif
constexpr bool kPlaces = !PULSE_ROCKSDB_AT_LEAST(10, 0);

// The function of the same name in the next object: RocksDB's.
template <typename Function>
Function Next(Function mine) {
  Dl_info info;
  void* next = nullptr;
  if (dladdr(reinterpret_cast<void*>(mine), &info) != 0 && info.dli_sname != nullptr) {
    next = dlsym(RTLD_NEXT, info.dli_sname);
  }
  return reinterpret_cast<Function>(next);
}

// RocksDB's structures are those that this object was built with.
bool IsKnownVersion() {
  static const bool known = pulse::RegisterRocksDb().ok();
  return known;
}

bool IsOurs(const DBOptions& options) {
  pulse::Stats stats;
  return options.compaction_service == nullptr && !pulse::lsm::HasPlacer(options) &&
         options.env != nullptr && pulse::GetStats(options.env->GetFileSystem().get(), &stats);
}

Status Compress(Options* options) {
  pulse::CompressOnAgent(options->env->GetFileSystem().get(), options);
  return Status::OK();
}
Status Compress(DBOptions* options, Families* families) {
  for (ColumnFamilyDescriptor& f : *families) {
    pulse::CompressOnAgent(options->env->GetFileSystem().get(), &f.options);
  }
  return Status::OK();
}
Status Place(Options* options) {
  return kPlaces ? pulse::PlaceCompactions(options) : Compress(options);
}
Status Place(DBOptions* options, Families* families) {
  const Status s = Compress(options, families);
  return kPlaces ? pulse::PlaceCompactions(options, *families) : s;
}

// RocksDB's opens call one another.
thread_local int opens_under_way = 0;
struct Nesting {
  Nesting() { ++opens_under_way; }
  ~Nesting() { --opens_under_way; }
};

// Calls `next` with `options`, once they are what the environment asks for; with those of the
// program where RocksDB is of another version, unless the environment asks for anything.
// `place`: sets the placement of compactions up.
template <typename AnyOptions, typename Place, typename Call>
Status Prepared(const void* next, const AnyOptions& options, const std::string& name,
                const Place& place, const Call& call) {
  if (next == nullptr) {
    return Status::NotSupported(
        "libpulse_rocksdb stands before DB::Open and finds none behind it: link or preload it "
        "beside a shared RocksDB");
  }
  if (!IsKnownVersion()) {
    Status s = pulse::lsm::PrepareDefaultEnv(name, nullptr, /*nested=*/false, nullptr);
    return s.ok() ? call(options) : s;
  }
  AnyOptions mine(options);
  bool left_out = false;
  Status s = pulse::lsm::PrepareDefaultEnv(name, &mine, /*nested=*/opens_under_way > 0, &left_out);
  if (s.ok() && !left_out && IsOurs(mine)) s = place(&mine);
  if (!s.ok()) return s;
  const Nesting nesting;
  return call(mine);
}

constexpr auto kNoPlacement = [](const auto*) { return Status::OK(); };

}  // namespace

#define PULSE_INTERPOSED __attribute__((visibility("default")))

namespace rocksdb {

PULSE_INTERPOSED Status DB::Open(const Options& options, const std::string& name, Opened* db) {
  using Function = Status (*)(const Options&, const std::string&, Opened*);
  static const auto next = Next<Function>(&DB::Open);
  return Prepared(
      reinterpret_cast<const void*>(next), options, name, [](Options* o) { return Place(o); },
      [&](const Options& o) { return next(o, name, db); });
}

PULSE_INTERPOSED Status DB::Open(const DBOptions& options, const std::string& name,
                                 const std::vector<ColumnFamilyDescriptor>& families,
                                 std::vector<ColumnFamilyHandle*>* handles, Opened* db) {
  using Function =
      Status (*)(const DBOptions&, const std::string&, const Families&, Handles*, Opened*);
  static const auto next = Next<Function>(&DB::Open);
  std::optional<Families> mine;  // a RocksDB of another version has others, not to be copied
  return Prepared(
      reinterpret_cast<const void*>(next), options, name,
      [&](DBOptions* o) { return Place(o, &mine.emplace(families)); },
      [&](const DBOptions& o) { return next(o, name, mine ? *mine : families, handles, db); });
}

PULSE_INTERPOSED Status DB::OpenForReadOnly(const Options& options, const std::string& name,
                                            Opened* db, bool refuses_logs) {
  using Function = Status (*)(const Options&, const std::string&, Opened*, bool);
  static const auto next = Next<Function>(&DB::OpenForReadOnly);
  return Prepared(reinterpret_cast<const void*>(next), options, name, kNoPlacement,
                  [&](const Options& o) { return next(o, name, db, refuses_logs); });
}

PULSE_INTERPOSED Status DB::OpenForReadOnly(const DBOptions& options, const std::string& name,
                                            const std::vector<ColumnFamilyDescriptor>& families,
                                            std::vector<ColumnFamilyHandle*>* handles, Opened* db,
                                            bool refuses_logs) {
  using Function =
      Status (*)(const DBOptions&, const std::string&, const Families&, Handles*, Opened*, bool);
  static const auto next = Next<Function>(&DB::OpenForReadOnly);
  return Prepared(
      reinterpret_cast<const void*>(next), options, name, kNoPlacement,
      [&](const DBOptions& o) { return next(o, name, families, handles, db, refuses_logs); });
}

PULSE_INTERPOSED Status DB::OpenAsSecondary(const Options& options, const std::string& name,
                                            const std::string& own, Opened* db) {
  using Function = Status (*)(const Options&, const std::string&, const std::string&, Opened*);
  static const auto next = Next<Function>(&DB::OpenAsSecondary);
  return Prepared(reinterpret_cast<const void*>(next), options, name, kNoPlacement,
                  [&](const Options& o) { return next(o, name, own, db); });
}

PULSE_INTERPOSED Status DB::OpenAsSecondary(const DBOptions& options, const std::string& name,
                                            const std::string& own,
                                            const std::vector<ColumnFamilyDescriptor>& families,
                                            std::vector<ColumnFamilyHandle*>* handles, Opened* db) {
  using Function = Status (*)(const DBOptions&, const std::string&, const std::string&,
                              const Families&, Handles*, Opened*);
  static const auto next = Next<Function>(&DB::OpenAsSecondary);
  return Prepared(reinterpret_cast<const void*>(next), options, name, kNoPlacement,
                  [&](const DBOptions& o) { return next(o, name, own, families, handles, db); });
}

// Does not come past DB::Open.
PULSE_INTERPOSED Status TransactionDB::Open(const Options& options,
                                            const TransactionDBOptions& transactions,
                                            const std::string& name, TransactionDB** db) {
  using Function =
      Status (*)(const Options&, const TransactionDBOptions&, const std::string&, TransactionDB**);
  static const auto next = Next<Function>(&TransactionDB::Open);
  return Prepared(
      reinterpret_cast<const void*>(next), options, name, [](Options* o) { return Compress(o); },
      [&](const Options& o) { return next(o, transactions, name, db); });
}

PULSE_INTERPOSED Status TransactionDB::Open(const DBOptions& options,
                                            const TransactionDBOptions& transactions,
                                            const std::string& name,
                                            const std::vector<ColumnFamilyDescriptor>& families,
                                            std::vector<ColumnFamilyHandle*>* handles,
                                            TransactionDB** db) {
  using Function = Status (*)(const DBOptions&, const TransactionDBOptions&, const std::string&,
                              const Families&, Handles*, TransactionDB**);
  static const auto next = Next<Function>(&TransactionDB::Open);
  std::optional<Families> mine;
  return Prepared(
      reinterpret_cast<const void*>(next), options, name,
      [&](DBOptions* o) { return Compress(o, &mine.emplace(families)); },
      [&](const DBOptions& o) {
        return next(o, transactions, name, mine ? *mine : families, handles, db);
      });
}

}  // namespace rocksdb
