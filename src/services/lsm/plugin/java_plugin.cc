// The plug-in for the RocksDB inside RocksJava's JNI library. It is linked with no RocksDB: its
// names are found in that library, which the copy that libpulse_java.so loads needs. See
// java_api.h.
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "pulse/rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "services/lsm/plugin/java_api.h"
#include "services/lsm/plugin/preload_default_env.h"

namespace {

int Fail(absl::string_view what, char* error, size_t error_size) {
  if (error_size > 0) {
    std::snprintf(error, error_size, "%.*s", static_cast<int>(what.size()), what.data());
  }
  return 1;
}

int Told(const rocksdb::Status& status, char* error, size_t error_size) {
  if (status.ok()) return 0;
  return Fail(status.getState() != nullptr ? status.getState() : status.ToString(), error,
              error_size);
}

int OpenEnv(const char* uri, void** env, char* error, size_t error_size) {
  rocksdb::Status status = pulse::RegisterRocksDb();
  std::shared_ptr<rocksdb::FileSystem> fs;
  if (status.ok()) status = pulse::NewFileSystem(uri, nullptr, &fs);
  if (status.ok()) *env = rocksdb::NewCompositeEnv(std::move(fs)).release();
  return Told(status, error, error_size);
}

void CloseEnv(void* env) { delete static_cast<rocksdb::Env*>(env); }

int Place(void* given, char* error, size_t error_size) {
  return Told(pulse::PlaceCompactions(static_cast<rocksdb::Options*>(given)), error, error_size);
}

int PlaceFamilies(void* db_options, const char* const* names, void* const* options, size_t families,
                  char* error, size_t error_size) {
  auto& db = *static_cast<rocksdb::DBOptions*>(db_options);
  // Before PlaceCompactions looks at them.
  std::vector<rocksdb::ColumnFamilyDescriptor> all;
  all.reserve(families);
  for (size_t i = 0; i < families; ++i) {
    auto* const family = static_cast<rocksdb::ColumnFamilyOptions*>(options[i]);
    pulse::CompressOnAgent(db.env->GetFileSystem().get(), family);
    all.emplace_back(names[i], *family);
  }
  const rocksdb::Status status = pulse::PlaceCompactions(&db, all);
  return Told(status, error, error_size);
}

void Compress(void* env, void* options) {
  pulse::CompressOnAgent(static_cast<rocksdb::Env*>(env)->GetFileSystem().get(),
                         static_cast<rocksdb::ColumnFamilyOptions*>(options));
}

size_t Counters(void* env, PulseJavaCounter* counters, size_t room) {
  thread_local std::map<std::string, uint64_t> tickers;
  tickers.clear();
  pulse::GetTickerMap(static_cast<rocksdb::Env*>(env)->GetFileSystem().get(), &tickers);
  size_t i = 0;
  for (const auto& [name, value] : tickers) {
    if (i < room) counters[i] = {name.c_str(), value};
    ++i;
  }
  return i;
}

constexpr PulseJavaApi kApi = {sizeof(PulseJavaApi),
                               PULSE_VERSION_STRING,
                               OpenEnv,
                               CloseEnv,
                               Place,
                               PlaceFamilies,
                               Compress,
                               Counters,
                               pulse::lsm::InstallDefaultEnv};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PulseJavaApi* pulse_java_api() {
  return &kApi;
}
