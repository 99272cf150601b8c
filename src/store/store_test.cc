// The store's behaviour on a sound device.
#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/testing.h"
#include "store/sim_device.h"

namespace pulse::store {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr uint64_t kTestSegment = 4096;

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    CreateOptions options;
    options.segment_bytes = kTestSegment;
    ASSERT_TRUE(Format(*device_, options).ok());
    Reopen();
  }
  void Reopen() {
    store_.reset();
    auto store = Store::Open("sim", {.read_only = false, .device = device_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *store;
  }
  FileId Make(const std::string& directory, const std::string& name, uint64_t bytes = 0) {
    if (!store_->HasDirectory(directory)) {
      EXPECT_TRUE(store_->CreateDirectory(directory).ok());
    }
    const auto file = store_->CreateFile(directory, name);
    EXPECT_TRUE(file.ok()) << file.status();
    if (bytes > 0) {
      EXPECT_TRUE(store_->Reserve(*file, bytes).ok());
      EXPECT_TRUE(store_->Wrote(*file, 0, bytes).ok());
    }
    return *file;
  }
  std::vector<Extent> Read(FileId file, uint64_t offset, uint64_t length) {
    std::vector<Extent> extents;
    EXPECT_TRUE(store_->MapRead(file, offset, length, &extents).ok());
    return extents;
  }
  std::vector<std::string> Names(const std::string& directory) {
    std::vector<std::string> names;
    const auto entries = store_->List(directory);
    EXPECT_TRUE(entries.ok());
    for (const auto& e : *entries) names.push_back(e.name);
    return names;
  }

  std::shared_ptr<SimDevice> device_ = std::make_shared<SimDevice>(1 << 20);
  std::shared_ptr<Store> store_;
};

TEST_F(StoreTest, File_StoreReopened_IsUnchanged) {
  const FileId a = Make("/db", "000007.sst", 3 * kTestSegment + 5);
  const auto before = Read(a, 0, 1 << 20);
  ASSERT_TRUE(store_->Commit().ok());
  for (int i = 0; i < 3; ++i) {
    Reopen();
    EXPECT_EQ(*store_->Lookup("/db", "000007.sst"), a);
    const auto attributes = store_->Stat(a);
    ASSERT_TRUE(attributes.ok());
    EXPECT_EQ(attributes->size, 3 * kTestSegment + 5);
    EXPECT_EQ(attributes->valid, 3 * kTestSegment + 5);
    EXPECT_EQ(attributes->allocated, 4 * kTestSegment);
    EXPECT_EQ(attributes->links, 1u);
    EXPECT_GT(attributes->modified_ns, 0);
    EXPECT_EQ(Read(a, 0, 1 << 20), before);
  }
}

TEST_F(StoreTest, Destructor_UncommittedChanges_CommitsThem) {
  Make("d", "x");
  Reopen();
  EXPECT_TRUE(store_->Lookup("d", "x").ok());
}

TEST_F(StoreTest, Directories_NotEmpty_AreNotRemovedOrReplaced) {
  ASSERT_TRUE(store_->CreateDirectory("a").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_->CreateDirectory("a")));
  ASSERT_TRUE(store_->CreateDirectory("b/with/slashes").ok());
  Make("a", "1");
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->RemoveDirectory("a")));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->RenameDirectory("b/with/slashes", "a")));
  ASSERT_TRUE(store_->RenameDirectory("a", "b/with/slashes").ok());  // onto an empty one
  EXPECT_FALSE(store_->HasDirectory("a"));
  EXPECT_THAT(Names("b/with/slashes"), UnorderedElementsAre("1"));
  Reopen();
  EXPECT_THAT(store_->ListDirectories(), UnorderedElementsAre("b/with/slashes"));
  EXPECT_THAT(Names("b/with/slashes"), UnorderedElementsAre("1"));
  Make("b/with/slashes", "2", kTestSegment);
  ASSERT_TRUE(store_->ClearDirectory("b/with/slashes").ok());
  ASSERT_TRUE(store_->RemoveDirectory("b/with/slashes").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->RemoveDirectory("b/with/slashes")));
  EXPECT_TRUE(absl::IsNotFound(store_->List("a").status()));
  Reopen();
  EXPECT_TRUE(store_->ListDirectories().empty());
  EXPECT_EQ(store_->usage().free, store_->usage().segments);
}

TEST_F(StoreTest, Names_EmptyReservedOrTooLong_AreRefused) {
  ASSERT_TRUE(store_->CreateDirectory("d").ok());
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string("a\0b", 3), std::string(256, 'x')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->CreateFile("d", name).status())) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Rename("d", "x", "d", name))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(store_->Link("d", "x", "d", name))) << name;
  }
  for (const std::string& name : {std::string(), std::string("a\0b", 3), std::string(1024, 'x')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(store_->CreateDirectory(name))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(store_->RenameDirectory("d", name))) << name;
  }
  EXPECT_TRUE(store_->CreateFile("d", std::string(255, 'x')).ok());
  EXPECT_TRUE(store_->CreateDirectory(std::string(1023, 'x')).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store_->CreateFile("d", std::string(255, 'x')).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->CreateFile("e", "x").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Lookup("d", "nothing").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Unlink("d", "nothing")));
  EXPECT_TRUE(absl::IsNotFound(store_->Stat(12345).status()));
  Reopen();
  EXPECT_THAT(Names("d"), UnorderedElementsAre(std::string(255, 'x')));
}

TEST_F(StoreTest, File_LinkedAndRenamed_LivesUntilItsLastNameGoes) {
  const FileId a = Make("d", "a", kTestSegment);
  const FileId b = Make("d", "b", kTestSegment);
  ASSERT_TRUE(store_->CreateDirectory("e").ok());
  ASSERT_TRUE(store_->Link("d", "a", "e", "a2").ok());
  EXPECT_EQ(store_->Stat(a)->links, 2u);
  EXPECT_TRUE(absl::IsAlreadyExists(store_->Link("d", "a", "d", "b")));
  ASSERT_TRUE(store_->Rename("d", "a", "e", "a2").ok());  // two names of one file: both stay
  EXPECT_EQ(store_->Stat(a)->links, 2u);
  ASSERT_TRUE(store_->Rename("d", "a", "d", "b").ok());
  EXPECT_EQ(*store_->Lookup("d", "b"), a);
  EXPECT_TRUE(absl::IsNotFound(store_->Stat(b).status()));
  Reopen();
  EXPECT_EQ(*store_->Lookup("e", "a2"), a);
  EXPECT_EQ(store_->Stat(a)->links, 2u);
  ASSERT_TRUE(store_->Unlink("d", "b").ok());
  EXPECT_EQ(store_->Stat(a)->links, 1u);
  ASSERT_TRUE(store_->Unlink("e", "a2").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Stat(a).status()));
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().free, store_->usage().segments);
}

TEST_F(StoreTest, FileId_OfADeletedFile_IsNotUsedAgain) {
  const FileId a = Make("d", "a");
  ASSERT_TRUE(store_->Unlink("d", "a").ok());
  Reopen();
  EXPECT_GT(Make("d", "a"), a);
}

TEST_F(StoreTest, File_HolesAndGaps_ReadsHolesAndRefusesGaps) {
  const FileId f = Make("d", "f");
  EXPECT_TRUE(Read(f, 0, 100).empty());
  ASSERT_TRUE(store_->SetSize(f, 10'000).ok());
  EXPECT_THAT(Read(f, 5, 20'000), testing::ElementsAre(Extent{Extent::kHole, 9'995}));
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Wrote(f, 0, 1)));  // no segment
  std::vector<Extent> extents;
  ASSERT_TRUE(store_->MapWrite(f, 5000, 1000, &extents).ok());
  ASSERT_EQ(extents.size(), 1u);
  EXPECT_EQ(extents[0].length, 1000u);
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Wrote(f, 5000, 1000)));  // a gap
  ASSERT_TRUE(store_->Wrote(f, 0, 6000).ok());
  EXPECT_EQ(store_->Stat(f)->size, 10'000u);
  EXPECT_EQ(store_->Stat(f)->valid, 6000u);
  const auto read = Read(f, 5000, 20'000);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0], (Extent{extents[0].device_offset, 1000}));
  EXPECT_EQ(read[1], (Extent{Extent::kHole, 4000}));
  EXPECT_TRUE(Read(f, 10'000, 1).empty());
  ASSERT_TRUE(store_->SetSize(f, 100).ok());
  EXPECT_EQ(store_->Stat(f)->valid, 100u);
  EXPECT_EQ(store_->Stat(f)->allocated, kTestSegment);
  Reopen();
  EXPECT_EQ(store_->Stat(f)->valid, 100u);
  EXPECT_EQ(store_->Stat(f)->allocated, kTestSegment);
  EXPECT_TRUE(absl::IsInvalidArgument(store_->SetSize(f, ~uint64_t{0})));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->MapWrite(f, ~uint64_t{0} - 5, 10, &extents)));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->Reserve(f, ~uint64_t{0})));
}

TEST_F(StoreTest, Reserve_ThenTrim_IsContiguousAndGivesTheRestBack) {
  const FileId f = Make("d", "f");
  ASSERT_TRUE(store_->Reserve(f, 20 * kTestSegment).ok());
  std::vector<Extent> extents;
  ASSERT_TRUE(store_->MapWrite(f, 0, 20 * kTestSegment, &extents).ok());
  EXPECT_EQ(extents.size(), 1u);
  ASSERT_TRUE(store_->Wrote(f, 0, kTestSegment + 1).ok());
  ASSERT_TRUE(store_->Trim(f).ok());
  EXPECT_EQ(store_->Stat(f)->allocated, 2 * kTestSegment);
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().free, store_->usage().segments - 2);
  EXPECT_EQ(store_->usage().pending, 0u);
}

TEST_F(StoreTest, FullStore_MoreReserved_SaysSoAndLosesNothing) {
  const uint64_t all = store_->usage().segments * kTestSegment;
  const FileId a = Make("d", "a", all / 2);
  const FileId b = Make("d", "b");
  const absl::Status full = store_->Reserve(b, all);
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr("is full"));
  EXPECT_EQ(store_->Stat(b)->allocated, 0u);
  // What an uncommitted deletion has freed is had by committing it first.
  ASSERT_TRUE(store_->Unlink("d", "a").ok());
  EXPECT_GT(store_->usage().pending, 0u);
  ASSERT_TRUE(store_->Reserve(b, all).ok());
  EXPECT_EQ(store_->usage().free, 0u);
  EXPECT_TRUE(absl::IsNotFound(store_->Stat(a).status()));
  Reopen();
  EXPECT_EQ(store_->Stat(b)->allocated, all);
}

TEST_F(StoreTest, FreedSegments_Uncommitted_WaitForTheCommit) {
  const uint64_t all = store_->usage().segments * kTestSegment;
  Make("d", "a", all);
  ASSERT_TRUE(store_->Commit().ok());
  const FileId b = Make("d", "b");
  ASSERT_TRUE(store_->Unlink("d", "a").ok());
  EXPECT_EQ(store_->usage().free, 0u);
  EXPECT_EQ(store_->usage().pending, all / kTestSegment);
  const uint64_t syncs = device_->syncs;
  ASSERT_TRUE(store_->Reserve(b, kTestSegment).ok());
  EXPECT_GT(device_->syncs, syncs);
  EXPECT_EQ(store_->usage().free, all / kTestSegment - 1);
}

TEST_F(StoreTest, MetadataFull_NewFile_IsRefusedNamingTheOption) {
  ASSERT_TRUE(store_->CreateDirectory("d").ok());
  absl::Status status;
  int files = 0;
  for (; status.ok() && files < 100'000; ++files) {
    status = store_->CreateFile("d", "a-name-of-some-length-" + std::to_string(files)).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--metadata"));
  EXPECT_TRUE(absl::IsResourceExhausted(store_->CreateDirectory(std::string(1000, 'e'))));
  EXPECT_LE(store_->usage().metadata_bytes, store_->usage().metadata_capacity);
  Reopen();
  EXPECT_EQ(Names("d").size(), static_cast<size_t>(files - 1));
  ASSERT_TRUE(store_->Unlink("d", "a-name-of-some-length-0").ok());
  EXPECT_TRUE(store_->CreateFile("d", "b").ok());
}

TEST_F(StoreTest, Pin_FileUnlinked_KeepsItUntilTheLastReset) {
  const FileId f = Make("d", "f", 2 * kTestSegment);
  const auto before = Read(f, 0, 2 * kTestSegment);
  auto pin = store_->Pin(f);
  ASSERT_TRUE(pin.ok());
  auto second = store_->Pin(f);
  ASSERT_TRUE(store_->Unlink("d", "f").ok());
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().free, store_->usage().segments - 2);
  EXPECT_EQ(Read(f, 0, 2 * kTestSegment), before);
  EXPECT_EQ(store_->Stat(f)->links, 0u);
  // It can still be written to; nothing of that is for the journal.
  std::vector<Extent> extents;
  ASSERT_TRUE(store_->MapWrite(f, 2 * kTestSegment, 10, &extents).ok());
  ASSERT_TRUE(store_->Wrote(f, 2 * kTestSegment, 10).ok());
  ASSERT_TRUE(store_->SetSize(f, kTestSegment).ok());
  ASSERT_TRUE(store_->Commit().ok());
  FilePin moved = std::move(*pin);
  pin->Reset();
  second->Reset();
  EXPECT_TRUE(store_->Stat(f).ok());
  moved.Reset();
  EXPECT_TRUE(absl::IsNotFound(store_->Stat(f).status()));
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().free + store_->usage().pending, store_->usage().segments);
  EXPECT_TRUE(absl::IsNotFound(store_->Pin(f).status()));
}

TEST_F(StoreTest, PinnedUnlinkedFile_Reopened_IsGone) {
  const FileId f = Make("d", "f", 2 * kTestSegment);
  auto pin = store_->Pin(f);
  ASSERT_TRUE(store_->Unlink("d", "f").ok());
  ASSERT_TRUE(store_->Commit().ok());
  auto other = std::make_shared<SimDevice>(device_->Written());
  auto store = Store::Open("sim", {.read_only = false, .device = other});
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->usage().free, (*store)->usage().segments);
}

TEST_F(StoreTest, Quarantine_FileRelocated_HoldsItsOldSegmentsBack) {
  const uint64_t all = store_->usage().segments;
  const FileId f = Make("d", "f", 3 * kTestSegment);
  const auto old = Read(f, 0, 3 * kTestSegment);
  const auto token = store_->Quarantine(f);
  const auto again = store_->Quarantine(f);
  ASSERT_TRUE(token.ok() && again.ok());
  std::vector<Extent> to;
  ASSERT_TRUE(store_
                  ->Relocate(f,
                             [&](const auto& from, const auto& fresh) {
                               EXPECT_EQ(from, old);
                               to = fresh;
                               return absl::OkStatus();
                             })
                  .ok());
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_NE(to, old);
  EXPECT_EQ(Read(f, 0, 3 * kTestSegment), to);
  EXPECT_EQ(store_->usage().free, all - 6);
  EXPECT_EQ(store_->usage().quarantined, 3u);
  // Not even a full store hands them out.
  const FileId g = Make("d", "g");
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Reserve(g, (all - 5) * kTestSegment)));
  store_->ReleaseQuarantine(*token);
  EXPECT_EQ(store_->usage().free, all - 6);
  store_->ReleaseQuarantine(*again);
  EXPECT_EQ(store_->usage().free, all - 3);
  EXPECT_EQ(store_->usage().quarantined, 0u);
  EXPECT_TRUE(store_->Reserve(g, (all - 3) * kTestSegment).ok());
  Reopen();
  EXPECT_EQ(Read(f, 0, 3 * kTestSegment), to);
}

TEST_F(StoreTest, ReleaseQuarantine_DeletedOrUnchangedFile_LeaksNothing) {
  const uint64_t all = store_->usage().segments;
  const FileId f = Make("d", "f", 3 * kTestSegment);
  const auto token = store_->Quarantine(f);
  ASSERT_TRUE(store_->Unlink("d", "f").ok());
  store_->ReleaseQuarantine(
      *token);  // before the deletion is durable: then it is that which counts
  EXPECT_EQ(store_->usage().free, all - 3);
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().free, all);
  store_->ReleaseQuarantine(*token);  // unknown by now
  const FileId g = Make("d", "g", kTestSegment);
  const auto other = store_->Quarantine(g);
  store_->ReleaseQuarantine(*other);
  EXPECT_EQ(store_->usage().free, all - 1);
}

TEST_F(StoreTest, Relocate_CopyFails_ChangesNothing) {
  const FileId f = Make("d", "f", 3 * kTestSegment);
  const auto old = Read(f, 0, 3 * kTestSegment);
  const uint64_t free = store_->usage().free;
  const absl::Status status = store_->Relocate(f, [&](const auto&, const auto&) {
    EXPECT_TRUE(absl::IsFailedPrecondition(store_->Reserve(f, 10 * kTestSegment)));
    EXPECT_TRUE(absl::IsFailedPrecondition(store_->SetSize(f, 1)));
    EXPECT_TRUE(absl::IsFailedPrecondition(store_->Trim(f)));
    return absl::CancelledError("no");
  });
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_EQ(Read(f, 0, 3 * kTestSegment), old);
  EXPECT_EQ(store_->usage().free, free);
  EXPECT_TRUE(store_->Reserve(f, 10 * kTestSegment).ok());
}

TEST_F(StoreTest, Relocate_FileUnlinkedMeanwhile_FreesAllItsSegments) {
  const uint64_t all = store_->usage().segments;
  const FileId f = Make("d", "f", 3 * kTestSegment);
  ASSERT_TRUE(
      store_->Relocate(f, [&](const auto&, const auto&) { return store_->Unlink("d", "f"); }).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Stat(f).status()));
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().free, all);
}

TEST_F(StoreTest, Commit_SyncFails_RefusesChangesFromThenOn) {
  Make("d", "a");
  ASSERT_TRUE(store_->Commit().ok());
  Make("d", "b");
  device_->fail_syncs = true;
  const absl::Status status = store_->Commit();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("offset"));
  device_->fail_syncs = false;
  EXPECT_TRUE(absl::IsUnavailable(store_->Commit()));
  EXPECT_TRUE(absl::IsUnavailable(store_->CreateFile("d", "c").status()));
  EXPECT_TRUE(absl::IsUnavailable(store_->status()));
  EXPECT_TRUE(store_->Lookup("d", "a").ok());
  Reopen();
  EXPECT_TRUE(store_->Lookup("d", "a").ok());
  EXPECT_TRUE(store_->CreateFile("d", "c").ok());
}

TEST_F(StoreTest, ReadOnlyStore_ChangesTried_WritesNothing) {
  Make("d", "a");
  ASSERT_TRUE(store_->Commit().ok());
  auto copy = std::make_shared<SimDevice>(device_->Written());  // as a killed process leaves it
  {
    auto store = Store::Open("sim", {.read_only = true, .device = copy});
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_TRUE((*store)->Lookup("d", "a").ok());
    EXPECT_TRUE(absl::IsFailedPrecondition((*store)->CreateFile("d", "b").status()));
    std::vector<Extent> extents;
    const auto file = (*store)->Lookup("d", "a");
    EXPECT_TRUE(absl::IsFailedPrecondition((*store)->MapWrite(*file, 0, 1, &extents)));
    EXPECT_TRUE((*store)->Commit().ok());
  }
  EXPECT_EQ(copy->writes, 0u);
}

TEST_F(StoreTest, Close_WithoutChanges_WritesNothing) {
  Make("d", "a");
  Reopen();
  const uint64_t writes = device_->writes;
  Reopen();
  Reopen();
  EXPECT_EQ(device_->writes, writes);
}

TEST_F(StoreTest, CommitLater_SeveralCalls_CallsEachBack) {
  Make("d", "a");
  std::atomic<int> done{0};
  for (int i = 0; i < 10; ++i) {
    store_->CommitLater([&](const absl::Status& status) {
      EXPECT_TRUE(status.ok());
      ++done;
    });
  }
  EXPECT_TRUE(testing_util::Eventually([&] { return done == 10; }));
  auto copy = std::make_shared<SimDevice>(device_->Written());
  auto store = Store::Open("sim", {.read_only = true, .device = copy});
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE((*store)->Lookup("d", "a").ok());
}

TEST_F(StoreTest, Wrote_ManyTimesOnOneFile_TakesOneBatch) {
  const FileId f = Make("d", "f");
  ASSERT_TRUE(store_->Reserve(f, 100 * kTestSegment).ok());
  ASSERT_TRUE(store_->Commit().ok());
  const uint64_t batches = store_->usage().batches;
  for (uint64_t at = 0; at < 100 * kTestSegment; at += 10)
    ASSERT_TRUE(store_->Wrote(f, at, 10).ok());
  ASSERT_TRUE(store_->Commit().ok());
  EXPECT_EQ(store_->usage().batches, batches + 1);
  Reopen();
  EXPECT_EQ(store_->Stat(f)->valid, 100 * kTestSegment);
}

TEST_F(StoreTest, Journal_GoesRoundManyTimes_LosesNothing) {
  std::set<std::string> model;
  Make("d", "first", kTestSegment);
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string name = std::to_string(round) + "-" + std::to_string(i);
      Make("d", name, kTestSegment);
      if (i % 10 != 0 || round % 10 != 0) {
        ASSERT_TRUE(store_->Unlink("d", name).ok());
      } else {
        model.insert(name);
      }
      if (i % 2 == 0) {
        ASSERT_TRUE(store_->Commit().ok());
      }
    }
    if (round % 7 == 0) Reopen();
  }
  Reopen();
  model.insert("first");
  const auto names = Names("d");
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), model);
}

}  // namespace
}  // namespace pulse::store
