// Engines are made once for all inputs that follow each other.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "services/ops/codecs.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;

// An agent's engine is one of this process; counts.
class CountingSupplier : public EngineSupplier {
 public:
  int threads() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Engine>> Make(const EngineOrder& order, EngineTraits traits,
                                               MakeLocal local) override {
    orders.push_back(order);
    traits.side = Side::kAgent;
    traits.lanes = 1;
    return local(std::move(traits));
  }
  std::vector<EngineOrder> orders;
};

TEST(EngineCache, FilesOfOneCommand_ShareTheirEngines) {
  for (const bool kept : {false, true}) {
    const auto supplier = std::make_shared<CountingSupplier>();
    EngineCache cache;
    CompressOptions options;
    options.format = Format::kZstd;
    options.level = 3;
    options.processors.agent = supplier;
    options.processors.placement = *Placement::Parse("split=50");
    options.processors.engines = kept ? &cache : nullptr;
    DecompressOptions back;
    back.processors = options.processors;
    // From small ones, whose chunks are smaller, to a large one, and back.
    for (const size_t size : {10'000, 2'500'000, 9'000'000, 2'500'000}) {
      const std::string data = MakeData(Kind::kText, size, TestSeed());
      const auto bytes = CompressText(options, data);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const Decompressed got = DecompressText(*bytes, false, back);
      ASSERT_TRUE(got.status.ok()) << got.status;
      EXPECT_TRUE(got.data == data) << size;
    }
    // One that compresses, one that decompresses.
    EXPECT_EQ(supplier->orders.size(), kept ? 2U : 8U);
    // Whoever makes it is told of chunks as large as any.
    EXPECT_GE(supplier->orders.front().chunk_bytes, uint64_t{4} << 20);
  }
}

TEST(EngineCache, OtherLevelsAndFormats_AreOtherEngines) {
  const auto supplier = std::make_shared<CountingSupplier>();
  EngineCache cache;
  CompressOptions options;
  options.processors.agent = supplier;
  options.processors.engines = &cache;
  const std::string data = MakeData(Kind::kText, 300'000, TestSeed());
  for (int round = 0; round < 2; ++round) {
    for (const Format format : kAllFormats) {
      for (const int level : {1, 6}) {
        options.format = format;
        options.level = level;
        const auto bytes = CompressText(options, data);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        const Decompressed got = DecompressText(*bytes);
        ASSERT_TRUE(got.status.ok()) << got.status;
        EXPECT_TRUE(got.data == data);
      }
    }
  }
  EXPECT_EQ(supplier->orders.size(), std::size(kAllFormats) * 2);
}

}  // namespace
}  // namespace pulse::ops
