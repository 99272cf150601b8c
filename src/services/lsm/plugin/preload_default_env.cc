#include "services/lsm/plugin/preload_default_env.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "pulse/rocksdb.h"
#include "rocksdb/env.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/plugin/preload_file_system.h"
#include "services/lsm/plugin/preload_path_match.h"

namespace pulse::lsm {
namespace {

// What the environment has asked for. Set before main, never changed and never destroyed.
struct PreloadSettings {
  std::string uri;
  const RoutedFileSystem* routed = nullptr;  // the default Env's; null: the reason is in `refusal`
  absl::Status refusal;
};
const PreloadSettings* settings = nullptr;

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

// What is loaded, the program or a library, and whether it has a RocksDB inside.
struct Object {
  std::string name;                 // the path
  std::vector<std::string> needed;  // what it is linked with
  bool is_program = false;
  bool is_plugin = false;  // this object
  bool is_bound = false;   // the plug-in calls the RocksDB in it
  bool has_copy = false;   // of those that are neither
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

std::vector<std::string> NeededBy(const dl_phdr_info& object) {
  std::vector<std::string> needed;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    if (object.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const auto* const entries =
        reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + object.dlpi_phdr[i].p_vaddr);
    const char* names = nullptr;
    for (const auto* entry = entries; entry->d_tag != DT_NULL; ++entry) {
      // The loader has made it an address.
      if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    }
    for (const auto* entry = entries; names != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_NEEDED) needed.emplace_back(names + entry->d_un.d_val);
    }
  }
  return needed;
}

int AddObject(dl_phdr_info* loaded, size_t, void* data) {
  auto& objects = *static_cast<std::vector<Object>*>(data);
  const absl::string_view name = loaded->dlpi_name == nullptr ? "" : loaded->dlpi_name;
  if (absl::StrContains(name, "linux-vdso")) return 0;
  Object object;
  object.is_program = name.empty();
  object.name = std::string(name);
  if (object.is_program) {
    std::error_code error;
    object.name = std::filesystem::read_symlink("/proc/self/exe", error).string();
  }
  object.needed = NeededBy(*loaded);
  object.is_plugin = Covers(*loaded, &settings);
  object.is_bound = Covers(*loaded, reinterpret_cast<const void*>(&rocksdb::Env::Default));
  object.has_copy = !object.is_plugin && !object.is_bound && HasRocksDbInside(*loaded);
  objects.push_back(std::move(object));
  return 0;
}

bool Needs(const Object& object, const Object& library) {
  const std::string name = std::filesystem::path(library.name).filename().string();
  return std::find(object.needed.begin(), object.needed.end(), name) != object.needed.end();
}

// What the environment lets a program do whose RocksDB the plug-in cannot serve.
bool FallsBackToStock() {
  const char* fallback = secure_getenv("PULSE_FALLBACK");
  return fallback != nullptr && absl::string_view(fallback) == "stock";
}

std::string HowToFallBack() {
  const char* fallback = secure_getenv("PULSE_FALLBACK");
  if (fallback == nullptr || *fallback == '\0') {
    return "With PULSE_FALLBACK=stock the program runs without PulseDB";
  }
  return absl::StrCat("PULSE_FALLBACK=", fallback,
                      " is no value that PulseDB knows; with PULSE_FALLBACK=stock the program runs "
                      "without PulseDB");
}

// No open of the program can be refused, so it ends before it opens anything. At every PULSE_LOG:
// nothing else tells why it ended.
[[noreturn]] void End(absl::string_view why) {
  Say(absl::StrCat("pulsedb: ", why, ". The program ends here"), LogLevel::kError);
  std::_Exit(1);
}

const Object* FindObject(const std::vector<Object>& objects, bool Object::*is) {
  const auto found = std::find_if(objects.begin(), objects.end(), std::mem_fn(is));
  return found == objects.end() ? nullptr : &*found;
}

// The plug-in alone brings a RocksDB into each program. One that uses it has databases on it.
bool IsServed(const std::vector<Object>& objects) {
  const Object* const bound = FindObject(objects, &Object::is_bound);
  return bound != nullptr &&
         (bound->is_program || std::any_of(objects.begin(), objects.end(), [&](const Object& o) {
            return !o.is_plugin && Needs(o, *bound);
          }));
}

// Copies of RocksDB whose calls do not come past the plug-in. `may_be_meant`: PULSE_MATCH leaves
// databases out, and it cannot be told whether they are those of the copy.
void ReportOwnCopies(const std::vector<Object>& objects, bool may_be_meant) {
  const Object* const plugin = FindObject(objects, &Object::is_plugin);
  const bool served = IsServed(objects);
  for (const Object& object : objects) {
    // The RocksDB that the plug-in was linked with, where the program's own exports come first.
    if (!object.has_copy || (plugin != nullptr && Needs(*plugin, object))) continue;
    const std::string what =
        absl::StrCat("PULSE_URI does not reach ", object.name,
                     ": it has a RocksDB of its own inside, so its databases are not on PulseDB");
    if (FallsBackToStock()) {
      Log(LogLevel::kWarn, absl::StrCat(what, ". It runs on, as PULSE_FALLBACK=stock says"));
    } else if (may_be_meant) {
      Log(LogLevel::kWarn,
          absl::StrCat(what, ". It runs on, since PULSE_MATCH may leave these databases out"));
    } else if (served && !object.is_program) {
      Log(LogLevel::kWarn,
          absl::StrCat(what, ". It runs on, since the program also uses a RocksDB that is served"));
    } else {
      End(absl::StrCat(what, ". Link it with a shared librocksdb, or link the plug-in into it. ",
                       HowToFallBack()));
    }
  }
}

// From 9.11 on RocksDB's library has DB::Open with std::unique_ptr<DB>* alone, before with DB**.
bool OpensOtherwise() {
  const std::string running = rocksdb::GetRocksVersionAsString(/*with_patch=*/false);
  int major = 0, minor = 0;
  if (std::sscanf(running.c_str(), "%d.%d", &major, &minor) != 2) return true;
  return (major > 9 || (major == 9 && minor >= 11)) != PULSE_ROCKSDB_AT_LEAST(9, 11);
}

// Nothing of an Env of another layout is touched, and each open is refused.
void RefuseVersion(const std::vector<Object>& objects, absl::string_view why) {
  if (FallsBackToStock()) {
    Log(LogLevel::kWarn, absl::StrCat(why, ". It runs on, as PULSE_FALLBACK=stock says"));
    return;
  }
  const std::string refusal = absl::StrCat(why, ". ", HowToFallBack());
  // A program's calls of what it has inside do not come past the plug-in, nor do those of a
  // DB::Open that takes what this one does not.
  const Object* const bound = FindObject(objects, &Object::is_bound);
  if ((bound != nullptr && bound->is_program) || (OpensOtherwise() && IsServed(objects))) {
    End(refusal);
  }
  PreloadSettings& made = *new PreloadSettings;
  made.refusal = absl::FailedPreconditionError(refusal);
  settings = &made;
  Log(LogLevel::kError, made.refusal.message());
}

}  // namespace

void InstallDefaultEnv() {
  const char* uri = std::getenv("PULSE_URI");
  if (uri == nullptr || *uri == '\0' || IsOwnProgram()) return;
  uri = secure_getenv("PULSE_URI");
  if (uri == nullptr) {  // whoever starts such a program must not choose what it opens
    Log(LogLevel::kWarn,
        "PULSE_URI is ignored in a program with setuid, setgid or file capabilities; its databases "
        "are not on PulseDB");
    return;
  }
  const char* list = secure_getenv("PULSE_MATCH");
  absl::StatusOr<PathMatch> match =
      list == nullptr ? absl::StatusOr<PathMatch>(PathMatch()) : PathMatch::Parse(list);
  std::vector<Object> objects;
  dl_iterate_phdr(&AddObject, &objects);
  ReportOwnCopies(objects, list != nullptr && match.ok());
  if (const rocksdb::Status version = RegisterRocksDb(); !version.ok()) {
    RefuseVersion(objects, absl::StrCat("PULSE_URI=", uri, ": ", version.getState()));
    return;
  }
  PreloadSettings& made = *new PreloadSettings;
  made.uri = uri;
  settings = &made;
  rocksdb::Env* const env = rocksdb::Env::Default();
  const std::shared_ptr<RoutedFileSystem> routed =
      RoutedFileSystem::Create(made.uri, std::move(match), env->GetFileSystem());
  made.routed = routed.get();
  EnvAccess::SetFileSystem(env, routed);
}

rocksdb::Status PrepareDefaultEnv(const std::string& name, rocksdb::DBOptions* options, bool nested,
                                  bool* left_out) {
  if (settings == nullptr) return rocksdb::Status::OK();
  if (settings->routed == nullptr) {
    return rocksdb::Status::NotSupported(std::string(settings->refusal.message()));
  }
  // As long as the Env has it, it is there.
  if (options->env == nullptr || options->env->GetFileSystem().get() != settings->routed) {
    return rocksdb::Status::OK();  // the program has chosen another one
  }
  if (!settings->routed->Matches(name)) {
    Log(LogLevel::kInfo, absl::StrCat(name, " is not on PulseDB: PULSE_MATCH leaves it out"));
    if (options->env == rocksdb::Env::Default()) options->env = PlainEnv();
    *left_out = true;
    return rocksdb::Status::OK();
  }
  if (const auto fs = settings->routed->Pulse(); !fs.ok()) {
    return rocksdb::Status::IOError(std::string(fs.status().message()));
  }
  if (nested) return rocksdb::Status::OK();
  Log(LogLevel::kInfo, absl::StrCat(name, " is on PulseDB: ", settings->uri));
  for (const rocksdb::DbPath& path : options->db_paths) {
    if (settings->routed->Matches(path.path)) continue;
    Log(LogLevel::kWarn,
        absl::StrCat(path.path, ", one of its db_paths, is not: PULSE_MATCH leaves ",
                     "it out; name it there, too"));
  }
  return rocksdb::Status::OK();
}

}  // namespace pulse::lsm
