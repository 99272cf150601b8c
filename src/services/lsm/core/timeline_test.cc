// trace=FILE: the stages of flushes and compactions on a timeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "nlohmann/json.hpp"
#include "services/lsm/core/test_db.h"
#include "services/lsm/core/test_support.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::lsm::test {
namespace {

using nlohmann::json;

constexpr double kRounding = 0.0005;

struct Span {
  double begin = 0;
  double end = 0;
  std::string name;
  std::string file;
  uint64_t bytes = 0;
};

struct Timeline {
  std::map<int, std::vector<Span>> threads;         // slices
  std::map<std::string, std::vector<Span>> stages;  // what was in flight

  explicit Timeline(const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    std::map<int, Span> open;
    for (const json& e : json::parse(text.str())) {
      const std::string phase = e["ph"];
      if (phase == "M" || phase == "C" || phase == "i") continue;
      Span s{e["ts"], 0, e["name"], "", 0};
      if (e.contains("args")) {
        s.file = e["args"].value("file", "");
        s.bytes = e["args"].value("bytes", uint64_t{0});
      }
      if (phase == "X") {
        s.end = s.begin + e["dur"].get<double>();
        threads[e["tid"]].push_back(s);
      } else if (phase == "b") {
        open[e["id"]] = s;
      } else {
        EXPECT_EQ(phase, "e");
        Span begun = open.at(e["id"]);
        begun.end = s.begin;
        stages[e["cat"]].push_back(begun);
      }
    }
  }
  std::vector<Span> Named(const std::string& name) const {
    std::vector<Span> found;
    for (const auto& all : {threads}) {
      for (const auto& [thread, spans] : all) {
        for (const Span& s : spans) {
          if (s.name == name) found.push_back(s);
        }
      }
    }
    return found;
  }
};

bool Overlap(const Span& a, const Span& b) { return a.begin < b.end && b.begin < a.end; }

// A database's life with everything that is traced in it; its files' bytes.
uint64_t Live(const std::string& dir, const std::string& trace, IoScript* script) {
  auto options = ParseOptions("pulse://?write_threshold=64K&queue=1M&trace=" + trace);
  EXPECT_TRUE(options.ok()) << options.status();
  options->backend_factory = script->factory();
  auto fs = PulseFileSystem::Open(*options, rocksdb::FileSystem::Default());
  EXPECT_TRUE(fs.ok()) << fs.status();
  if (!fs.ok()) return 0;
  const PulseFileSystem* const plugin = fs->get();
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(*std::move(fs));
  rocksdb::Options o = SmallDbOptions(env.get());
  o.write_buffer_size = 4 << 20;
  o.disable_auto_compactions = true;
  TestDb db(o, dir);
  EXPECT_TRUE(db.Open().ok());
  std::mt19937_64 rng(TestSeed());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(db.Fill(&rng, 3000, 1000, 3000).ok());
    EXPECT_TRUE(db.FlushAll().ok());
  }
  EXPECT_TRUE(db.CompactAll().ok());
  db.Close();
  Stats stats{};
  EXPECT_TRUE(GetStats(plugin, &stats));
  return stats.bytes_persisted;
}

TEST(TimelineTest, Trace_OfACompaction_ShowsItsStagesOverlap) {
  ScratchDir dir;
  IoScript script;
  // So slow a device that the overlap does not depend on the machine.
  script.SetRule([](const IoRequest& request, const std::string&) {
    return request.op == IoOp::kWrite ? Verdict{Verdict::kDelay, 3000} : Verdict{};
  });
  const uint64_t persisted = Live(dir / "db", dir / "trace.json", &script);
  const Timeline timeline(dir / "trace.json");

  const auto merges = timeline.Named("merge-encode");
  uint64_t merged = 0;
  for (const Span& s : merges) {
    EXPECT_NE(s.file.find((dir / "db").substr(dir.path().size())), std::string::npos);
    merged += s.bytes;
  }
  // The agent is given whole pages.
  EXPECT_LE(merged, persisted);
  EXPECT_GT(merged, persisted / 10 * 9);

  ASSERT_EQ(timeline.stages.count("agent: persist"), 1U);
  uint64_t written = 0;
  int overlaps = 0;
  int syncs = 0;
  for (const Span& s : timeline.stages.at("agent: persist")) {
    EXPECT_LE(s.begin, s.end);
    if (s.name == "sync and close") ++syncs;
    if (s.name != "write") continue;
    written += s.bytes;
    overlaps +=
        std::any_of(merges.begin(), merges.end(), [&](const Span& m) { return Overlap(m, s); });
  }
  EXPECT_EQ(written, persisted);
  EXPECT_GE(syncs, 4) << "three flushes and a compaction";
  EXPECT_GT(overlaps, 0) << "no write beside the merging";
  ASSERT_EQ(timeline.stages.count("agent: fetch"), 1U);
  uint64_t fetched = 0;
  for (const Span& s : timeline.stages.at("agent: fetch")) {
    EXPECT_EQ(s.name, "read");
    fetched += s.bytes;
  }
  EXPECT_GT(fetched, persisted / 4) << "the compaction's input";
  EXPECT_FALSE(timeline.Named("wait: barrier").empty());
}

TEST(TimelineTest, ThreadSlices_OfATrace_NestOrLieApart) {
  ScratchDir dir;
  IoScript script;
  script.SetRule([](const IoRequest&, const std::string&) {
    return Verdict{Verdict::kDelay, 500};
  });
  Live(dir / "db", dir / "trace.json", &script);
  Timeline timeline(dir / "trace.json");
  ASSERT_FALSE(timeline.threads.empty());
  for (auto& [thread, spans] : timeline.threads) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    std::vector<Span> around;
    for (const Span& s : spans) {
      // Ends are sums of numbers with three digits behind the point.
      while (!around.empty() && around.back().end <= s.begin + kRounding) around.pop_back();
      if (!around.empty()) {
        EXPECT_LE(s.end, around.back().end + kRounding)
            << s.name << " begins in " << around.back().name << " and ends after it";
      }
      around.push_back(s);
    }
  }
}

TEST(TimelineTest, Open_TraceFileUnwritable_FailsNamingIt) {
  ScratchDir dir;
  auto options = ParseOptions("pulse://?trace=" + (dir / "no/such/dir.json"));
  ASSERT_TRUE(options.ok());
  const auto fs = PulseFileSystem::Open(*options, rocksdb::FileSystem::Default());
  ASSERT_FALSE(fs.ok());
  EXPECT_NE(fs.status().message().find("no/such/dir.json"), std::string::npos) << fs.status();
}

}  // namespace
}  // namespace pulse::lsm::test
