#include "services/lsm/plugin/preload_default_env.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "pulse/rocksdb.h"
#include "rocksdb/env.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/plugin/preload_file_system.h"
#include "services/lsm/plugin/preload_path_match.h"

namespace pulse::lsm {
namespace {

// What the environment has asked for. Set before main, never changed and never destroyed.
struct Wish {
  std::string uri;
  const RoutedFileSystem* routed = nullptr;  // the default Env's; null: the reason is in `refusal`
  absl::Status refusal;
};
const Wish* wish = nullptr;

// An Env's FileSystem is a protected member of the class that RocksDB's header declares.
class EnvAccess : public rocksdb::Env {
 public:
  static void SetFileSystem(rocksdb::Env* env, std::shared_ptr<FileSystem> fs) {
    env->*(&EnvAccess::file_system_) = std::move(fs);
  }
};

// The default Env as it was, for databases that the list leaves out.
rocksdb::Env* PlainEnv() {
  static rocksdb::Env* const env = rocksdb::NewCompositeEnv(FileSystem::Default()).release();
  return env;
}

// PulseDB's own programs say themselves what goes through the plug-in. They export this name.
bool IsOwnProgram() { return dlsym(RTLD_DEFAULT, "pulse_own_program") != nullptr; }

// Among the loaded objects.
struct Search {
  const void* here;       // an address in this object
  const void* rocksdb;    // one in the RocksDB that it uses
  std::string with_copy;  // an object that has another one inside
};

bool Covers(const dl_phdr_info& object, const void* address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (segment.p_type == PT_LOAD && at >= begin && at - begin < segment.p_memsz) return true;
  }
  return false;
}

bool HasConstant(const dl_phdr_info& object, absl::string_view text) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0 ||
        (segment.p_flags & PF_W) != 0) {
      continue;
    }
    if (memmem(reinterpret_cast<const void*>(object.dlpi_addr + segment.p_vaddr), segment.p_filesz,
               text.data(), text.size()) != nullptr) {
      return true;
    }
  }
  return false;
}

// Every RocksDB has the names of its counters and of its comparator in its constants. A program
// that only reads counters has no comparator.
bool HasRocksDbInside(const dl_phdr_info& object) {
  return HasConstant(object, "rocksdb.block.cache.index.miss") &&
         HasConstant(object, "leveldb.BytewiseComparator");
}

// What to do with a RocksDB that the plug-in cannot serve.
bool FallsBackToStock() {
  const char* fallback = std::getenv("PULSE_FALLBACK");
  return fallback != nullptr && absl::string_view(fallback) == "stock";
}

// Nothing of this program goes through the plug-in, so no open can be refused; the program ends
// before it opens anything, unless it may run without PulseDB.
void RefuseOwnCopy(const std::string& object) {
  const std::string what =
      absl::StrCat("PULSE_URI does not reach ", object,
                   ": it has a RocksDB of its own inside, so its databases are not on PulseDB");
  if (FallsBackToStock()) {
    Log(LogLevel::kWarn, absl::StrCat(what, ". It runs on, as PULSE_FALLBACK=stock says"));
    return;
  }
  Log(LogLevel::kError,
      absl::StrCat(what,
                   ". Link it with a shared librocksdb, or link the plug-in into it; with "
                   "PULSE_FALLBACK=stock it runs without PulseDB. It ends here"));
  std::_Exit(1);
}

int Look(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  if (Covers(*object, search.here) || Covers(*object, search.rocksdb)) return 0;
  const absl::string_view name = object->dlpi_name == nullptr ? "" : object->dlpi_name;
  if (absl::StrContains(name, "linux-vdso")) return 0;
  if (search.with_copy.empty() && HasRocksDbInside(*object)) {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    search.with_copy = name.empty() && !error ? self.string() : std::string(name);
  }
  return 0;
}

}  // namespace

void InstallDefaultEnv() {
  const char* uri = std::getenv("PULSE_URI");
  if (uri == nullptr || *uri == '\0' || IsOwnProgram()) return;
  if (const rocksdb::Status version = RegisterRocksDb(); !version.ok()) {
    // Nothing of an Env of another layout is touched.
    const std::string why = absl::StrCat("PULSE_URI=", uri, ": ", version.getState());
    if (FallsBackToStock()) {
      Log(LogLevel::kWarn, absl::StrCat(why, ". It runs on, as PULSE_FALLBACK=stock says"));
      return;
    }
    Wish& made = *new Wish;
    made.refusal = absl::FailedPreconditionError(why);
    wish = &made;
    Log(LogLevel::kError, made.refusal.message());
    return;
  }
  Wish& made = *new Wish;
  made.uri = uri;
  wish = &made;
  rocksdb::Env* const env = rocksdb::Env::Default();
  const char* list = std::getenv("PULSE_MATCH");
  const std::shared_ptr<RoutedFileSystem> routed = RoutedFileSystem::Create(
      made.uri, list == nullptr ? absl::StatusOr<PathMatch>(PathMatch()) : PathMatch::Parse(list),
      env->GetFileSystem());
  made.routed = routed.get();
  EnvAccess::SetFileSystem(env, routed);

  Search search{&wish, reinterpret_cast<const void*>(&rocksdb::Env::Default), {}};
  dl_iterate_phdr(&Look, &search);
  if (!search.with_copy.empty()) RefuseOwnCopy(search.with_copy);
}

rocksdb::Status PrepareDefaultEnv(const std::string& name, rocksdb::DBOptions* options) {
  if (wish == nullptr) return rocksdb::Status::OK();
  if (wish->routed == nullptr) {
    return rocksdb::Status::NotSupported(std::string(wish->refusal.message()));
  }
  // As long as the Env has it, it is there.
  if (options->env == nullptr || options->env->GetFileSystem().get() != wish->routed) {
    return rocksdb::Status::OK();  // the program has chosen another one
  }
  if (!wish->routed->Matches(name)) {
    Log(LogLevel::kInfo, absl::StrCat(name, " is not on PulseDB: PULSE_MATCH leaves it out"));
    if (options->env == rocksdb::Env::Default()) options->env = PlainEnv();
    return rocksdb::Status::OK();
  }
  if (const auto fs = wish->routed->Pulse(); !fs.ok()) {
    return rocksdb::Status::IOError(std::string(fs.status().message()));
  }
  Log(LogLevel::kInfo, absl::StrCat(name, " is on PulseDB: ", wish->uri));
  return rocksdb::Status::OK();
}

}  // namespace pulse::lsm
