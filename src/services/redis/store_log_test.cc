#include "services/redis/store_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "services/redis/test_store.h"

namespace pulse::redis {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

fs::path LogOf(const std::string& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path().extension() == ".log" && entry.file_size() > 0) return entry.path();
  }
  return {};
}

// A closed database with a hundred keys that are in its log alone.
class StoreLogTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 100; ++i) store_("SET key" + std::to_string(i) + " value");
    ASSERT_TRUE(store_->Close().ok());
    log_ = LogOf(store_.path());
    ASSERT_FALSE(log_.empty());
  }
  // A bit of the record in the middle.
  void Flip() {
    std::fstream file(log_, std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const size_t at = bytes.find("ey50");
    ASSERT_NE(at, std::string::npos);
    const size_t k = at - 1;
    file.clear();
    file.seekp(static_cast<std::streamoff>(k));
    file.put(static_cast<char>(bytes[k] ^ 0x10));
  }

  TestStore store_;
  fs::path log_;
};

TEST_F(StoreLogTest, Damage_BeforeTheLogsEnd_IsRefused) {
  Flip();
  for (int round = 0; round < 2; ++round) {
    const std::string error(Store::Open(store_.options()).status().message());
    EXPECT_THAT(error, HasSubstr("the log of the last writes is damaged"));
    EXPECT_THAT(error, HasSubstr("--damaged-log cut"));
  }
  Flip();  // nothing was changed: it can be mended
  store_.Reopen();
  EXPECT_EQ(store_("DBSIZE"), ":100");
}

TEST_F(StoreLogTest, Damage_WhereItIsCut_KeepsWhatIsBeforeItAndTheLog) {
  Flip();
  const auto damaged = fs::file_size(log_);
  store_.options().damaged_log = DamagedLog::kCut;
  store_.Reopen();
  EXPECT_EQ(store_("GET key0"), "$5 value");
  EXPECT_EQ(store_("GET key99"), "$-1");
  bool kept = false;
  for (const auto& entry : fs::directory_iterator(store_.path())) {
    if (!entry.path().filename().string().starts_with("damaged-log-")) continue;
    const fs::path copy = entry.path() / log_.filename();
    kept = fs::exists(copy) && fs::file_size(copy) == damaged;
  }
  EXPECT_TRUE(kept);
  store_("SET new 1");
  store_.options().damaged_log = DamagedLog::kRefuse;
  store_.Reopen();
  EXPECT_EQ(store_("GET new"), "$1 1");
}

TEST_F(StoreLogTest, End_ThatACrashHasCut_IsNoDamage) {
  fs::resize_file(log_, fs::file_size(log_) - 5);
  store_.Reopen();
  EXPECT_EQ(store_("GET key98"), "$5 value");
  EXPECT_EQ(store_("GET key99"), "$-1");
}

// A power cut may leave parts of the last write, in any order, and the end of a log before another.
TEST_F(StoreLogTest, LastWrite_WithAHoleInIt_IsNoDamage) {
  store_.Reopen();
  store_("SET small 1");
  store_("SET large " + std::string(300 << 10, 'v'));
  ASSERT_TRUE(store_->Close().ok());
  log_ = LogOf(store_.path());
  std::fstream file(log_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100 << 10);
  const std::string zeros(4096, '\0');
  file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  file.close();
  store_.Reopen();
  EXPECT_EQ(store_("GET small"), "$1 1");
  EXPECT_EQ(store_("GET large"), "$-1");
}

TEST_F(StoreLogTest, OlderLog_ThatIsCut_IsDamage) {
  const std::string bytes = [&] {
    std::ifstream file(log_, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }();
  // The second log begins with the record of key60.
  size_t at = 0;
  for (int i = 0; i < 60; ++i) {
    at += 7 + static_cast<unsigned char>(bytes[at + 4]) +
          256 * static_cast<size_t>(static_cast<unsigned char>(bytes[at + 5]));
  }
  std::ofstream(store_.path() + "/000099.log", std::ios::binary) << bytes.substr(at);
  fs::resize_file(log_, at - 5);
  EXPECT_THAT(Store::Open(store_.options()).status().message(),
              HasSubstr("the log of the last writes is damaged"));
  store_.options().damaged_log = DamagedLog::kCut;
  store_.Reopen();
  EXPECT_EQ(store_("DBSIZE"), ":59");
}

TEST_F(StoreLogTest, DamagedTable_IsNotTakenForTheLogOrALock) {
  store_.Reopen();
  ASSERT_TRUE(store_->Close().ok());  // the log became a table at the opening
  for (const auto& entry : fs::directory_iterator(store_.path())) {
    if (entry.path().extension() == ".sst") fs::resize_file(entry.path(), 10);
  }
  const std::string error(Store::Open(store_.options()).status().message());
  EXPECT_THAT(error, HasSubstr("it is damaged"));
  EXPECT_THAT(error, Not(HasSubstr("another process")));
  EXPECT_THAT(error, Not(HasSubstr("--damaged-log")));
  store_.options().damaged_log = DamagedLog::kCut;
  EXPECT_FALSE(Store::Open(store_.options()).ok());
  for (const auto& entry : fs::directory_iterator(store_.path())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("damaged-log-"));
  }
}

// RocksDB's assertions, which Debian's has, would end the process.
TEST(StoreLog, Close_AfterAFailedWrite_DoesNotSyncTheLog) {
  TestStore store;
  store.options().sync = SyncMode::kEverySecond;
  store.Reopen();
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {1 << 20, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string value(300 << 10, 'v');
  std::string reply;
  for (int i = 0; i < 8 && !reply.starts_with("-"); ++i) reply = store("SET a " + value);
  EXPECT_THAT(reply, StartsWith("-ERR the database says: IO error"));
  EXPECT_EQ(store("GET a").size(), value.size() + 8);
  store->Close().IgnoreError();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  store.Reopen();
  EXPECT_EQ(store("GET a").size(), value.size() + 8);
}

}  // namespace
}  // namespace pulse::redis
