// DB::Open of a preloaded object stands before RocksDB's own: databases of an unmodified program
// that are opened with placement=whole, placement=adaptive or flushes= get what PlaceCompactions
// sets up. All others go through unchanged.
#include <dlfcn.h>

#include "pulse/rocksdb.h"
#include "rocksdb/db.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/plugin/placer_hooks.h"

#if !PULSE_ROCKSDB_AT_LEAST(10, 0)  // later ones open into a std::unique_ptr

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::Options;
using rocksdb::Status;

using OpenOne = Status (*)(const Options&, const std::string&, DB**);
using OpenFamilies = Status (*)(const DBOptions&, const std::string&,
                                const std::vector<ColumnFamilyDescriptor>&,
                                std::vector<ColumnFamilyHandle*>*, DB**);

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

bool IsOurs(const DBOptions& options) {
  pulse::Stats stats;
  return options.compaction_service == nullptr && !pulse::lsm::HasPlacer(options) &&
         options.env != nullptr && pulse::GetStats(options.env->GetFileSystem().get(), &stats);
}

Status NotFound() {
  return Status::NotSupported(
      "libpulse_rocksdb stands before DB::Open and finds none behind it: link or preload it beside "
      "a shared RocksDB");
}

}  // namespace

namespace rocksdb {

__attribute__((visibility("default"))) Status DB::Open(const Options& options,
                                                       const std::string& name, DB** db) {
  static const OpenOne next = Next<OpenOne>(&DB::Open);
  if (next == nullptr) return NotFound();
  if (!IsOurs(options)) return next(options, name, db);
  Options placed(options);
  Status s = pulse::PlaceCompactions(&placed);
  return s.ok() ? next(placed, name, db) : s;
}

__attribute__((visibility("default"))) Status DB::Open(
    const DBOptions& options, const std::string& name,
    const std::vector<ColumnFamilyDescriptor>& families, std::vector<ColumnFamilyHandle*>* handles,
    DB** db) {
  static const OpenFamilies next = Next<OpenFamilies>(&DB::Open);
  if (next == nullptr) return NotFound();
  if (!IsOurs(options)) return next(options, name, families, handles, db);
  DBOptions placed(options);
  Status s = pulse::PlaceCompactions(&placed, families);
  return s.ok() ? next(placed, name, families, handles, db) : s;
}

}  // namespace rocksdb

#endif
