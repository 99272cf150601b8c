// Tables whose blocks RocksDB pads: with block_align, WritableFileWriter::Pad fills up each block
// from RocksDB's own buffer, which the plug-in must therefore leave it.
#include <gtest/gtest.h>

#include "options/child_case.h"
#include "rocksdb/table.h"
#include "services/lsm/core/rocksdb_compat.h"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"

namespace pulse::options_test {
namespace {

using lsm::test::ScratchDir;
using lsm::test::SmallDbOptions;
using lsm::test::TestDb;

std::string FlushAndCompact(const rocksdb::BlockBasedTableOptions& table, size_t value_size,
                            const std::string& dir, uint64_t seed) {
  std::shared_ptr<rocksdb::FileSystem> fs;
  rocksdb::Status s = NewFileSystem("pulse://", nullptr, &fs);
  if (!s.ok()) return s.ToString();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(fs);
  rocksdb::Options options = SmallDbOptions(env.get());
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  std::mt19937_64 rng(seed);
  TestDb db(options, dir);
  s = db.Open();
  if (s.ok()) s = db.Fill(&rng, static_cast<int>((512 << 10) / value_size), value_size);
  if (s.ok()) s = db.FlushAll();
  if (s.ok()) s = db.CompactAll();
  if (!s.ok()) return s.ToString();
  if (const std::string difference = db.Difference(); !difference.empty()) return difference;
  Stats stats{};
  if (!GetStats(fs.get(), &stats) || stats.files_persisted == 0) return "no output by the agent";
  db.Close();
  return lsm::test::DifferenceOnStock(dir, db.model());
}

class PaddedBlocksTest : public ::testing::TestWithParam<size_t> {};

TEST_P(PaddedBlocksTest, BlockAlign_FlushesAndCompactions_Complete) {
  rocksdb::BlockBasedTableOptions table;
  table.block_align = true;
  table.block_size = GetParam();
  const uint64_t seed = testing_util::TestSeed();
  for (const size_t value_size : {100u, 1000u, 20'000u}) {
    ScratchDir dir;
    const CaseOutcome outcome =
        RunInChild([&] { return FlushAndCompact(table, value_size, dir / "db", seed); });
    EXPECT_EQ(outcome.kind, CaseOutcome::kPassed)
        << "values of " << value_size << " bytes: " << outcome.message;
  }
}

#if PULSE_ROCKSDB_AT_LEAST(11, 0)
TEST_P(PaddedBlocksTest, SuperBlocks_FlushesAndCompactions_Complete) {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = GetParam();
  table.super_block_alignment_size = 128 << 10;
  table.super_block_alignment_space_overhead_ratio = 4;
  ScratchDir dir;
  const uint64_t seed = testing_util::TestSeed();
  const CaseOutcome outcome =
      RunInChild([&] { return FlushAndCompact(table, 1000, dir / "db", seed); });
  EXPECT_EQ(outcome.kind, CaseOutcome::kPassed) << outcome.message;
}
#endif

INSTANTIATE_TEST_SUITE_P(BlockSizes, PaddedBlocksTest,
                         ::testing::Values(1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10),
                         [](const auto& p) { return std::to_string(p.param); });

}  // namespace
}  // namespace pulse::options_test
