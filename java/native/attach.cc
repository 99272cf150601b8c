#include "java/native/attach.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

namespace pulse::java {
namespace {

constexpr char kPlugin[] = "libpulse_rocksdb_java-";
constexpr char kLibrary[] = "librocksdbjni";

// The paths of RocksJava's libraries among the loaded objects. Theirs may be gone: RocksJava
// deletes what it has unpacked.
std::vector<std::string> LoadedLibraries() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        const std::string path = object->dlpi_name == nullptr ? "" : object->dlpi_name;
        const std::string name = path.substr(path.rfind('/') + 1);
        if (name.rfind(kLibrary, 0) == 0) {
          static_cast<std::vector<std::string>*>(data)->push_back(path);
        }
        return 0;
      },
      &found);
  return found;
}

// "7.8-old": what the plug-ins' names tell apart. Empty where the library does not show RocksDB's
// names.
std::string VersionOf(void* library) {
  // Of either std::string the first word points to the characters. What it owns is left behind,
  // once.
  using Version = void (*)(void* result, bool with_patch);
  alignas(16) char result[64] = {};
  const char* abi = "old";
  void* version = dlsym(library, "_ZN7rocksdb23GetRocksVersionAsStringEb");
  if (version == nullptr) {
    abi = "cxx11";
    version = dlsym(library, "_ZN7rocksdb23GetRocksVersionAsStringB5cxx11Eb");
  }
  if (version == nullptr) return "";
  reinterpret_cast<Version>(version)(result, false);
  const char* text = nullptr;
  std::memcpy(&text, result, sizeof(text));
  return std::string(text) + "-" + abi;
}

std::string PluginsIn(const std::string& directory) {
  std::vector<std::string> all;
  if (DIR* dir = opendir(directory.c_str()); dir != nullptr) {
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name.rfind(kPlugin, 0) == 0) {
        const size_t begin = sizeof(kPlugin) - 1;
        all.push_back(name.substr(begin, name.rfind(".so") - begin));
      }
    }
    closedir(dir);
  }
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) text += (text.empty() ? "" : ", ") + one;
  return text.empty() ? "none" : text;
}

std::atomic<const PulseJavaApi*> attached_api{nullptr};

bool WriteAll(int fd, const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

void* Open(const std::string& path, std::string* why) {
  void* const loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const error = loaded == nullptr ? dlerror() : nullptr;
  if (error != nullptr) *why = error;
  return loaded;
}

// Loads a copy of the plug-in that needs RocksJava's `library`, by the path that this was loaded
// from, so that RocksDB's names are looked up there. Made global instead, that library would have
// its copies of zstd, LZ4 and zlib take the place of those of other libraries in the process.
void* Load(const std::string& plugin, const std::string& library, std::string* why) {
  // As CMakeLists.txt of the plug-in has it: the name of a library that is needed.
  constexpr char kPlaceholder[] = "pulse_rocksdbjni=";
  std::ifstream file(plugin, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const size_t at = bytes.find(kPlaceholder);
  const size_t room = at == std::string::npos ? 0 : bytes.find('\0', at) - at;
  if (!file || library.size() > room) {
    *why = !file       ? "it cannot be read"
           : room == 0 ? "it is of another release of PulseDB than libpulse_java.so"
                       : "the path " + library + " does not fit into it";
    return nullptr;
  }
  bytes.replace(at, room, library + std::string(room - library.size(), '\0'));
  const std::string name = plugin.substr(plugin.rfind('/') + 1);
  // It stays open: its path is the name of what was loaded, which nothing else may have.
  const int memory = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (memory >= 0) {
    void* const loaded =
        WriteAll(memory, bytes) ? Open("/proc/self/fd/" + std::to_string(memory), why) : nullptr;
    if (loaded != nullptr) return loaded;
    close(memory);
  }
  // Where nothing is loaded from memory.
  std::string copy = plugin + ".XXXXXX";
  const int fd = mkostemp(copy.data(), O_CLOEXEC);
  const bool written = fd >= 0 && WriteAll(fd, bytes) && fchmod(fd, 0500) == 0;
  if (!written) *why += "; nor can a copy be written beside it: " + std::string(strerror(errno));
  if (fd < 0) return nullptr;
  void* const loaded = written ? Open(copy, why) : nullptr;
  close(fd);
  unlink(copy.c_str());
  return loaded;
}

Attached Refused(std::string why) { return {nullptr, std::move(why)}; }

Attached AttachTo(const std::string& path, const std::string& directory) {
  // The name of a loaded object is enough, its file is not looked at.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    const char* why = dlerror();
    return Refused("cannot find " + path + ", which is loaded: " + (why == nullptr ? "" : why));
  }
  const std::string version = VersionOf(library);
  if (version.empty()) {
    return Refused(path +
                   " does not export RocksDB's C++ functions, so nothing can attach to it; " +
                   "use the library of Maven's rocksdbjni");
  }
  // What the plug-in refers to by name has to be the library's. A RocksDB whose names are global
  // comes before it, also in the library's own references.
  constexpr char kName[] = "_ZN7rocksdb3Env7DefaultEv";
  void* const first = dlsym(RTLD_DEFAULT, kName);
  if (first != nullptr && first != dlsym(library, kName)) {
    Dl_info other{};
    dladdr(first, &other);
    return Refused("this process has another RocksDB before that of " + path + ": " +
                   (other.dli_fname == nullptr ? "unknown" : other.dli_fname) +
                   "; start the JVM without LD_PRELOAD of libpulse_rocksdb.so or librocksdb.so");
  }
  const std::string plugin = directory + "/" + kPlugin + version + ".so";
  if (access(plugin.c_str(), F_OK) != 0) {
    return Refused(
        "no plug-in for RocksDB " + version +
        " (version and kind of std::string), which this program's rocksdbjni has; there are " +
        PluginsIn(directory));
  }
  std::string why;
  void* const loaded = Load(plugin, path, &why);
  if (loaded == nullptr) return Refused("cannot load " + plugin + ": " + why);
  const auto api = reinterpret_cast<const PulseJavaApi* (*)()>(dlsym(loaded, "pulse_java_api"));
  if (api == nullptr || api()->size != sizeof(PulseJavaApi) ||
      std::strcmp(api()->version, PULSE_VERSION_STRING) != 0) {
    return Refused(plugin + " is of another release of PulseDB than libpulse_java.so");
  }
  return {api(), ""};
}

}  // namespace

Attached Attach(const std::string& directory) {
  static std::mutex mutex;
  static Attached done;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!done.error.empty()) return done;
  const std::vector<std::string> libraries = LoadedLibraries();
  if (libraries.empty()) {
    return Refused(std::string("no ") + kLibrary +
                   "*.so is loaded: call RocksDB.loadLibrary() before");
  }
  if (libraries.size() > 1) {
    // The plug-in's references are those to one of them.
    done = Refused(
        "this process has loaded RocksJava's library " + std::to_string(libraries.size()) +
        " times, from several class loaders; load it by one that all others have above them");
    return done;
  }
  if (done.api != nullptr) return done;
  done = AttachTo(libraries.front(), directory);
  attached_api = done.api;
  return done;
}

const PulseJavaApi* AttachedApi() { return attached_api; }

std::string OwnDirectory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnDirectory), &info) == 0) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

}  // namespace pulse::java
