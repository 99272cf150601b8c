// Damage to the metadata, at every offset: opening says DataLoss or FailedPrecondition and an
// offset, or finds exactly the state that was there.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "base/testing.h"
#include "store/format.h"
#include "store/recovery.h"
#include "store/sim_device.h"
#include "store/store.h"

namespace pulse::store {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
size_t Stride() { return 61; }
#else
// Every byte only in long tests. Records are longer than this, so that each of them is struck.
size_t Stride() { return testing_util::LongTests() ? 1 : 5; }
#endif

std::string Show(const State& state) {
  std::map<std::string, std::string> names;
  state.ForEachDirectory([&](const Directory& d) {
    names[d.name + "/"];
    d.entries.ForEach([&](const Entry& e) {
      std::string& text = names[d.name + "/" + e.name];
      text = std::to_string(e.file->id) + " " + std::to_string(e.file->size) + " " +
             std::to_string(e.file->valid);
      for (const FileRun& r : e.file->runs) {
        text += " " + std::to_string(r.first) + "+" + std::to_string(r.count);
      }
    });
  });
  std::string all;
  for (const auto& [name, text] : names) all += name + ": " + text + "\n";
  return all;
}

class CorruptionTest : public testing::Test {
 protected:
  // Two checkpoints, batches in both halves of the journal.
  void SetUp() override {
    auto device = std::make_shared<SimDevice>(512 << 10);
    CreateOptions options;
    options.segment_bytes = 4096;
    options.metadata_bytes = 128 << 10;
    ASSERT_TRUE(Format(*device, options).ok());
    auto store = *Store::Open("sim", {.read_only = false, .device = device});
    ASSERT_TRUE(store->CreateDirectory("/some/directory").ok());
    int n = 0;
    const auto step = [&] {
      const std::string name = std::to_string(++n) + ".sst";
      const auto file = store->CreateFile("/some/directory", name);
      ASSERT_TRUE(file.ok());
      ASSERT_TRUE(store->Reserve(*file, 3 * 4096).ok());
      ASSERT_TRUE(store->Wrote(*file, 0, 9000).ok());
      if (n > 6) {
        ASSERT_TRUE(store->Unlink("/some/directory", std::to_string(n - 6) + ".sst").ok());
      }
      ASSERT_TRUE(store->Commit().ok());
    };
    // Checkpoints come when their thread gets to it: until the newest is in use, and batches
    // follow.
    const auto look = [&] {
      SimDevice copy(device->Written());
      return Recover(copy);
    };
    for (bool enough = false; !enough;) {
      before_last_ = Show(*look()->state);
      step();
      const auto now = look();
      enough =
          now->generation > 3 && now->generation == now->checkpoint_generation && now->batches >= 3;
    }
    unclean_ = device->Written();
    metadata_bytes_ = store->geometry().metadata_segments * store->geometry().segment_bytes;
    store.reset();
    clean_ = device->Written();
    SimDevice copy(clean_);
    expected_ = Show(*Recover(copy)->state);
    ASSERT_NE(expected_, before_last_);
  }

  // True when the state is found; false when it is refused.
  bool Opens(const std::vector<uint8_t>& image, bool last_batch_may_be_lost, size_t offset) {
    SimDevice device(image);
    const auto recovered = Recover(device);
    EXPECT_EQ(device.writes, 0u);
    if (!recovered.ok()) {
      const std::string text(recovered.status().message());
      EXPECT_TRUE(absl::IsDataLoss(recovered.status()) ||
                  absl::IsFailedPrecondition(recovered.status()))
          << recovered.status();
      EXPECT_NE(text.find("offset "), std::string::npos) << text;
      ++refused_;
      return false;
    }
    const std::string found = Show(*recovered->state);
    if (last_batch_may_be_lost && found == before_last_) {
      ++shortened_;
    } else {
      EXPECT_EQ(found, expected_) << "damage at offset " << offset;
    }
    return true;
  }

  // With --repair's eyes: whatever is damaged, it ends, and tells.
  void Salvages(const std::vector<uint8_t>& image, size_t offset, bool refused) {
    SimDevice device(image);
    std::vector<Finding> findings;
    const auto recovered = Recover(device, &findings);
    if (refused && recovered.ok()) {
      EXPECT_FALSE(findings.empty()) << "offset " << offset;
    }
  }

  std::vector<uint8_t> unclean_;
  std::vector<uint8_t> clean_;
  std::string before_last_;
  std::string expected_;
  size_t metadata_bytes_ = 0;
  int refused_ = 0;
  int shortened_ = 0;
};

TEST_F(CorruptionTest, ClosedStore_AnyByteDamaged_IsRefusedOrUnchanged) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (size_t at = testing_util::TestSample() % Stride(); at < metadata_bytes_; at += Stride()) {
    auto image = clean_;
    image[at] ^= static_cast<uint8_t>(1 + random() % 255);
    const bool opened = Opens(image, /*last_batch_may_be_lost=*/false, at);
    if (random() % 16 == 0) Salvages(image, at, !opened);
  }
  EXPECT_GT(refused_, 0);
}

TEST_F(CorruptionTest, UnclosedStore_AnyByteDamaged_LosesLastBatchAtMost) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (size_t at = testing_util::TestSample() % Stride(); at < metadata_bytes_; at += Stride()) {
    auto image = unclean_;
    image[at] ^= static_cast<uint8_t>(1 + random() % 255);
    Opens(image, /*last_batch_may_be_lost=*/true, at);
  }
  EXPECT_GT(refused_, 0);
  if (Stride() < 61) {
    EXPECT_GT(shortened_, 0);
  }
}

TEST_F(CorruptionTest, Sector_LostMovedOrScrambled_IsRefusedOrHarmless) {
  constexpr size_t kSector = 512;
  std::mt19937_64 random(testing_util::TestSeed());
  for (size_t at = 0; at < metadata_bytes_; at += kSector) {
    for (int kind = 0; kind < 3; ++kind) {
      auto image = clean_;
      if (kind == 0) std::fill_n(image.begin() + static_cast<long>(at), kSector, 0);
      if (kind == 1) {
        for (size_t i = 0; i < kSector; ++i) image[at + i] = static_cast<uint8_t>(random());
      }
      if (kind == 2) {
        const size_t other = random() % (metadata_bytes_ / kSector) * kSector;
        std::copy_n(clean_.begin() + static_cast<long>(other), kSector,
                    image.begin() + static_cast<long>(at));
      }
      const bool opened = Opens(image, /*last_batch_may_be_lost=*/false, at);
      Salvages(image, at, !opened);
    }
  }
  EXPECT_GT(refused_, 0);
}

TEST_F(CorruptionTest, BatchInTheMiddle_Damaged_IsNamedByItsOffset) {
  SimDevice device(unclean_);
  const auto before = Recover(device);
  ASSERT_TRUE(before.ok());
  ASSERT_GE(before->batches, 3u);
  ASSERT_EQ(before->generation, before->checkpoint_generation);
  const uint64_t first = before->superblock.journal_offset[before->generation % 2];
  auto image = unclean_;
  image[first + 100] ^= 1;
  SimDevice damaged(image);
  const auto after = Recover(damaged);
  EXPECT_TRUE(absl::IsDataLoss(after.status()));
  EXPECT_NE(std::string(after.status().message()).find("offset " + std::to_string(first) + ":"),
            std::string::npos)
      << after.status();
}

TEST_F(CorruptionTest, Recover_ForeignTruncatedOrNewer_IsRefused) {
  SimDevice zeros(512 << 10);
  EXPECT_TRUE(absl::IsFailedPrecondition(Recover(zeros).status()));
  SimDevice tiny(100);
  EXPECT_TRUE(absl::IsFailedPrecondition(Recover(tiny).status()));
  auto image = clean_;
  image.resize(image.size() - 4096);
  SimDevice cut(image);
  EXPECT_TRUE(absl::IsDataLoss(Recover(cut).status()));
  image = clean_;
  image[8] = 2;  // the version
  const uint64_t sum = Checksum(image.data(), kBlockChecksumAt, 0);
  std::memcpy(image.data() + kBlockChecksumAt, &sum, sizeof(sum));
  SimDevice newer(image);
  const auto status = Recover(newer).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(std::string(status.message()).find("version 2"), std::string::npos) << status;
}

// What an earlier store has left on the device is not taken for this one's.
TEST_F(CorruptionTest, Format_OverAnOldStore_LeavesNothingOfIt) {
  auto device = std::make_shared<SimDevice>(clean_);
  CreateOptions options;
  options.segment_bytes = 4096;
  options.metadata_bytes = 128 << 10;
  ASSERT_TRUE(Format(*device, options).ok());
  const auto recovered = Recover(*device);
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_EQ(recovered->state->files(), 0u);
  EXPECT_EQ(recovered->batches, 0u);
}

// The copy of its superblock lies elsewhere then, and a repair would find it first.
TEST_F(CorruptionTest, Format_OverAStoreWithLessMetadata_LeavesNoCopyOfIt) {
  auto device = std::make_shared<SimDevice>(clean_);
  CreateOptions options;
  options.segment_bytes = 4096;
  for (const uint64_t metadata : {64 << 10, 128 << 10}) {
    options.metadata_bytes = metadata;
    ASSERT_TRUE(Format(*device, options).ok());
  }
  const auto recovered = Recover(*device);
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  const auto copy = FindSuperblockCopy(*device, device->size(), {});
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->copy_offset(), recovered->superblock.copy_offset());
}

}  // namespace
}  // namespace pulse::store
