// The benchmark's engines agree with what virtual ones replay, and runs count what they claim to.
#include "bench/macro/ops/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/testing.h"
#include "bench/macro/ops/changing_work.h"
#include "bench/macro/ops/ops_parts.h"

namespace pulse::bench {
namespace {

using ops::Side;
using testing_util::TestSeed;
using testing_util::Text;

std::vector<CorpusFile> SmallCorpus() { return *LoadCorpus("", 300000, TestSeed()); }

std::shared_ptr<const filter::RuleSet> Queries() {
  std::vector<filter::Rule> rules;
  for (const Query& query : PaperQueries()) rules.push_back({query.rule, query.name});
  return *filter::RuleSet::Compile(std::move(rules), {});
}

struct Case {
  OpsKind kind;
  const char* library;
};

class EveryLibrary : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All, EveryLibrary,
    ::testing::Values(Case{OpsKind::kInflate, "zlib"}, Case{OpsKind::kInflate, "libdeflate"},
                      Case{OpsKind::kLz4Decode, "lz4"}, Case{OpsKind::kRegex, "pulse"},
                      Case{OpsKind::kRegex, "re2"}),
    [](const auto& param) {
      return std::string(param.param.library) + std::to_string(static_cast<int>(param.param.kind));
    });

TEST_P(EveryLibrary, ProcessesPieces_AsComputedBefore) {
  const bool regex = GetParam().kind == OpsKind::kRegex;
  const std::vector<CorpusFile> files =
      regex ? std::vector<CorpusFile>{{"accidents", MakeAccidents(300000, TestSeed())}}
            : SmallCorpus();
  const OpsWork work = *MakeWork(GetParam().kind, files, 10000, Queries());
  const auto engine = *MakeLibraryEngine(work, {GetParam().library}, {"host", Side::kHost, 1, {}});
  ops::Chunk chunk;
  ops::Result result;
  uint64_t matches = 0;
  for (const OpsPiece& piece : work.pieces) {
    chunk.tag = piece.plain;
    chunk.input.Clear();
    chunk.input.Append(piece.input);
    result.Clear();
    ASSERT_TRUE(engine->Process(0, chunk, result).ok());
    EXPECT_TRUE(result.payload() == piece.output);
    EXPECT_EQ(result.count, piece.count);
    matches += piece.count;
  }
  if (regex) {
    EXPECT_GT(matches, 100u);
  }
}

TEST(OpsWorkTest, Slices_CoverTheFilesAndEndWithLines) {
  const std::string lines = MakeAccidents(50000, TestSeed());
  const OpsWork work = *MakeWork(OpsKind::kRegex, {{"lines", lines}}, 777, Queries());
  std::string joined;
  for (const OpsPiece& piece : work.pieces) {
    EXPECT_EQ(piece.input.back(), '\n');
    joined += piece.input;
  }
  EXPECT_TRUE(joined == lines);
  EXPECT_EQ(work.plain, lines.size());
  // Lines that are longer than a slice are slices.
  const OpsWork tiny = *MakeWork(OpsKind::kRegex, {{"lines", lines}}, 5, Queries());
  EXPECT_EQ(tiny.pieces.size(), static_cast<size_t>(std::count(lines.begin(), lines.end(), '\n')));
}

TEST(OpsWorkTest, HostAndReplayedCard_TogetherDoAll) {
  const std::vector<CorpusFile> files = SmallCorpus();
  for (const OpsKind kind : {OpsKind::kDeflate, OpsKind::kInflate, OpsKind::kLz4Decode}) {
    const OpsWork work = *MakeWork(kind, files, 8192);
    const char* library = kind == OpsKind::kLz4Decode ? "lz4" : "zlib";
    const auto host = *MakeLibraryEngine(work, {library}, {"host", Side::kHost, 1, {}});
    ops::VirtualEngine::Price price;
    price.bytes_per_second = 1e9;
    const auto card = MakeVirtualEngine(work, price, {"card", Side::kAgent, 4, {}});
    for (const char* placement : {"host", "agent", "split=50", "auto", "paper"}) {
      const auto run = RunWork(work, 0, work.pieces.size(), {host.get(), card.get()},
                               *ops::Placement::Parse(placement), nullptr);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(run->stats.chunks, work.pieces.size());
      EXPECT_GT(run->plain_per_second, 0);
      if (absl::string_view(placement) == "agent") {
        EXPECT_EQ(run->host_cpu_seconds, 0);
      }
      if (absl::string_view(placement) == "host") {
        EXPECT_EQ(run->stats.engines[1].chunks, 0u);
      }
      if (absl::string_view(placement) == "split=50") {
        EXPECT_EQ(run->stats.engines[1].chunks, work.pieces.size() / 2);
      }
    }
  }
}

TEST(OpsWorkTest, WrongResult_IsDataLoss) {
  OpsWork work = *MakeWork(OpsKind::kInflate, SmallCorpus(), 8192);
  work.pieces[3].output += "more";
  const auto host = *MakeLibraryEngine(work, {"zlib"}, {"host", Side::kHost, 1, {}});
  const auto run = RunWork(work, 0, work.pieces.size(), {host.get()}, {}, nullptr);
  EXPECT_TRUE(absl::IsDataLoss(run.status())) << run.status();
}

TEST(OpsWorkTest, LibraryWithoutTheOperation_Refused) {
  const OpsWork work = *MakeWork(OpsKind::kInflate, SmallCorpus(), 8192);
  for (const char* library : {"lz4", "re2", "isal", "nothing"}) {
    const auto made = MakeLibraryEngine(work, {library}, {"host", Side::kHost, 1, {}});
    EXPECT_TRUE(absl::IsInvalidArgument(made.status())) << library;
  }
}

TEST(OpsWorkTest, PlacementNames_AreThePapers) {
  const auto names = [](OpsKind kind) {
    return absl::StrCat(PlacementNameOf(kind, PlacedOn::kHostAlone), " ",
                        PlacementNameOf(kind, PlacedOn::kCardAlone), " ",
                        PlacementNameOf(kind, PlacedOn::kBoth));
  };
  EXPECT_EQ(names(OpsKind::kDeflate), "fCPU cDPU cCOMP");
  EXPECT_EQ(names(OpsKind::kInflate), "fCPU dDPU cDECOMP");
  EXPECT_EQ(names(OpsKind::kLz4Decode), "fCPU dDPU cDECOMP");
  EXPECT_EQ(names(OpsKind::kRegex), "fCPU rDPU cREG");
}

TEST(OpsWorkTest, MixedSlices_CoverTheFilesWithinTheirBounds) {
  const std::vector<CorpusFile> files = SmallCorpus();
  const OpsWork work = *MakeMixedWork(OpsKind::kDeflate, files, 256, 16384, TestSeed());
  std::string joined;
  size_t small = 0;
  size_t large = 0;
  for (const OpsPiece& piece : work.pieces) {
    joined += piece.input;
    EXPECT_LE(piece.input.size(), 16384u);
    small += piece.input.size() < 2048 ? 1 : 0;
    large += piece.input.size() >= 2048 ? 1 : 0;
  }
  std::string all;
  for (const CorpusFile& file : files) all += file.data;
  EXPECT_TRUE(joined == all);
  EXPECT_GT(small, work.pieces.size() / 4);
  EXPECT_GT(large, work.pieces.size() / 4);
}

// By what the engines count, since no test looks at the time.
TEST(OpsWorkTest, StagedEngine_EachChunk_IsProcessedByItsStage) {
  const OpsWork work = *MakeWork(OpsKind::kInflate, SmallCorpus(), 8192);
  ops::VirtualEngine::Price price;
  auto fast = MakeVirtualEngine(work, price, {"card", Side::kAgent, 4, {}});
  auto slow = MakeVirtualEngine(work, price, {"card", Side::kAgent, 4, {}});
  const ops::VirtualEngine* const both[] = {fast.get(), slow.get()};
  const size_t half = work.pieces.size() / 2;
  StagedEngine staged(std::move(fast), std::move(slow),
                      [&](const ops::Chunk& chunk) { return chunk.offset >= half; });
  EXPECT_TRUE(staged.traits().pipeline);
  staged.Begin();
  ops::Chunk chunk;
  ops::Result result;
  const auto process = [&](ops::Engine& engine, size_t piece) {
    chunk.offset = piece;
    chunk.tag = work.pieces[piece].plain;
    chunk.input.Clear();
    chunk.input.Append(work.pieces[piece].input);
    result.Clear();
    return engine.Process(0, chunk, result);
  };
  for (size_t piece = 0; piece < work.pieces.size(); ++piece) {
    ASSERT_TRUE(process(staged, piece).ok());
    EXPECT_TRUE(result.payload() == work.pieces[piece].output);
  }
  EXPECT_EQ(both[0]->counters().tasks, half);
  EXPECT_EQ(both[1]->counters().tasks, work.pieces.size() - half);

  std::atomic<size_t> asked{0};
  SlowedEngine slowed(*MakeLibraryEngine(work, {"zlib"}, {"host", Side::kHost, 1, {}}),
                      [&](const ops::Chunk&) {
                        ++asked;
                        return 1.5;
                      });
  const auto run = RunWork(work, 0, work.pieces.size(), {&slowed}, {}, nullptr);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->stats.chunks, work.pieces.size());
  EXPECT_EQ(asked, work.pieces.size());
  // A lane that sleeps is woken up.
  SlowedEngine stuck(*MakeLibraryEngine(work, {"zlib"}, {"host", Side::kHost, 1, {}}),
                     [](const ops::Chunk&) { return 1e12; });
  stuck.Begin();
  stuck.Interrupt();
  EXPECT_TRUE(absl::IsCancelled(process(stuck, 0)));
}

TEST(OpsCardsTest, Table3_IsWhatTheBuiltInProfilesHave) {
  for (const char* name : {"bf2", "bf3"}) {
    const vdpu::Profile card = *vdpu::LoadProfile(name);
    size_t accelerators = 0;
    for (const nlohmann::json& row : CardRows(card)) {
      const auto paper = row.at("paper").get<std::string>();
      EXPECT_FALSE(paper.empty()) << row;
      if (row.at("table") != 3) continue;
      ++accelerators;
      const auto what = row.at("what").get<std::string>();
      EXPECT_EQ(paper != "no", card.EngineFor(what) != nullptr) << row;
      EXPECT_EQ(paper == "no", row.at("profile") == "no") << row;
    }
    EXPECT_EQ(accelerators, vdpu::AcceleratedOperations().size());
  }
}

TEST(CorpusTest, SameSeed_SameFiles) {
  const auto a = *LoadCorpus("", 100000, 7);
  const auto b = *LoadCorpus("", 100000, 7);
  const auto c = *LoadCorpus("", 100000, 8);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].data == b[i].data);
    EXPECT_FALSE(a[i].data == c[i].data);
  }
  EXPECT_TRUE(MakeAccidents(1000, 3) == MakeAccidents(1000, 3));
}

TEST(CorpusTest, Directory_FilesByNameAndBadOnesNamed) {
  const testing_util::ScratchPath path("corpus");
  std::filesystem::create_directory(path.get());
  EXPECT_TRUE(absl::IsInvalidArgument(LoadCorpus(path.get(), 100, 1).status()));
  std::ofstream(path.get() + "/b") << "bytes of b";
  std::ofstream(path.get() + "/a") << "bytes of a";
  std::ofstream(path.get() + "/empty").flush();
  const auto files = *LoadCorpus(path.get(), 7, 1);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "a");
  EXPECT_EQ(files[0].data, "bytes o");
  std::ofstream(path.get() + "/c.bz2") << "BZh91AY";
  EXPECT_THAT(Text(LoadCorpus(path.get(), 100, 1).status()), ::testing::HasSubstr("c.bz2"));
  std::filesystem::remove_all(path.get());
  EXPECT_TRUE(absl::IsNotFound(LoadCorpus(path.get(), 100, 1).status()));
}

}  // namespace
}  // namespace pulse::bench
