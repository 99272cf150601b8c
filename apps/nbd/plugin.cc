// nbdkit's side of the plug-in: callbacks, and what they say of the export.
//
// get_ready looks for the agent and the file, so that what is wrong is said before nbdkit goes into
// the background; the connection that serves is made after the fork, as it is a process's own.
//
// Threads: nbdkit calls from one thread per request in flight, also of one connection (PARALLEL).
// Exceptions end here, as ENOMEM or EIO.
#include <cerrno>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "apps/nbd/plugin_options.h"
#include "apps/nbd/store_export.h"
#include "base/errors.h"

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>
#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace pulse::nbd {
namespace {

constexpr size_t kMostExports = 10000;  // of a list, by nbdkit

PluginOptions* options = nullptr;
Agent* agent = nullptr;

struct Handle {
  std::unique_ptr<StoreExport> file;
  std::string description;
};

int Fail(const absl::Status& st) {
  nbdkit_error("%s", std::string(st.message()).c_str());
  nbdkit_set_error(ErrnoForClient(st));
  return -1;
}

// Runs `f`, which returns a status: 0, or -1 after telling nbdkit.
template <typename F>
int Guarded(F f) {
  try {
    const absl::Status st = f();
    return st.ok() ? 0 : Fail(st);
  } catch (const std::bad_alloc&) {
    nbdkit_error("out of memory");
    nbdkit_set_error(ENOMEM);
  } catch (const std::exception& e) {
    nbdkit_error("%s", e.what());
    nbdkit_set_error(EIO);
  }
  return -1;
}

std::chrono::seconds Silence() { return std::chrono::seconds(options->timeout); }

StoreExport& FileOf(void* handle) { return *static_cast<Handle*>(handle)->file; }

// --- start and end

void Load() { options = new PluginOptions; }

void Unload() {
  delete agent;
  delete options;
  agent = nullptr;
  options = nullptr;
}

int Config(const char* key, const char* value) {
  return Guarded([&] { return SetOption(key, value, options); });
}

int ConfigComplete() {
  return Guarded([] { return CheckOptions(*options); });
}

int GetReady() {
  return Guarded([]() -> absl::Status {
    Agent here(options->socket, Agent::DefaultPoll(), Silence());
    if (!options->file.empty()) {
      return PrepareFile(&here, options->directory, options->file, options->size);
    }
    return ListFiles(&here, options->directory, 1).status();
  });
}

int AfterFork() {
  return Guarded([] {
    agent = new Agent(options->socket, Agent::DefaultPoll(), Silence());
    return agent->Connect().status();
  });
}

// --- exports

int ListExports(int /*readonly*/, int /*is_tls*/, nbdkit_exports* exports) {
  return Guarded([&]() -> absl::Status {
    std::vector<std::string> names = {options->file};
    if (options->file.empty()) {
      PULSE_ASSIGN_OR_RETURN(names, ListFiles(agent, options->directory, kMostExports));
    }
    for (const std::string& name : names) {
      // It has said what is wrong.
      if (nbdkit_add_export(exports, name.c_str(), nullptr) != 0) {
        return absl::InternalError("the list of exports is not complete");
      }
    }
    return absl::OkStatus();
  });
}

const char* DefaultExport(int /*readonly*/, int /*is_tls*/) {
  return options->file.empty() ? nullptr : options->file.c_str();
}

void* Open(int /*readonly*/) {
  auto handle = std::make_unique<Handle>();
  const int rc = Guarded([&]() -> absl::Status {
    const char* const asked = nbdkit_export_name();
    const std::string name = asked == nullptr || *asked == '\0' ? options->file : asked;
    if (name.empty() || (!options->file.empty() && name != options->file)) {
      return absl::NotFoundError("there is no export \"" + name +
                                 "\" here; nbdinfo --list shows those there are");
    }
    PULSE_ASSIGN_OR_RETURN(handle->file, StoreExport::Open(agent, options->directory, name));
    handle->description = "file of a PulseDB store: " + options->directory + "/" + name;
    return absl::OkStatus();
  });
  return rc == 0 ? handle.release() : nullptr;
}

void Close(void* handle) {
  Guarded([&] {
    delete static_cast<Handle*>(handle);
    return absl::OkStatus();
  });
}

const char* ExportDescription(void* handle) {
  return static_cast<Handle*>(handle)->description.c_str();
}

int64_t GetSize(void* handle) { return static_cast<int64_t>(FileOf(handle).size()); }

int CanWrite(void* /*handle*/) { return options->readonly ? 0 : 1; }
int CanFlush(void* /*handle*/) { return 1; }
// A flush of the file behind the write is all there is to it, and nbdkit does that by itself.
int CanFua(void* /*handle*/) { return NBDKIT_FUA_EMULATE; }
// Zeros are written from here, without crossing the socket. A file of the store has no holes but
// behind what was written last, so there is nothing to trim, and nothing faster than writing.
int CanZero(void* /*handle*/) { return 1; }
int CanFastZero(void* /*handle*/) { return 1; }  // and refuses at once
// All connections have the same files of one agent: what one wrote, the others read, and flush.
int CanMultiConn(void* /*handle*/) { return 1; }

int BlockSize(void* /*handle*/, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
  *minimum = 1;
  *preferred = 4096;  // whole blocks go past the page cache
  *maximum = uint32_t{32} << 20;
  return 0;
}

// --- data

int Pread(void* handle, void* data, uint32_t count, uint64_t offset, uint32_t /*flags*/) {
  return Guarded([&] { return FileOf(handle).Read(offset, static_cast<char*>(data), count); });
}

int Pwrite(void* handle, const void* data, uint32_t count, uint64_t offset, uint32_t /*flags*/) {
  return Guarded(
      [&] { return FileOf(handle).Write(offset, static_cast<const char*>(data), count); });
}

int Zero(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
  if ((flags & NBDKIT_FLAG_FAST_ZERO) != 0) {
    nbdkit_set_error(EOPNOTSUPP);
    return -1;
  }
  return Guarded([&] { return FileOf(handle).Zero(offset, count); });
}

int Flush(void* handle, uint32_t /*flags*/) {
  return Guarded([&] { return FileOf(handle).Flush(); });
}

nbdkit_plugin MakePlugin() {
  nbdkit_plugin p = {};
  p.name = "pulse";
  p.longname = "PulseDB segment store";
  p.version = PULSE_VERSION;
  p.description = "Exports files of a PulseDB segment store, which a pulse agent reads and writes.";
  p.load = Load;
  p.unload = Unload;
  p.config = Config;
  p.config_complete = ConfigComplete;
  p.config_help = kPluginHelp;
  p.magic_config_key = kBareWord;
  p.get_ready = GetReady;
  p.after_fork = AfterFork;
  p.list_exports = ListExports;
  p.default_export = DefaultExport;
  p.open = Open;
  p.close = Close;
  p.export_description = ExportDescription;
  p.get_size = GetSize;
  p.block_size = BlockSize;
  p.can_write = CanWrite;
  p.can_flush = CanFlush;
  p.can_fua = CanFua;
  p.can_zero = CanZero;
  p.can_fast_zero = CanFastZero;
  p.can_multi_conn = CanMultiConn;
  p.pread = Pread;
  p.pwrite = Pwrite;
  p.zero = Zero;
  p.flush = Flush;
  return p;
}

nbdkit_plugin plugin = MakePlugin();

}  // namespace
}  // namespace pulse::nbd

NBDKIT_REGISTER_PLUGIN(pulse::nbd::plugin)
