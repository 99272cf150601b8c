#include "services/lsm/pool/test_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "pulse/rocksdb.h"
#include "rocksdb/file_system.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_io.h"
#include "store/late_writers.h"
#include "store/store.h"

namespace pulse::lsm::test {
namespace {

class PoolEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!OnPool()) return;
    CreatePool(PoolPath(), uint64_t{2} << 30);
    // Those in the environment already count, too.
    const char* given = getenv("PULSE_OPTIONS");
    const std::string options = "layout=pool&pool=" + PoolPath();
    setenv("PULSE_OPTIONS", given == nullptr ? options.c_str() : (options + "&" + given).c_str(),
           1);
  }
  void TearDown() override {
    if (OnPool()) std::filesystem::remove(PoolPath());
  }
};

const auto* const kEnvironment = ::testing::AddGlobalTestEnvironment(new PoolEnvironment);

}  // namespace

bool OnPool() {
  static const bool on = [] {
    const char* layout = getenv("PULSE_TEST_LAYOUT");
    // An agent of the tests has no files of its own.
    return layout != nullptr && std::strcmp(layout, "pool") == 0 &&
           getenv("PULSE_TEST_AGENT_SOCKET") == nullptr;
  }();
  return on;
}

const std::string& PoolPath() {
  static const std::string path = (std::filesystem::canonical(std::filesystem::current_path()) /
                                   ("lsm_test_pool_" + std::to_string(getpid())))
                                      .string();
  return path;
}

void CreatePool(const std::string& path, uint64_t size, uint64_t segment_bytes) {
  store::CreateOptions options;
  options.size = size;
  options.segment_bytes = segment_bytes;
  options.prefill = false;
  const absl::Status st = store::Create(path, options);
  ASSERT_TRUE(st.ok()) << st;
}

rocksdb::Env* StockEnv() {
  if (!OnPool()) return nullptr;
  static const std::unique_ptr<rocksdb::Env> env = [] {
    std::shared_ptr<rocksdb::FileSystem> fs;
    const rocksdb::Status s = NewFileSystem("pulse://?fetch=off", nullptr, &fs);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return rocksdb::NewCompositeEnv(fs);
  }();
  return env.get();
}

std::optional<std::string> ReadFromPool(const std::string& path) {
  if (!OnPool()) return std::nullopt;
  auto pool = Pool::Open(PoolPath());
  EXPECT_TRUE(pool.ok()) << pool.status();
  const auto file = (*pool)->Find(CanonicalPath(path));
  if (!file.ok()) return std::nullopt;
  store::Store& store = (*pool)->store();
  const auto now = store.Stat(*file);
  EXPECT_TRUE(now.ok());
  std::vector<store::Extent> extents;
  EXPECT_TRUE(store.MapRead(*file, 0, now->size, &extents).ok());
  std::string bytes(now->size, '\0');
  const absl::Status st =
      ReadExtents(store.device_fd(false), extents, 0, bytes.size(), bytes.data(), path);
  EXPECT_TRUE(st.ok()) << st;
  return bytes;
}

std::string PathInPool(int fd) {
  // Its lock says which file of the pool is written.
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(fd));
  std::string line;
  int64_t start = 0;
  while (std::getline(info, line)) {
    const size_t at = line.rfind(':');
    if (line.rfind("lock:", 0) != 0 || line.find("OFDLCK") == std::string::npos) continue;
    std::sscanf(line.c_str() + line.find(' ', at), "%ld", &start);
  }
  if (start < store::kLateWriterLocks) return "";
  const auto file = static_cast<store::FileId>(start - store::kLateWriterLocks);
  auto pool = Pool::Open(PoolPath());
  if (!pool.ok()) return "";
  store::Store& store = (*pool)->store();
  for (const std::string& dir : store.ListDirectories()) {
    const auto files = store.List(dir);
    for (size_t i = 0; files.ok() && i < files->size(); ++i) {
      if ((*files)[i].attributes.id == file) return dir + "/" + (*files)[i].name;
    }
  }
  return "";
}

}  // namespace pulse::lsm::test
