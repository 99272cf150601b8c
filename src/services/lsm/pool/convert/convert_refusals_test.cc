// What stands in the way of a conversion: each is found before anything is lost, and named with its
// remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "services/lsm/pool/convert/convert.h"
#include "services/lsm/pool/convert/test_conversion.h"

namespace pulse::convert::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(ConvertTest, Convert_UnfitDatabaseOrPool_RefusesWithARemedy) {
  MakeDatabase();
  const auto names = Names(db_);
  const auto refused = [&](const Options& options, absl::StatusCode code, const char* what,
                           const char* remedy) {
    for (const auto& report : {Import(options), Export(options)}) {
      EXPECT_EQ(report.status().code(), code) << report.status();
      EXPECT_THAT(std::string(report.status().message()),
                  AllOf(HasSubstr(what), HasSubstr(remedy)));
    }
  };
  Options options = MakeOptions();
  options.database = root_ + "/none";
  refused(options, absl::StatusCode::kNotFound, "/none", "No such file");
  options.database = pool_;
  refused(options, absl::StatusCode::kInvalidArgument, "not a directory", "name the one");
  options.database = more_;
  refused(options, absl::StatusCode::kInvalidArgument, "no RocksDB database", "name the directory");
  options = MakeOptions();
  options.pool = root_ + "/none";
  refused(options, absl::StatusCode::kNotFound, "/none", "pulse pool create");
  options.pool = db_ + "/CURRENT";
  refused(options, absl::StatusCode::kFailedPrecondition, "/CURRENT", "no PulseDB store");
  options = MakeOptions();
  options.db_paths = {db_ + "/../db", root_ + "/nowhere"};
  refused(options, absl::StatusCode::kNotFound, "/nowhere", "No such file");
  // Tables that are elsewhere.
  options.db_paths.clear();
  refused(options, absl::StatusCode::kDataLoss, "missing", "--db-path");
  options = MakeOptions();
  options.database = root_ + "/second";
  {
    TestDb second(SmallDbOptions(nullptr), options.database);
    ASSERT_TRUE(second.Open().ok());
    refused(options, absl::StatusCode::kFailedPrecondition, "is open", "close it first");
  }
  options.db_paths = {db_};
  refused(options, absl::StatusCode::kInvalidArgument, "a database of its own", "by itself");
  EXPECT_EQ(Names(db_), names);
  EXPECT_TRUE(InPool().empty());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, Import_DamagedOrMissingTable_FailsBeforeCopying) {
  MakeDatabase();
  std::string table;
  for (const std::string& name : Names(more_)) {
    if (absl::EndsWith(name, ".sst")) table = name;
  }
  const uint64_t size = fs::file_size(more_ + "/" + table);
  fs::resize_file(more_ + "/" + table, size - 1);
  auto in = Import(MakeOptions());
  EXPECT_TRUE(absl::IsDataLoss(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()),
              AllOf(HasSubstr(table), HasSubstr(std::to_string(size)), HasSubstr("backup")));
  fs::remove(more_ + "/" + table);
  in = Import(MakeOptions());
  EXPECT_TRUE(absl::IsDataLoss(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()), HasSubstr(table));
  EXPECT_FALSE(Guarded());
  EXPECT_TRUE(InPool().empty());
}

TEST_F(ConvertTest, Export_TableMissingInPool_NamesIt) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  const std::string gone = *InPool().at(more_).begin();
  {
    auto store = store::Store::Open(pool_);
    ASSERT_TRUE((*store)->Unlink(more_, gone).ok());
  }
  const auto out = Export(MakeOptions());
  EXPECT_TRUE(absl::IsDataLoss(out.status())) << out.status();
  EXPECT_THAT(std::string(out.status().message()), HasSubstr(gone));
  EXPECT_TRUE(Guarded());
}

TEST_F(ConvertTest, Import_TooLittleRoom_NamesPoolAndRemedy) {
  MakeDatabase();
  Options options = MakeOptions();
  options.pool = root_ + "/small_pool";
  CreatePool(options.pool, 4 << 20, 64 << 10);
  {
    auto store = store::Store::Open(options.pool);
    ASSERT_TRUE(store.ok()) << store.status();
    const store::Usage usage = (*store)->usage();
    ASSERT_TRUE((*store)->CreateDirectory("full").ok());
    ASSERT_TRUE((*store)->Reserve(*(*store)->CreateFile("full", "f"), (usage.free - 4) << 16).ok());
  }
  const auto in = Import(options);
  EXPECT_TRUE(absl::IsResourceExhausted(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()),
              AllOf(HasSubstr(options.pool), HasSubstr("bytes free"), HasSubstr("larger pool")));
  EXPECT_FALSE(Guarded());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, Convert_WithAnotherPool_NamesTheRightOne) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  Options options = MakeOptions();
  options.pool = root_ + "/another_pool";
  CreatePool(options.pool, 8 << 20);
  for (const auto& report : {Import(options), Export(options)}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
    EXPECT_THAT(std::string(report.status().message()), HasSubstr("are in the pool " + pool_));
  }
  // Under another path it is still the same pool.
  fs::rename(pool_, root_ + "/moved_pool");
  options.pool = root_ + "/moved_pool";
  const auto in = Import(options);
  ASSERT_TRUE(in.ok()) << in.status();
  EXPECT_TRUE(in->already);
  EXPECT_TRUE(Export(options).ok());
  EXPECT_EQ(Use(), "");
}

TEST_F(ConvertTest, Convert_PlainFileInTheWay_NamesAndKeepsIt) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  const std::string name = *InPool().at(more_).begin();
  const std::string path = more_ + "/" + name;
  std::string bytes;
  {
    // Of the same size, and of another.
    auto store = store::Store::Open(pool_);
    bytes.assign((*store)->Stat(*(*store)->Lookup(more_, name))->size, 'x');
  }
  for (const size_t size : {bytes.size(), bytes.size() / 2}) {
    std::ofstream(path) << bytes.substr(0, size);
    for (const auto& report : {Import(MakeOptions()), Export(MakeOptions())}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(report.status())) << report.status();
      EXPECT_THAT(std::string(report.status().message()),
                  AllOf(HasSubstr(path), HasSubstr("move the plain file away")));
    }
    EXPECT_EQ(fs::file_size(path), size);
  }
  fs::remove(path);
  EXPECT_EQ(Use(), "");
  EXPECT_TRUE(Export(MakeOptions()).ok());
  EXPECT_EQ(Use(), "");
}

// Somebody has put CURRENT back by hand, who must not be helped to lose the tables.
TEST_F(ConvertTest, Convert_GuardRemovedByHand_RefusesAndKeepsTables) {
  MakeDatabase();
  ASSERT_TRUE(Import(MakeOptions()).ok());
  fs::copy(db_ + "/CURRENT.pulse", db_ + "/CURRENT", fs::copy_options::overwrite_existing);
  const auto before = InPool();
  const auto in = Import(MakeOptions());
  EXPECT_TRUE(absl::IsFailedPrecondition(in.status())) << in.status();
  EXPECT_THAT(std::string(in.status().message()), HasSubstr("without the plug-in"));
  EXPECT_TRUE(absl::IsDataLoss(Export(MakeOptions()).status()));
  EXPECT_EQ(InPool(), before);
}

}  // namespace
}  // namespace pulse::convert::test
