// ThreadActivity: classes by thread, and whose CPU priority compaction_nice= lowers.
#include "services/lsm/core/thread_activity.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "base/own_threads.h"
#include "base/testing.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

template <typename Fn>
void OnThread(const char* name, Fn fn) {
  std::thread([&] {
    pthread_setname_np(pthread_self(), name);
    fn();
  }).join();
}
int Nice() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

bool MayRaisePriority() {
  bool may = false;
  OnThread("probe", [&] {
    const int before = Nice();
    may = setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), before + 1) == 0 &&
          setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), before) == 0;
  });
  return may;
}

TEST(ThreadActivityTest, ReadPurpose_CompactionThread_IsItsCompactions) {
  OnThread("any", [] {
    EXPECT_FALSE(ThreadActivity::compacting());
    ThreadActivity::BeginCompactionJob();
    EXPECT_TRUE(ThreadActivity::compacting());
    EXPECT_EQ(ThreadActivity::ReadPurpose(), IoPurpose::kBase) << "before its first output";
    ThreadActivity::SetPurpose(IoPurpose::kDeep);
    ThreadActivity::BeginCompactionRead();  // a further read
    EXPECT_EQ(ThreadActivity::ReadPurpose(), IoPurpose::kDeep);
    OnThread("another", [] { EXPECT_EQ(ThreadActivity::ReadPurpose(), IoPurpose::kBase); });
    ThreadActivity::BeginCompactionJob();  // the former one failed
    EXPECT_EQ(ThreadActivity::ReadPurpose(), IoPurpose::kBase);
    ThreadActivity::SetPurpose(IoPurpose::kFlush);
    EXPECT_FALSE(ThreadActivity::compacting());
    ThreadActivity::BeginCompactionRead();
    EXPECT_TRUE(ThreadActivity::compacting());
    ThreadActivity::End();
    EXPECT_FALSE(ThreadActivity::compacting());
  });
}

TEST(ThreadActivityTest, ApplyPriority_ThreadNames_LowersCompactionThreadsOnly) {
  const int nice = Nice();
  const int p = nice + 5;
  for (const char* name : {"rocksdb:low", "rocksdb:bottom"}) {
    OnThread(name, [&] {
      ThreadActivity::ApplyPriority(p, IoPurpose::kUnknown);
      ThreadActivity::ApplyPriority(p, IoPurpose::kFlush);
      EXPECT_EQ(Nice(), nice) << name;
      ThreadActivity::ApplyPriority(0, IoPurpose::kDeep);
      EXPECT_EQ(Nice(), nice) << "nothing was asked for";
      ThreadActivity::ApplyPriority(p, IoPurpose::kDeep);
      EXPECT_EQ(Nice(), nice + 5) << name;
    });
  }
  for (const char* name : {"rocksdb:high", "main", "my-rocksdb:low"}) {
    OnThread(name, [&] {
      ThreadActivity::ApplyPriority(p, IoPurpose::kDeep);
      EXPECT_EQ(Nice(), nice) << name;
    });
  }
}

TEST(ThreadActivityTest, ApplyPriority_HigherThanItHas_ChangesNothing) {
  OnThread("rocksdb:low", [] {
    const int nice = Nice() + 9;
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice), 0);
    ThreadActivity::ApplyPriority(nice - 4, IoPurpose::kBase);
    EXPECT_EQ(Nice(), nice);
  });
}

TEST(ThreadActivityTest, ApplyPriority_ThreadFlushes_IsRestoredWherePermitted) {
  if (!MayRaisePriority()) GTEST_SKIP() << "this user may not raise a priority again";
  OnThread("rocksdb:low", [] {
    const int nice = Nice();
    const int p = nice + 3;
    for (int i = 0; i < 2; ++i) {
      ThreadActivity::ApplyPriority(p, IoPurpose::kDeep);
      EXPECT_EQ(Nice(), nice + 3);
      ThreadActivity::ApplyPriority(p, IoPurpose::kFlush);
      EXPECT_EQ(Nice(), nice);
    }
  });
}

// Lowers a thread that may not be raised again, lets it flush, and tries another. 0: as it should
// be.
int FlushOnALoweredThread() {
  int wrong = 0;
  const rlimit none{0, 0};
  setrlimit(RLIMIT_NICE, &none);
  const int p = Nice() + 3;
  OnThread("rocksdb:low", [&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    if (syscall(SYS_capset, &header, data) != 0) wrong |= 1;
    const int nice = Nice();
    ThreadActivity::ApplyPriority(p, IoPurpose::kDeep);
    if (Nice() != nice + 3) wrong |= 2;
    ThreadActivity::ApplyPriority(p, IoPurpose::kFlush);
    if (Nice() != nice + 3) wrong |= 4;
  });
  OnThread("rocksdb:low", [&] {
    const int nice = Nice();
    ThreadActivity::ApplyPriority(p, IoPurpose::kDeep);
    if (Nice() != nice) wrong |= 8;
  });
  return wrong;
}

// In a process of its own: what is learnt holds for the whole process.
TEST(ThreadActivityTest, ApplyPriority_RestoreRefused_LowersNoFurtherThread) {
  if (testing_util::kThreadSanitizer) GTEST_SKIP() << "forks";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(_exit(FlushOnALoweredThread()), ::testing::ExitedWithCode(0), "compaction_nice= out");
}

// nice values of this process' threads, by name.
std::map<std::string, std::set<int>> NiceByName() {
  std::map<std::string, std::set<int>> found;
  for (const pid_t thread : OwnThreads()) {
    found[NameOfThread(thread)].insert(getpriority(PRIO_PROCESS, static_cast<id_t>(thread)));
  }
  return found;
}

TEST(ThreadActivityDbTest, Database_CompactionNice_LowersCompactionThreadsOnly) {
  const int nice = Nice();
  const int lowered = nice + 6;
  const ScratchDir dir;
  std::mt19937_64 rng(testing_util::TestSeed());
  Rig rig(MakeOptions("pulse://?compaction_nice=" + std::to_string(lowered)));
  auto env = rocksdb::NewCompositeEnv(rig.pulse);
  rocksdb::Options options = SmallDbOptions(env.get());
  TestDb db(options, dir / "db");
  ASSERT_TRUE(db.Open().ok());
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(db.Fill(&rng, 2000, 500).ok());
    ASSERT_TRUE(db.FlushAll().ok());
  }
  ASSERT_TRUE(db.CompactAll().ok());
  auto by_name = NiceByName();
  EXPECT_EQ(by_name["rocksdb:low"].count(lowered), 1u);
  EXPECT_EQ(by_name["rocksdb:high"], std::set<int>{nice});
  EXPECT_EQ(Nice(), nice);
}

}  // namespace
}  // namespace pulse::lsm::test
