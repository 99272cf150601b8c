// The DSA engine on a portal in software, with what hardware does wrong; and why there is none.
#include "mover/dsa_copy_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "mover/test_dsa_portal.h"

namespace pulse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_util::TestSeed;

std::unique_ptr<CopyEngine> EngineOn(uint64_t seed, const TestDsaFaults& faults,
                                     TestDsaPortal::Counts* counts, DsaOptions options = {}) {
  options.largest = faults.largest;
  return CreateDsaCopyEngine(std::make_unique<TestDsaPortal>(seed, faults, counts), options)
      .value();
}

// Copies all of `from` to `to`, submitting what is left again. Each completion is checked.
void CopyAll(CopyEngine* engine, const std::vector<std::string>& from, std::vector<std::string>* to,
             std::mt19937_64* random) {
  std::map<uint64_t, CopyItem> open;
  std::vector<CopyItem> queue;
  for (size_t i = 0; i < from.size(); ++i) {
    queue.push_back({from[i].data(), (*to)[i].data(), from[i].size(), i});
  }
  int errors = 0;
  while (!queue.empty() || !open.empty()) {
    const size_t n = std::min<size_t>(queue.size(), 1 + (*random)() % 40);
    const size_t taken = engine->Submit(queue.data(), n);
    for (size_t i = 0; i < taken; ++i) open[queue[i].tag] = queue[i];
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(taken));
    EXPECT_EQ(engine->in_flight(), open.size());
    CopyCompletion done[9];
    const size_t got = engine->Poll(done, 1 + (*random)() % 9);
    for (size_t i = 0; i < got; ++i) {
      ASSERT_TRUE(open.contains(done[i].tag));
      const CopyItem item = open[done[i].tag];
      open.erase(done[i].tag);
      ASSERT_LE(done[i].done, item.length);
      if (!done[i].status.ok()) {
        EXPECT_TRUE(absl::IsUnavailable(done[i].status)) << done[i].status;
        ASSERT_LT(++errors, 100'000);
      }
      const CopyItem rest = RestOf(item, done[i].done);
      if (rest.length > 0) queue.push_back(rest);
    }
  }
}

TEST(DsaCopyEngine, RandomCopiesWithFaults_AllArrive) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    TestDsaPortal::Counts counts;
    TestDsaFaults faults;
    if (round > 0) {
      faults = {static_cast<uint32_t>(random() % 500),
                static_cast<uint32_t>(random() % 400),
                static_cast<uint32_t>(random() % 200),
                static_cast<uint32_t>(random() % 500),
                1 + random() % 20,
                4096 + random() % 100'000};
    }
    DsaOptions options;
    options.depth = 1 + random() % 64;
    options.batch = 1 + random() % 16;
    const auto engine = EngineOn(random(), faults, &counts, options);
    std::vector<std::string> from, to;
    for (uint64_t n = random() % 300; n > 0; --n) {
      from.emplace_back(random() % (random() % 30 == 0 ? 200'000 : 5000), '\0');
      for (char& c : from.back()) c = static_cast<char>(random());
      to.emplace_back(from.back().size(), '\0');
    }
    CopyAll(engine.get(), from, &to, &random);
    EXPECT_EQ(from, to);
    EXPECT_EQ(engine->in_flight(), 0u);
    EXPECT_EQ(counts.wrong, 0u);
  }
}

TEST(DsaCopyEngine, ManyAtOnce_GoAsBatches) {
  TestDsaPortal::Counts counts;
  const auto engine = EngineOn(1, {}, &counts, {.depth = 64, .batch = 16});
  const std::vector<std::string> from(64, std::string(1000, 'x'));
  std::vector<std::string> to(64, std::string(1000, '\0'));
  std::vector<CopyItem> items;
  for (size_t i = 0; i < 64; ++i) items.push_back({from[i].data(), to[i].data(), 1000, i});
  ASSERT_EQ(engine->Submit(items.data(), 64), 64u);
  EXPECT_EQ(engine->Submit(items.data(), 1), 0u) << "full";
  CopyCompletion done[64];
  for (size_t n = 0; n < 64;) n += engine->Poll(done, 64);
  EXPECT_EQ(from, to);
  EXPECT_EQ(counts.batches, 4u);
}

TEST(DsaCopyEngine, BadItemsAmongGoodOnes_CompleteWithTheReason) {
  TestDsaPortal::Counts counts;
  const auto engine = EngineOn(1, {}, &counts, {.depth = 8, .batch = 4});
  std::string from(100, 'x'), to(100, '\0');
  const CopyItem items[] = {{from.data(), to.data(), 50, 0},
                            {nullptr, to.data(), 5, 1},
                            {from.data(), from.data() + 1, 10, 2},
                            {from.data(), to.data(), 0, 3},
                            {from.data() + 50, to.data() + 50, 50, 4}};
  ASSERT_EQ(engine->Submit(items, 5), 5u);
  std::map<uint64_t, absl::StatusCode> got;
  CopyCompletion done[5];
  while (got.size() < 5) {
    const size_t n = engine->Poll(done, 5);
    for (size_t i = 0; i < n; ++i) got[done[i].tag] = done[i].status.code();
  }
  EXPECT_EQ(got[0], absl::StatusCode::kOk);
  EXPECT_EQ(got[1], absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(got[2], absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(got[3], absl::StatusCode::kOk);
  EXPECT_EQ(got[4], absl::StatusCode::kOk);
  EXPECT_EQ(from, to);
}

TEST(DsaCopyEngine, Destroyed_WaitsForWhatIsInFlight) {
  TestDsaPortal::Counts counts;
  const std::vector<std::string> from(32, std::string(10'000, 'x'));
  std::vector<std::string> to(32, std::string(10'000, '\0'));
  {
    const auto engine = EngineOn(1, {}, &counts, {.depth = 32, .batch = 8});
    std::vector<CopyItem> items;
    for (size_t i = 0; i < 32; ++i) items.push_back({from[i].data(), to[i].data(), 10'000, i});
    ASSERT_EQ(engine->Submit(items.data(), 32), 32u);
  }
  EXPECT_EQ(from, to);
}

TEST(DsaCopyEngine, Options_AreChecked) {
  TestDsaPortal::Counts counts;
  for (const DsaOptions& bad : {DsaOptions{.depth = 0}, DsaOptions{.batch = 0},
                                DsaOptions{.largest = 0}, DsaOptions{.largest = 1ull << 33}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        CreateDsaCopyEngine(std::make_unique<TestDsaPortal>(1, TestDsaFaults{}, &counts), bad)
            .status()));
  }
}

class DsaDeviceTest : public ::testing::Test {
 protected:
  DsaDeviceTest() {
    std::filesystem::create_directories(paths_.devices);
    std::filesystem::create_directories(paths_.sysfs);
  }
  ~DsaDeviceTest() override { std::filesystem::remove_all(root_.get()); }
  void AddQueue(const std::string& name, const std::string& state, const std::string& type) {
    std::ofstream(paths_.devices + "/" + name) << "";
    std::filesystem::create_directories(paths_.sysfs + "/" + name);
    std::ofstream(paths_.sysfs + "/" + name + "/state") << state << "\n";
    std::ofstream(paths_.sysfs + "/" + name + "/type") << type << "\n";
  }
  std::string WhyNot() { return testing_util::Text(OpenDsaDevice(paths_).status()); }

  const testing_util::ScratchPath root_{"dsa"};
  const DsaPaths paths_{root_.get() + "/dev", root_.get() + "/sys"};
};

TEST_F(DsaDeviceTest, NoQueue_SaysWhy) {
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("no work queue"), HasSubstr("accel-config")));
  const DsaPaths none{root_.get() + "/nothing", root_.get() + "/nothing"};
  const auto device = OpenDsaDevice(none);
  EXPECT_TRUE(absl::IsNotFound(device.status()));
  EXPECT_THAT(testing_util::Text(device.status()), HasSubstr("no Intel DSA"));
}

TEST_F(DsaDeviceTest, QueuesThatCannotBeUsed_AreNamedWithTheReason) {
  AddQueue("wq0.0", "disabled", "user");
  AddQueue("wq0.1", "enabled", "kernel");
  std::ofstream(paths_.devices + "/other") << "";
  EXPECT_THAT(WhyNot(), AllOf(HasSubstr("wq0.0 is disabled"), HasSubstr("wq0.1 is of type kernel"),
                              ::testing::Not(HasSubstr("other"))));
}

// A file in the place of the device: it can be mapped where the processor has the instructions, and
// written to in any case.
TEST_F(DsaDeviceTest, QueueThatCanBeUsed_TellsItsLimits) {
  AddQueue("wq1.0", "enabled", "user");
  std::ofstream(paths_.sysfs + "/wq1.0/size") << "8\n";
  std::ofstream(paths_.sysfs + "/wq1.0/max_batch_size") << "16\n";
  std::ofstream(paths_.sysfs + "/wq1.0/max_transfer_size") << "65536\n";
  std::ofstream(paths_.sysfs + "/wq1.0/block_on_fault") << "1\n";
  const auto device = OpenDsaDevice(paths_);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->options.depth, 8u);
  const bool written = device->portal->Describe().ends_with("by write()");
  EXPECT_EQ(device->options.batch, written ? 1u : 16u);
  EXPECT_EQ(device->options.largest, 65536u);
  EXPECT_FALSE(device->options.touch_pages);
  EXPECT_THAT(device->portal->Describe(), HasSubstr("wq1.0"));
}

// As without CAP_SYS_RAWIO. The kernel takes no batches by write().
TEST_F(DsaDeviceTest, QueueThatCannotBeMapped_IsWrittenToOneByOne) {
  AddQueue("wq1.0", "enabled", "user");
  std::filesystem::remove(paths_.devices + "/wq1.0");
  ASSERT_EQ(mkfifo((paths_.devices + "/wq1.0").c_str(), 0600), 0);
  std::ofstream(paths_.sysfs + "/wq1.0/max_batch_size") << "16\n";
  auto device = OpenDsaDevice(paths_);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_THAT(device->portal->Describe(), HasSubstr("by write()"));
  EXPECT_EQ(device->options.batch, 1u);
  alignas(64) char descriptor[64] = {};
  EXPECT_TRUE(device->portal->Submit(descriptor));
}

// What is there on this machine: a queue that copies, or a reason.
TEST(DsaDevice, OfThisMachine_CopiesOrSaysWhyNot) {
  auto device = OpenDsaDevice();
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const auto engine = CreateDsaCopyEngine(std::move(device->portal), device->options).value();
  std::mt19937_64 random(TestSeed());
  std::vector<std::string> from, to;
  for (int i = 0; i < 200; ++i) {
    from.emplace_back(random() % 20'000, static_cast<char>('a' + i % 26));
    to.emplace_back(from.back().size(), '\0');
  }
  CopyAll(engine.get(), from, &to, &random);
  EXPECT_EQ(from, to);
}

}  // namespace
}  // namespace pulse
