#include "services/ops/filter/filter.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "base/cpu_list.h"
#include "base/file_calls.h"
#include "base/testing.h"
#include "services/ops/compress.h"
#include "services/ops/decompress.h"
#include "services/ops/filter/test_rules.h"

namespace pulse::filter {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::ScratchPath;
using testing_util::Text;

struct Ran {
  absl::StatusOr<FilterOutcome> outcome;
  std::string output;
};

Ran RunOn(const RuleSet& set, const std::string& input, FilterOptions options = {}) {
  const ScratchPath in("in");
  const ScratchPath out("out");
  {
    const UniqueFd fd = OpenFile(in.get(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_TRUE(WriteAll(fd.get(), input, "writing", in.get()).ok());
  }
  const UniqueFd from = OpenFile(in.get(), O_RDONLY);
  const UniqueFd to = OpenFile(out.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  options.source.records = set.records();
  options.source.name = "the input";
  auto outcome = RunFilter(set, options, from.get(), to.get());
  const auto size = static_cast<uint64_t>(lseek(to.get(), 0, SEEK_END));
  return {std::move(outcome), *ReadFirst(to.get(), size, "reading", out.get())};
}

std::string ManyLines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "line ", i, i % 10 == 0 ? " hit\n" : i % 10 == 1 ? " hit too\n" : "\n");
  }
  return text;
}

std::string JoinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, line, "\n");
  return text;
}

FilterOptions SmallChunks() {
  FilterOptions options;
  options.source.chunk_bytes = 1000;
  return options;
}

TEST(FilterTest, Records_OfManyChunks_AreInOrder) {
  const std::string text = ManyLines(50000);
  const auto set = MakeSet({"hit"});
  const Ran ran = RunOn(*set, text, SmallChunks());
  ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
  EXPECT_EQ(ran.outcome->selected, 10000U);
  EXPECT_EQ(ran.output, JoinLines(Re2Lines({"hit"}, text)));
  EXPECT_EQ(ran.outcome->stats.input_bytes, text.size());
}

TEST(FilterTest, Invert_GivesTheOtherRecords) {
  FilterOptions options = SmallChunks();
  options.selection.invert = true;
  const auto set = MakeSet({"hit"});
  const std::string text = "hit\na\nhit\nhit\n\nb\nhit\nc";
  const Ran ran = RunOn(*set, text, options);
  ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
  EXPECT_EQ(ran.output, "a\n\nb\nc\n");
  EXPECT_EQ(ran.outcome->selected, 4U);
  EXPECT_EQ(RunOn(*set, ManyLines(5000), options).outcome->selected, 4000U);
}

TEST(FilterTest, Count_WritesNothing) {
  FilterOptions options = SmallChunks();
  options.selection.select = Select::kCount;
  const auto set = MakeSet({"hit"});
  const Ran ran = RunOn(*set, ManyLines(5000), options);
  ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
  EXPECT_EQ(ran.outcome->selected, 1000U);
  EXPECT_EQ(ran.output, "");
  options.selection.invert = true;
  EXPECT_EQ(RunOn(*set, "a\nhit\nb", options).outcome->selected, 2U);
}

TEST(FilterTest, Captures_AreOfTheFirstRuleThatMatches) {
  FilterOptions options;
  options.selection.select = Select::kCaptures;
  const auto set = MakeSet({"at (\\w+)/Exit (\\d+)(x)?", "Ramp to \\w+", "to (.)"});
  const Ran ran =
      RunOn(*set, "At or at I70/Exit 12 - Accident\nnothing\nRamp to US50\ngo to x\n", options);
  ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
  EXPECT_EQ(ran.output, "I70\t12\t\nRamp to US50\nx\n");
}

TEST(FilterTest, LastLineWithoutNewline_GetsOne) {
  const auto set = MakeSet({"b"});
  EXPECT_EQ(RunOn(*set, "a\nb").output, "b\n");
  EXPECT_EQ(RunOn(*set, "b\n").output, "b\n");
  EXPECT_EQ(RunOn(*set, "").output, "");
}

TEST(FilterTest, Prefixed_RecordsKeepTheirLength) {
  RuleSetOptions rules;
  rules.records = Records::kPrefixed;
  const auto set = MakeSet({"b(.)"}, rules);
  const std::string a("\3\0\0\0a\nc", 7);
  const std::string b("\3\0\0\0xbz", 7);
  EXPECT_EQ(RunOn(*set, a + b + a + b).output, b + b);
  FilterOptions options;
  options.selection.invert = true;
  const Ran inverted = RunOn(*set, a + b + a, options);
  EXPECT_EQ(inverted.output, a + a);
  EXPECT_EQ(inverted.outcome->selected, 2U);
  options.selection = {.select = Select::kCaptures};
  EXPECT_EQ(RunOn(*set, a + b, options).output, std::string("\1\0\0\0z", 5));
}

TEST(FilterTest, Placements_GiveTheSame) {
  const std::string text = ManyLines(20000);
  const auto set = MakeSet({"hit$", "[3-5]{3}"});
  const std::string expected = JoinLines(Re2Lines({"hit$", "[3-5]{3}"}, text));
  const std::vector<int> cpus = MyCpus();
  ASSERT_FALSE(cpus.empty());
  for (const char* placement : {"host", "agent", "split=30", "auto"}) {
    FilterOptions options = SmallChunks();
    options.processors.placement = *ops::Placement::Parse(placement);
    options.processors.host_cpus = {cpus.front()};
    options.processors.agent_cpus = {cpus.back()};
    const Ran ran = RunOn(*set, text, options);
    ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
    EXPECT_EQ(ran.output, expected) << placement;
  }
}

TEST(FilterTest, ReaderThatGoesAway_EndsItWithoutError) {
  signal(SIGPIPE, SIG_IGN);
  int to_filter[2];
  int from_filter[2];
  ASSERT_EQ(pipe2(to_filter, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(from_filter, O_CLOEXEC), 0);
  UniqueFd in(to_filter[0]);
  UniqueFd feed(to_filter[1]);
  UniqueFd out(from_filter[1]);
  close(from_filter[0]);
  // The input stays open, and nothing more comes.
  ASSERT_EQ(write(feed.get(), "hit\n", 4), 4);
  const auto set = MakeSet({"hit"});
  const auto outcome = RunFilter(*set, {}, in.get(), out.get());
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(outcome->reader_gone);
}

TEST(FilterTest, NoSpace_IsAnError) {
  const UniqueFd full = OpenFile("/dev/full", O_WRONLY);
  if (!full.valid()) GTEST_SKIP() << "no /dev/full";
  const ScratchPath path("in");
  const UniqueFd in = OpenFile(path.get(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(write(in.get(), "hit\n", 4), 4);
  ASSERT_EQ(lseek(in.get(), 0, SEEK_SET), 0);
  const auto set = MakeSet({"hit"});
  FilterOptions options;
  options.out_name = "/dev/full";
  const auto outcome = RunFilter(*set, options, in.get(), full.get());
  EXPECT_EQ(ErrnoOf(outcome.status()), ENOSPC);
  EXPECT_THAT(Text(outcome.status()), HasSubstr("/dev/full"));
}

// What Compress makes of `text`, on all formats that can be told from text.
std::string Compressed(const std::string& text, ops::Format format) {
  const ScratchPath in("plain");
  const ScratchPath out("compressed");
  const UniqueFd from = OpenFile(in.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT_TRUE(WriteAll(from.get(), text, "writing", in.get()).ok());
  EXPECT_EQ(lseek(from.get(), 0, SEEK_SET), 0);
  const UniqueFd to = OpenFile(out.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  ops::CompressOptions options;
  options.format = format;
  EXPECT_TRUE(ops::Compress(options, from.get(), "plain", to.get(), "compressed").ok());
  return *ReadFirst(to.get(), static_cast<uint64_t>(lseek(to.get(), 0, SEEK_END)), "reading", "");
}

std::string Decompressed(const std::string& bytes) {
  const ScratchPath in("compressed");
  const ScratchPath out("plain");
  const UniqueFd from = OpenFile(in.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT_TRUE(WriteAll(from.get(), bytes, "writing", in.get()).ok());
  EXPECT_EQ(lseek(from.get(), 0, SEEK_SET), 0);
  const UniqueFd to = OpenFile(out.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const auto report = ops::Decompress({}, from.get(), "compressed", to.get(), "plain");
  EXPECT_TRUE(report.ok()) << report.status();
  return *ReadFirst(to.get(), static_cast<uint64_t>(lseek(to.get(), 0, SEEK_END)), "reading", "");
}

constexpr ops::Format kFormats[] = {ops::Format::kGzip, ops::Format::kBgzf, ops::Format::kZstd,
                                    ops::Format::kLz4};

TEST(FilterTest, CompressedInput_OfEachFormat_IsDecompressedOnTheWay) {
  const std::string text = ManyLines(60000);
  const auto set = MakeSet({"hit$"});
  const std::string expected = JoinLines(Re2Lines({"hit$"}, text));
  for (const ops::Format format : kFormats) {
    const std::string bytes = Compressed(text, format);
    const Ran ran = RunOn(*set, bytes);
    ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
    EXPECT_EQ(ran.output, expected) << ops::FormatName(format);
    // From a pipe, of which nothing can be read twice.
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
    UniqueFd in(fds[0]);
    std::thread writer([&bytes, fd = UniqueFd(fds[1])] {
      EXPECT_TRUE(WriteAll(fd.get(), bytes, "writing", "a pipe").ok());
    });
    FilterOptions options;
    options.selection.select = Select::kCount;
    const auto outcome = RunFilter(*set, options, in.get(), -1);
    writer.join();
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(outcome->selected, 6000U) << ops::FormatName(format);
  }
}

// The CPUs of this process's threads, as /proc writes them, but for those of `known`.
std::map<std::string, std::string> CpusOfThreads(const std::set<std::string>& known) {
  std::map<std::string, std::string> cpus;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const std::string id = task.path().filename();
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr absl::string_view kKey = "Cpus_allowed_list:\t";
      if (absl::StartsWith(line, kKey) && known.count(id) == 0) cpus[id] = line.substr(kKey.size());
    }
  }
  return cpus;
}

TEST(FilterTest, EveryStage_RunsOnTheCpusThatItIsGiven) {
  if (AllowedCpus() < 2) GTEST_SKIP() << "one CPU";
  const std::string bytes = Compressed(ManyLines(60000), ops::Format::kGzip);
  const auto set = MakeSet({"hit$"});
  FilterOptions options;
  options.processors.host_cpus = {MyCpus().back()};
  options.compress = ops::Format::kGzip;
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  const UniqueFd in(fds[0]);
  UniqueFd client(fds[1]);
  const ScratchPath path("out");
  const UniqueFd out = OpenFile(path.get(), O_WRONLY | O_CREAT, 0600);
  std::set<std::string> known;
  for (const auto& [id, cpus] : CpusOfThreads({})) known.insert(id);
  std::atomic<pid_t> caller{0};
  absl::Status status;
  std::thread runs([&] {
    caller = gettid();
    status = RunFilter(*set, options, in.get(), out.get()).status();
  });
  EXPECT_TRUE(Eventually([&] { return caller != 0; }));
  known.insert(std::to_string(caller));
  // While the client pauses, there are one that decompresses, one that compresses, and a lane of
  // each stage.
  EXPECT_TRUE(WriteAll(client.get(), bytes.substr(0, bytes.size() / 2), "writing", "a pipe").ok());
  const std::string one = std::to_string(options.processors.host_cpus[0]);
  EXPECT_TRUE(Eventually([&] {
    const auto cpus = CpusOfThreads(known);
    return cpus.size() >= 5 && std::all_of(cpus.begin(), cpus.end(), [&](const auto& thread) {
             return thread.second == one;
           });
  }));
  EXPECT_TRUE(WriteAll(client.get(), bytes.substr(bytes.size() / 2), "writing", "a pipe").ok());
  client.reset();
  runs.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(FilterTest, CompressedInput_DamagedOrCutOff_IsAnError) {
  signal(SIGPIPE, SIG_IGN);
  const auto set = MakeSet({"hit"});
  for (const ops::Format format : kFormats) {
    std::string bytes = Compressed(ManyLines(60000), format);
    const Ran cut = RunOn(*set, bytes.substr(0, bytes.size() / 2));
    EXPECT_EQ(cut.outcome.status().code(), absl::StatusCode::kDataLoss)
        << ops::FormatName(format) << ": " << cut.outcome.status();
    for (size_t i = 0; i < 40; ++i) bytes[bytes.size() / 2 + i] = static_cast<char>(i * 7);
    EXPECT_FALSE(RunOn(*set, bytes).outcome.ok()) << ops::FormatName(format);
  }
}

TEST(FilterTest, CompressedInput_BeyondItsLimit_IsRefused) {
  signal(SIGPIPE, SIG_IGN);
  const std::string text = ManyLines(200000);
  const auto set = MakeSet({"hit"});
  for (const ops::Format format : kFormats) {
    const std::string bytes = Compressed(text, format);
    FilterOptions options;
    options.max_decompressed = text.size() - 1;
    options.max_decompressed_option = "the option of a test";
    const Ran bomb = RunOn(*set, bytes, options);
    EXPECT_EQ(bomb.outcome.status().code(), absl::StatusCode::kResourceExhausted)
        << ops::FormatName(format) << ": " << bomb.outcome.status();
    EXPECT_THAT(Text(bomb.outcome.status()), HasSubstr("the input is compressed, to more than"));
    EXPECT_THAT(Text(bomb.outcome.status()), HasSubstr("; the option of a test sets this limit"));
    options.max_decompressed = text.size();
    EXPECT_TRUE(RunOn(*set, bytes, options).outcome.ok()) << ops::FormatName(format);
  }
  // What is not compressed is as long as it is.
  FilterOptions options;
  options.max_decompressed = 1;
  EXPECT_TRUE(RunOn(*set, text, options).outcome.ok());
}

// The filter sees records that are cut off, which is not what is wrong.
TEST(FilterTest, CompressedInput_PrefixedAndBeyondItsLimit_IsRefusedAsTooLarge) {
  signal(SIGPIPE, SIG_IGN);
  RuleSetOptions rules;
  rules.records = Records::kPrefixed;
  const auto set = MakeSet({"hit"}, rules);
  std::string text;
  while (text.size() < 3'000'000) text += std::string("\x07\0\0\0nothing", 11);
  FilterOptions options;
  options.max_decompressed = text.size() - 1;
  const Ran bomb = RunOn(*set, Compressed(text, ops::Format::kGzip), options);
  EXPECT_EQ(bomb.outcome.status().code(), absl::StatusCode::kResourceExhausted)
      << bomb.outcome.status();
}

// An agent that filters, and has no room for a decoder.
class FullAgent : public ops::EngineSupplier {
 public:
  int threads() const override { return 1; }
  absl::StatusOr<std::unique_ptr<ops::Engine>> Make(const ops::EngineOrder& order,
                                                    ops::EngineTraits traits,
                                                    MakeLocal local) override {
    if (order.kind == ops::EngineOrder::Kind::kFilter) return local(std::move(traits));
    return absl::ResourceExhaustedError("no room is left");
  }
};

TEST(FilterTest, CompressedInput_WhoseDecoderHasNoRoom_IsNotCalledTooLarge) {
  signal(SIGPIPE, SIG_IGN);
  const auto set = MakeSet({"hit"});
  FilterOptions options;
  options.processors.agent = std::make_shared<FullAgent>();
  options.processors.placement.kind = ops::Placement::Kind::kAgent;
  for (const uint64_t limit : {uint64_t{0}, uint64_t{1} << 40}) {
    options.max_decompressed = limit;
    const Ran ran = RunOn(*set, Compressed(ManyLines(1000), ops::Format::kGzip), options);
    EXPECT_THAT(Text(ran.outcome.status()), HasSubstr("no room is left"));
  }
}

TEST(FilterTest, InputFormat_OfEachFormat_IsWhatTheInputHasToBe) {
  signal(SIGPIPE, SIG_IGN);
  const std::string text = ManyLines(60000);
  const auto set = MakeSet({"hit$"});
  for (const ops::Format format : ops::kAllFormats) {
    const std::string bytes = Compressed(text, format);
    for (const ops::Format said : ops::kAllFormats) {
      FilterOptions options;
      options.input_format = said;
      const Ran ran = RunOn(*set, bytes, options);
      if (said == format || (said == ops::Format::kGzip && format == ops::Format::kBgzf)) {
        ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
        EXPECT_EQ(ran.output, JoinLines(Re2Lines({"hit$"}, text))) << ops::FormatName(format);
      } else {
        EXPECT_EQ(ran.outcome.status().code(), absl::StatusCode::kNotFound);
        EXPECT_THAT(Text(ran.outcome.status()),
                    HasSubstr(absl::StrCat("does not begin as ", ops::FormatName(said))));
      }
    }
  }
  FilterOptions options;
  options.input_format = ops::Format::kZlib;
  EXPECT_EQ(RunOn(*set, text, options).outcome.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunOn(*set, "", options).outcome.status().code(), absl::StatusCode::kDataLoss);
}

TEST(FilterTest, TextThatBeginsAsZlibDoes_IsText) {
  const auto set = MakeSet({"x"});
  EXPECT_EQ(RunOn(*set, "x^2 + y\nz\n").output, "x^2 + y\n");
  EXPECT_EQ(RunOn(*set, "Px\n").output, "Px\n");
  EXPECT_EQ(RunOn(*set, "\x1f x\n").output, "\x1f x\n");
}

TEST(FilterTest, CompressedOutput_OfEachFormat_HoldsTheRecords) {
  const std::string text = ManyLines(60000);
  const auto set = MakeSet({"hit$"});
  for (const ops::Format format : kFormats) {
    FilterOptions options;
    options.compress = format;
    const Ran ran = RunOn(*set, Compressed(text, ops::Format::kGzip), options);
    ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
    EXPECT_EQ(Decompressed(ran.output), JoinLines(Re2Lines({"hit$"}, text)))
        << ops::FormatName(format);
  }
}

TEST(FilterTest, Explain_OfStagesBeforeAndBehind_SaysWhatEachDid) {
  const std::string text = ManyLines(60000);
  const auto set = MakeSet({"hit$"});
  FilterOptions options;
  EXPECT_THAT(RunOn(*set, text, options).outcome->Explain(),
              ::testing::MatchesRegex("filter: [0-9]+ chunks, .* lanes?\\): .*\n"));
  options.compress = ops::Format::kZstd;
  const Ran ran = RunOn(*set, Compressed(text, ops::Format::kGzip), options);
  ASSERT_TRUE(ran.outcome.ok()) << ran.outcome.status();
  const std::vector<std::string> lines = LinesOf(ran.outcome->Explain());
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], HasSubstr(absl::StrCat("decompress: 1 member, 1 of them in parallel, ",
                                               text.size(), " bytes; libdeflate: ")));
  EXPECT_THAT(lines[1], HasSubstr("filter: "));
  EXPECT_THAT(lines[2], HasSubstr("compress: 1 chunks"));
}

TEST(FilterTest, CompressedOutput_NoSpace_IsAnError) {
  signal(SIGPIPE, SIG_IGN);
  const UniqueFd full = OpenFile("/dev/full", O_WRONLY);
  if (!full.valid()) GTEST_SKIP() << "no /dev/full";
  const ScratchPath path("in");
  const UniqueFd in = OpenFile(path.get(), O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(WriteAll(in.get(), ManyLines(300000), "writing", "").ok());
  ASSERT_EQ(lseek(in.get(), 0, SEEK_SET), 0);
  const auto set = MakeSet({"hit"});
  FilterOptions options;
  options.compress = ops::Format::kGzip;
  const auto outcome = RunFilter(*set, options, in.get(), full.get());
  EXPECT_EQ(ErrnoOf(outcome.status()), ENOSPC) << outcome.status();
}

TEST(FilterTest, LineThatIsTooLong_EndsItAfterWhatIsBefore) {
  FilterOptions options = SmallChunks();
  options.source.max_record = 3000;
  const auto set = MakeSet({"hit"});
  const Ran ran = RunOn(*set, ManyLines(500) + std::string(5000, 'x') + "\n", options);
  EXPECT_EQ(ran.outcome.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ran.output, JoinLines(Re2Lines({"hit"}, ManyLines(500))));
}

TEST(FilterTest, ReadRules_SkipsCommentsAndEmptyLines) {
  const auto rules = ReadRules("one\n\n# no rule\n\\#two\r\n three ", "F");
  ASSERT_TRUE(rules.ok());
  ASSERT_EQ(rules->size(), 3U);
  EXPECT_EQ((*rules)[0].text, "one");
  EXPECT_EQ((*rules)[1].text, "\\#two");
  EXPECT_EQ((*rules)[1].where, "F, line 4");
  EXPECT_EQ((*rules)[2].text, " three ");
  EXPECT_TRUE(ReadRules("", "F")->empty());
  std::string many;
  for (size_t i = 0; i <= kMostRules; ++i) many += "a\n";
  EXPECT_EQ(ReadRules(many, "F").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pulse::filter
