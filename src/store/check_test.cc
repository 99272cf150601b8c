// pool check, as a function: it finds what is wrong, and repair saves what can be saved.
#include "store/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/testing.h"
#include "store/format.h"
#include "store/recovery.h"
#include "store/sim_device.h"

namespace pulse::store {
namespace {

using testing::HasSubstr;
using testing::Not;

class CheckTest : public testing::Test {
 protected:
  void SetUp() override {
    CreateOptions options;
    options.segment_bytes = 4096;
    options.metadata_bytes = 512 << 10;
    ASSERT_TRUE(Format(*device_, options).ok());
    auto store = *Store::Open("sim", {.read_only = false, .device = device_});
    ASSERT_TRUE(store->CreateDirectory("d").ok());
    for (int i = 0; i < 10; ++i) {
      const auto file = store->CreateFile("d", std::to_string(i));
      ASSERT_TRUE(store->Reserve(*file, 8192).ok());
      ASSERT_TRUE(store->Wrote(*file, 0, 5000).ok());
      ASSERT_TRUE(store->Commit().ok());
    }
    store.reset();
    superblock_ = *ReadSuperblock(*device_);
  }

  CheckReport Look(bool repair = false) {
    const auto report = Check(*device_, {.repair = repair, .tick = {}});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : CheckReport();
  }
  void Flip(uint64_t offset) {
    auto image = device_->Written();
    image[offset] ^= 0x5a;
    device_ = std::make_shared<SimDevice>(image);
  }
  size_t FilesAfterOpening() {
    auto store = Store::Open("sim", {.read_only = false, .device = device_});
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? (*store)->usage().files : 0;
  }
  // A checkpoint of nonsense that has good checksums, as a faulty program would write it.
  void Plant(const std::vector<Record>& records) {
    CheckpointImage image;
    image.generation = 101;
    image.last_sequence = 1000;
    image.next_id = 1000;
    image.records = records.size();
    for (const Record& r : records) AppendRecord(r, &image.body);
    ASSERT_TRUE(WriteCheckpoint(*device_, superblock_, image).ok());
  }

  std::shared_ptr<SimDevice> device_ = std::make_shared<SimDevice>(1 << 20);
  Superblock superblock_;
};

TEST_F(CheckTest, Repair_SoundStore_FindsAndWritesNothing) {
  const uint64_t writes = device_->writes;
  const CheckReport r = Look(/*repair=*/true);
  EXPECT_TRUE(r.problems.empty());
  EXPECT_TRUE(r.notes.empty());
  EXPECT_FALSE(r.repaired);
  EXPECT_TRUE(r.closed);
  EXPECT_EQ(r.files, 10u);
  EXPECT_EQ(r.directories, 1u);
  EXPECT_EQ(r.used, 20u);
  EXPECT_EQ(device_->writes, writes);
}

TEST_F(CheckTest, Repair_DamagedSuperblock_RestoresItFromTheCopy) {
  Flip(100);
  EXPECT_FALSE(Store::Open("sim", {.read_only = false, .device = device_}).ok());
  EXPECT_EQ(Look().problems.size(), 1u);
  EXPECT_FALSE(Store::Open("sim", {.read_only = false, .device = device_}).ok());  // only looked
  EXPECT_TRUE(Look(/*repair=*/true).repaired);
  EXPECT_TRUE(Look().problems.empty());
  EXPECT_EQ(FilesAfterOpening(), 10u);
}

TEST_F(CheckTest, Open_FirstSuperblockOverwritten_NamesTheRepair) {
  Flip(0);  // its magic
  const auto store = Store::Open("sim", {.read_only = true, .device = device_});
  EXPECT_TRUE(absl::IsDataLoss(store.status()));
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("pulse pool check --repair"));
  EXPECT_THAT(std::string(store.status().message()), Not(HasSubstr("pool create")));
  EXPECT_TRUE(Look(/*repair=*/true).repaired);
  EXPECT_EQ(FilesAfterOpening(), 10u);
}

TEST_F(CheckTest, Check_StoreThatLostItsEnd_NamesItsSize) {
  auto image = device_->Written();
  image.resize(image.size() - 8192);
  device_ = std::make_shared<SimDevice>(image);
  const auto status = Check(*device_, {.repair = true, .tick = {}}).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("truncate -s 1048576 "));
  image.resize(1 << 20);
  device_ = std::make_shared<SimDevice>(image);
  EXPECT_TRUE(Look().problems.empty());
}

TEST_F(CheckTest, Repair_DamagedCopy_RestoresItFromTheSuperblock) {
  Flip(superblock_.copy_offset() + 5);
  EXPECT_EQ(FilesAfterOpening(), 10u);
  EXPECT_EQ(Look(/*repair=*/true).problems.size(), 1u);
  EXPECT_TRUE(Look().problems.empty());
}

TEST_F(CheckTest, Repair_NoSuperblockLeft_IsRefused) {
  Flip(100);
  Flip(superblock_.copy_offset() + 5);
  const absl::Status damaged = Check(*device_, {.repair = true, .tick = {}}).status();
  EXPECT_TRUE(absl::IsDataLoss(damaged));
  SimDevice zeros(1 << 20);
  const absl::Status none = Check(zeros, {.repair = true, .tick = {}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(none));
  EXPECT_EQ(zeros.writes, 0u);
  // Nobody is sent back here.
  for (const absl::Status& st : {damaged, none}) {
    EXPECT_THAT(std::string(st.message()), HasSubstr("nothing can be saved"));
    EXPECT_THAT(std::string(st.message()), Not(HasSubstr("pulse pool check")));
  }
}

TEST_F(CheckTest, Repair_BatchDamagedInTheMiddle_KeepsThoseBefore) {
  Flip(superblock_.journal_offset[1] + 3 * kBlock + 70);  // the fourth batch
  EXPECT_FALSE(Store::Open("sim", {.read_only = false, .device = device_}).ok());
  EXPECT_EQ(Look().problems.size(), 1u);
  const CheckReport r = Look(/*repair=*/true);
  EXPECT_TRUE(r.repaired);
  EXPECT_EQ(r.files, 3u);  // those of the batches before
  EXPECT_EQ(FilesAfterOpening(), 3u);
  auto store = Store::Open("sim", {.read_only = false, .device = device_});
  ASSERT_TRUE((*store)->CreateFile("d", "new").ok());
  store->reset();
  EXPECT_EQ(FilesAfterOpening(), 4u);
  EXPECT_TRUE(Look().problems.empty());
}

TEST_F(CheckTest, Repair_SegmentInTwoFiles_KeepsOneFile) {
  const store::Run run{200, 2};
  Record directory;
  directory.type = RecordType::kDirectory;
  directory.directory = 1;
  directory.name = "d";
  Record a;
  a.type = RecordType::kFile;
  a.file = 2;
  a.runs = RunView(&run, 1);
  Record b = a;
  b.file = 3;
  Record name;
  name.type = RecordType::kLink;
  name.file = 2;
  name.directory = 1;
  name.name = "a";
  Record lost = name;  // of a file that is not there, as the second user of the segments
  lost.file = 3;
  lost.name = "b";
  Plant({directory, a, b, name, lost});
  EXPECT_TRUE(
      absl::IsDataLoss(Store::Open("sim", {.read_only = false, .device = device_}).status()));
  EXPECT_EQ(Look().problems.size(), 2u);
  EXPECT_TRUE(Look(/*repair=*/true).repaired);
  EXPECT_EQ(FilesAfterOpening(), 1u);
}

TEST_F(CheckTest, Repair_FilesWithoutNamesOrSegments_StoreOpensAgain) {
  Record directory;
  directory.type = RecordType::kDirectory;
  directory.directory = 1;
  directory.name = "d";
  Record nameless;
  nameless.type = RecordType::kFile;
  nameless.file = 2;
  Record hollow = nameless;
  hollow.file = 3;
  hollow.size = hollow.valid = 10'000;  // and no segments
  Record name;
  name.type = RecordType::kLink;
  name.file = 3;
  name.directory = 1;
  name.name = "hollow";
  Plant({directory, nameless, hollow, name});
  EXPECT_TRUE(
      absl::IsDataLoss(Store::Open("sim", {.read_only = false, .device = device_}).status()));
  EXPECT_FALSE(Look().problems.empty());
  EXPECT_TRUE(Look(/*repair=*/true).repaired);
  EXPECT_EQ(FilesAfterOpening(), 1u);
}

TEST_F(CheckTest, Check_TornUnusedCheckpoint_IsOnlyANote) {
  {
    // Until the journal has gone round, and both slots are in use.
    auto store = *Store::Open("sim", {.read_only = false, .device = device_});
    for (int i = 0; store->usage().checkpoints < 2; ++i) {
      const std::string name = "x" + std::to_string(i);
      ASSERT_TRUE(store->CreateFile("d", name).ok());
      ASSERT_TRUE(store->Unlink("d", name).ok());
      ASSERT_TRUE(store->Commit().ok());
    }
  }
  const int unused = static_cast<int>((Recover(*device_)->checkpoint_generation + 1) % 2);
  Flip(superblock_.checkpoint_offset[unused] + 9);
  const CheckReport r = Look();
  EXPECT_TRUE(r.problems.empty());
  EXPECT_EQ(r.notes.size(), 1u);
  EXPECT_EQ(FilesAfterOpening(), 10u);
}

// Whatever was damaged: repair either says that it cannot, or leaves a store that opens and works.
TEST_F(CheckTest, Repair_AnyDamage_RefusesOrLeavesAStoreThatWorks) {
  std::mt19937_64 random(testing_util::TestSeed());
  const auto original = device_->Written();
  const uint64_t area = superblock_.metadata_bytes();
  for (int i = 0; i < 1000; ++i) {
    auto image = original;
    for (uint64_t n = 1 + random() % 6; n > 0; --n) {
      const uint64_t at =
          random() % 2 == 0 ? random() % area : superblock_.checkpoint_offset[1] + random() % 4096;
      image[at] ^= static_cast<uint8_t>(1 + random() % 255);
    }
    device_ = std::make_shared<SimDevice>(image);
    const auto report = Check(*device_, {.repair = true, .tick = {}});
    if (!report.ok()) continue;
    auto store = Store::Open("sim", {.read_only = false, .device = device_});
    ASSERT_TRUE(store.ok()) << i << ": " << store.status();
    ASSERT_TRUE((*store)->CreateDirectory("new").ok());
    const auto file = (*store)->CreateFile("new", "file");
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*store)->Reserve(*file, 40 * 4096).ok());
    ASSERT_TRUE((*store)->Commit().ok());
    store->reset();
    EXPECT_TRUE(Check(*device_, {.repair = false, .tick = {}})->problems.empty());
  }
}

}  // namespace
}  // namespace pulse::store
