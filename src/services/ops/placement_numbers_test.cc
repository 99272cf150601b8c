#include "services/ops/placement_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "services/ops/codecs.h"
#include "services/ops/decoders.h"
#include "services/ops/tasks.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t CompressTask(Codec codec) {
  EngineOrder order;
  order.codec = static_cast<uint8_t>(codec);
  return TaskOf(order);
}

PlacementReport ReportOf(uint64_t host, uint64_t agent) {
  PlacementReport report;
  report.of(Side::kHost) = {host, host * 1000, 0, 200e6};
  report.of(Side::kAgent) = {agent, agent * 1000, 1, 100e6};
  report.whole = 290e6;
  report.most_before_nanos = 100'000'000;
  return report;
}

TEST(PlacementNumbers, CountersOfEngines_AreSummed) {
  PlacementNumbers numbers;
  PlacementReport report = ReportOf(5, 2);
  report.of(Side::kAgent).refused = 3;
  report.of(Side::kAgent).discarded = 2;
  report.of(Side::kAgent).lost = 1;
  report.of(Side::kAgent).busy_nanos = 1'500'000'000;
  const size_t zstd = CompressTask(Codec::kZstd);
  numbers.Add(zstd, report);
  report.of(Side::kAgent).lost = 0;
  numbers.Add(zstd, report);
  const std::string text = MetricsText(numbers.Take());
  for (const char* line :
       {"\npulse_placement_refused_chunks_total{task=\"compress_zstd\",side=\"agent\"} 6\n",
        "\npulse_placement_discarded_results_total{task=\"compress_zstd\",side=\"agent\"} 4\n",
        "\npulse_placement_engines_lost_total{task=\"compress_zstd\",side=\"agent\"} 1\n",
        "\npulse_placement_engines_lost_total{task=\"compress_zstd\",side=\"host\"} 0\n",
        "\npulse_placement_busy_seconds_total{task=\"compress_zstd\",side=\"agent\"} 3\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  PlacementReport later = report;
  later.AddCountsOf(report);
  later.SubtractCountsOf(report);
  EXPECT_EQ(later.of(Side::kAgent).refused, report.of(Side::kAgent).refused);
  EXPECT_EQ(later.of(Side::kAgent).busy_nanos, report.of(Side::kAgent).busy_nanos);
}

TEST(PlacementNumbers, Text_OfReports_HasSumsAndTheLastRates) {
  PlacementNumbers numbers;
  const size_t zstd = CompressTask(Codec::kZstd);
  numbers.Add(zstd, ReportOf(5, 2));
  PlacementReport last = ReportOf(7, 3);
  last.ended = true;
  last.of(Side::kHost).rate = 300e6;
  numbers.Add(zstd, last);
  const std::string text = MetricsText(numbers.Take());
  for (const char* line : {
           "# TYPE pulse_placement_chunks_total counter\n"
           "pulse_placement_chunks_total{task=\"compress_zstd\",side=\"host\"} 12\n"
           "pulse_placement_chunks_total{task=\"compress_zstd\",side=\"agent\"} 5\n",
           "\npulse_placement_input_bytes_total{task=\"compress_zstd\",side=\"host\"} 12000\n",
           "\npulse_placement_redone_chunks_total{task=\"compress_zstd\",side=\"agent\"} 2\n",
           "# TYPE pulse_placement_rate_bytes_per_second gauge\n"
           "pulse_placement_rate_bytes_per_second{task=\"compress_zstd\",side=\"host\"} "
           "300000000\n",
           "\npulse_placement_throughput_bytes_per_second{task=\"compress_zstd\"} 290000000\n",
           "\npulse_placement_agent_faster{task=\"compress_zstd\"} 0\n",
           "\npulse_placement_both_faster{task=\"compress_zstd\"} 0\n",
           "\npulse_placement_setup_seconds{task=\"compress_zstd\"} 0.1\n",
           // 0.1 s of 300 MB/s.
           "\npulse_placement_break_even_bytes{task=\"compress_zstd\"} 30000000\n",
           "\npulse_placement_runs_total{placement=\"auto\"} 1\n",
           "\npulse_placement_runs_total{placement=\"paper\"} 0\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("compress_isal"))) << "of which nothing was reported";
}

TEST(PlacementNumbers, Conditions_OfEachReport_AreThePapers) {
  const size_t isal = CompressTask(Codec::kIsal);
  const auto text_of = [&](double host, double agent, double whole) {
    PlacementNumbers numbers;
    PlacementReport report;
    report.of(Side::kHost).rate = host;
    report.of(Side::kAgent).rate = agent;
    report.whole = whole;
    numbers.Add(isal, report);
    return MetricsText(numbers.Take());
  };
  const auto c1 = [](int n) { return "agent_faster{task=\"compress_isal\"} " + std::to_string(n); };
  const auto c2 = [](int n) { return "both_faster{task=\"compress_isal\"} " + std::to_string(n); };
  const std::string agent_faster = text_of(1e6, 2e6, 2.5e6);
  EXPECT_THAT(agent_faster, HasSubstr(c1(1)));
  EXPECT_THAT(agent_faster, HasSubstr(c2(1)));
  const std::string wasted = text_of(2e6, 1e6, 1.5e6);
  EXPECT_THAT(wasted, HasSubstr(c1(0)));
  EXPECT_THAT(wasted, HasSubstr(c2(0)));
  const std::string unknown = text_of(0, 1e6, 1.5e6);
  EXPECT_THAT(unknown, HasSubstr(c1(0)));
  EXPECT_THAT(unknown, HasSubstr(c2(0)));
}

TEST(PlacementNumbers, HostAlone_DoesNotChangeWhatIsKnownOfBoth) {
  PlacementNumbers numbers;
  const size_t isal = CompressTask(Codec::kIsal);
  PlacementReport both = ReportOf(1, 1);
  both.of(Side::kAgent).rate = 900e6;
  numbers.Add(isal, both);
  PlacementReport alone;
  alone.of(Side::kHost) = {4, 4000, 0, 150e6};
  numbers.Add(isal, alone);
  const std::string text = MetricsText(numbers.Take());
  EXPECT_THAT(text, HasSubstr("agent_faster{task=\"compress_isal\"} 1"));
  EXPECT_THAT(text, HasSubstr("chunks_total{task=\"compress_isal\",side=\"host\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("per_second{task=\"compress_isal\",side=\"host\"} 150000000\n"));
  EXPECT_THAT(text, HasSubstr("per_second{task=\"compress_isal\",side=\"agent\"} 900000000\n"));
}

TEST(PlacementNumbers, Batches_WhoseWholeIsNotKnown_LeaveTheConditionsAsTheyAre) {
  PlacementNumbers numbers;
  const size_t isal = CompressTask(Codec::kIsal);
  PlacementReport both = ReportOf(1, 1);
  both.whole = 350e6;
  numbers.Add(isal, both);
  PlacementReport batch = ReportOf(1, 0);
  batch.whole = 0;
  batch.most_before_nanos = 0;
  numbers.Add(isal, batch);
  const std::string text = MetricsText(numbers.Take());
  EXPECT_THAT(text, HasSubstr("both_faster{task=\"compress_isal\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("setup_seconds{task=\"compress_isal\"} 0.1\n"));
  EXPECT_THAT(text, HasSubstr("break_even_bytes{task=\"compress_isal\"} 20000000\n"));
}

TEST(PlacementNumbers, NumbersThatAreTooLarge_AreSaturated) {
  PlacementNumbers numbers;
  const size_t isal = CompressTask(Codec::kIsal);
  PlacementReport huge = ReportOf(UINT64_MAX - 1, 1);
  huge.of(Side::kHost).rate = 1e30;
  huge.most_before_nanos = INT64_MAX;
  numbers.Add(isal, huge);
  numbers.Add(isal, huge);
  const std::string text = MetricsText(numbers.Take());
  const std::string most = std::to_string(uint64_t{1} << 62) + "\n";
  EXPECT_THAT(text, HasSubstr("chunks_total{task=\"compress_isal\",side=\"host\"} " +
                              std::to_string(UINT64_MAX) + "\n"));
  EXPECT_THAT(text, HasSubstr("per_second{task=\"compress_isal\",side=\"host\"} " + most));
  EXPECT_THAT(text, HasSubstr("break_even_bytes{task=\"compress_isal\"} " + most));
}

TEST(Tasks, EveryOrder_HasANameOfItsOwnOperation) {
  EngineOrder order;
  order.kind = EngineOrder::Kind::kDecompress;
  for (const auto& [piece, name] : {std::pair(Piece::kMarkedCrc, "decompress_deflate"),
                                    {Piece::kBgzf, "decompress_deflate"},
                                    {Piece::kIndexed, "decompress_deflate"},
                                    {Piece::kZstd, "decompress_zstd"},
                                    {Piece::kLz4, "decompress_lz4"}}) {
    order.format = static_cast<uint8_t>(piece);
    EXPECT_STREQ(TaskName(TaskOf(order)), name);
  }
  EXPECT_STREQ(TaskName(CompressTask(Codec::kLibdeflate)), "compress_libdeflate");
  EXPECT_STREQ(TaskName(CompressTask(Codec::kLz4)), "compress_lz4");
  order.kind = EngineOrder::Kind::kFilter;
  EXPECT_STREQ(TaskName(TaskOf(order)), "filter");
}

// An agent in this process, which keeps what it is told of the placement.
class ToldAgent : public EngineSupplier {
 public:
  int threads() const override { return 1; }
  absl::StatusOr<std::unique_ptr<Engine>> Make(const EngineOrder&, EngineTraits traits,
                                               MakeLocal local) override {
    traits.side = Side::kAgent;
    auto made = local(traits);
    if (!made.ok()) return made.status();
    return std::make_unique<Told>(std::move(traits), *std::move(made), this);
  }
  PlacementReport sum;
  int ended = 0;

 private:
  class Told : public Engine {
   public:
    Told(EngineTraits traits, std::unique_ptr<Engine> local, ToldAgent* agent)
        : Engine(std::move(traits)), local_(std::move(local)), agent_(agent) {}
    absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
      return local_->Process(lane, chunk, result);
    }
    void Explain(const PlacementReport& report) override {
      agent_->sum.AddCountsOf(report);
      agent_->ended += report.ended ? 1 : 0;
    }

   private:
    const std::unique_ptr<Engine> local_;
    ToldAgent* const agent_;
  };
};

TEST(Decompress, ManyMembers_AgentIsToldOfTheirEndOnce) {
  CompressOptions compress;
  compress.chunk_bytes = 64 << 10;
  const std::string data = MakeData(Kind::kText, 256 << 10, testing_util::TestSeed());
  const auto packed = CompressText(compress, data);
  ASSERT_TRUE(packed.ok());
  const auto agent = std::make_shared<ToldAgent>();
  PlacementNumbers numbers;
  DecompressOptions options;
  options.processors.agent = agent;
  options.processors.numbers = &numbers;
  const Decompressed back = DecompressText(*packed + *packed + *packed, false, options);
  ASSERT_TRUE(back.status.ok()) << back.status;
  EXPECT_EQ(back.data, data + data + data);
  EXPECT_EQ(back.report.parallel_members, 3u);
  EXPECT_EQ(agent->ended, 1);
  EXPECT_EQ(agent->sum.of(Side::kHost).chunks + agent->sum.of(Side::kAgent).chunks, 12u);
  EXPECT_THAT(MetricsText(numbers.Take()),
              HasSubstr("pulse_placement_runs_total{placement=\"auto\"} 1\n"));
  // Also where it is damaged.
  const Decompressed cut =
      DecompressText(*packed + packed->substr(0, packed->size() / 2), false, options);
  EXPECT_TRUE(absl::IsDataLoss(cut.status)) << cut.status;
  EXPECT_EQ(agent->ended, 2);
}

}  // namespace
}  // namespace pulse::ops
