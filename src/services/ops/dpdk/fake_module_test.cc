// Devices that do what real ones do not do on demand: small buffers, final blocks, lies, silence.
// They are functions in this file, behind the module's seam; DPDK is not needed.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "base/testing.h"
#include "services/ops/dpdk/device.h"
#include "services/ops/dpdk/regex.h"
#include "services/ops/test_data.h"

namespace pulse::ops::dpdk {
namespace {

using testing_util::TestSeed;

// How the device of these tests behaves.
struct Behaviour {
  uint64_t largest = uint64_t{4} << 20;
  bool final_on_flush = false;
  // From which job on, counted over all.
  int lies_from = 1 << 30;
  int refuses_from = 1 << 30;
  int silent_from = 1 << 30;
  bool refuses_all_work = false;
};
Behaviour behaviour;
std::atomic<int> jobs_done{0};

Outcome FakeOpen(const char* name, uint32_t queues, void** device, DeviceFacts* facts,
                 Error* error) {
  if (std::strcmp(name, "fake") != 0) {
    std::snprintf(error->text, sizeof(error->text), "nothing is called so");
    return Outcome::kNoDevice;
  }
  *facts = {};
  std::snprintf(facts->driver, sizeof(facts->driver), "fake");
  facts->queues = queues;
  facts->burst = 16;
  facts->final_on_flush = behaviour.final_on_flush ? 1 : 0;
  facts->largest_buffer = behaviour.largest;
  *device = &behaviour;
  return Outcome::kOk;
}

Outcome FakeOpenWork(void*, const WorkSpec* spec, void** work, Error* error) {
  if (behaviour.refuses_all_work) {
    std::snprintf(error->text, sizeof(error->text), "all is taken");
    return Outcome::kFull;
  }
  *work = new WorkSpec(*spec);
  return Outcome::kOk;
}

void FakeCloseWork(void* work) { delete static_cast<WorkSpec*>(work); }

void Deflate(const WorkSpec& spec, Job& job) {
  z_stream stream{};
  deflateInit2(&stream, spec.level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = const_cast<Bytef*>(job.input);
  stream.avail_in = static_cast<uInt>(job.input_bytes);
  stream.next_out = job.output;
  stream.avail_out = static_cast<uInt>(job.room);
  const bool ends = spec.whole != 0 || behaviour.final_on_flush;
  const int got = deflate(&stream, ends ? Z_FINISH : Z_FULL_FLUSH);
  const bool fits = ends ? got == Z_STREAM_END : stream.avail_out > 0;
  job.produced = stream.total_out;
  job.outcome = fits ? Outcome::kOk : Outcome::kTooSmall;
  deflateEnd(&stream);
}

void Inflate(Job& job) {
  z_stream stream{};
  inflateInit2(&stream, -15);
  stream.next_in = const_cast<Bytef*>(job.input);
  stream.avail_in = static_cast<uInt>(job.input_bytes);
  stream.next_out = job.output;
  stream.avail_out = static_cast<uInt>(job.room);
  const int got = inflate(&stream, Z_FINISH);
  job.produced = stream.total_out;
  job.outcome = got == Z_STREAM_END                                            ? Outcome::kOk
                : stream.avail_out == 0 && (got == Z_BUF_ERROR || got == Z_OK) ? Outcome::kTooSmall
                                                                               : Outcome::kRefused;
  inflateEnd(&stream);
}

void FakeRun(void* work, Job* jobs, uint32_t count) {
  const auto& spec = *static_cast<const WorkSpec*>(work);
  for (uint32_t i = 0; i < count; ++i) {
    Job& job = jobs[i];
    const int number = jobs_done++;
    job.status = 3;
    job.produced = 0;
    if (job.input_bytes > behaviour.largest || job.room > behaviour.largest) {
      job.outcome = Outcome::kUnsupported;
    } else if (number >= behaviour.silent_from) {
      job.outcome = Outcome::kLost;
    } else if (number >= behaviour.refuses_from) {
      job.outcome = Outcome::kRefused;
    } else if (spec.compress != 0) {
      if (number >= behaviour.lies_from) {
        const std::string other(job.input_bytes, 'x');
        Job wrong = job;
        wrong.input = reinterpret_cast<const uint8_t*>(other.data());
        Deflate(spec, wrong);
        wrong.input = job.input;
        job = wrong;
      } else {
        Deflate(spec, job);
      }
    } else {
      Inflate(job);
      if (number >= behaviour.lies_from && job.produced > 0) job.output[job.produced / 2] ^= 1;
    }
  }
}

const char* FakeStatusName(int32_t) { return "FAKE"; }

// Its one rule: an x. It knows nothing of inputs with a '?'.
Outcome FakeOpenRegex(const char*, const void* rules, uint32_t bytes, void** device,
                      RegexFacts* facts, Error* error) {
  if (std::string(static_cast<const char*>(rules), bytes) != "x") {
    std::snprintf(error->text, sizeof(error->text), "no database of rules");
    return Outcome::kUnsupported;
  }
  *facts = {};
  facts->largest_input = 100;
  *device = &behaviour;
  return Outcome::kOk;
}

void FakeScan(void*, RegexJob* jobs, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const std::string input(reinterpret_cast<const char*>(jobs[i].input), jobs[i].input_bytes);
    jobs[i].outcome = input.find('?') != std::string::npos ? Outcome::kRefused : Outcome::kOk;
    jobs[i].matched = input.find('x') != std::string::npos ? 1 : 0;
  }
}

constexpr ModuleApi kFake = {kModuleVersion, sizeof(ModuleApi), FakeOpen,
                             FakeOpenWork,   FakeCloseWork,     FakeRun,
                             FakeStatusName, FakeOpenRegex,     FakeScan};

std::shared_ptr<Device> OpenFake(const Behaviour& how) {
  behaviour = how;
  jobs_done = 0;
  return *Device::Open(&kFake, "fake", 2);
}

Processors Alone(std::shared_ptr<Device> device) {
  Processors processors;
  processors.agent = std::move(device);
  processors.placement.kind = Placement::Kind::kAgent;
  return processors;
}

// Half of the chunks are its, if it does them.
Processors WithHost(std::shared_ptr<Device> device) {
  Processors processors;
  processors.agent = std::move(device);
  processors.placement = *Placement::Parse("split=50");
  return processors;
}

std::string CompressedByHost(const std::string& data, size_t chunk) {
  CompressOptions options;
  options.chunk_bytes = chunk;
  return *CompressText(options, data);
}

TEST(FakeDevice, SmallBuffers_ChunksBecomePieces) {
  Behaviour how;
  how.largest = 0xFFC0;
  const std::string data = MakeData(Kind::kMixed, 3'000'000, TestSeed());
  for (const bool final_on_flush : {false, true}) {
    how.final_on_flush = final_on_flush;
    for (const Format format : {Format::kGzip, Format::kZlib, Format::kBgzf}) {
      CompressOptions options;
      options.format = format;
      options.processors = Alone(OpenFake(how));
      const auto bytes = CompressText(options, data);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(DecompressText(*bytes).data, data) << FormatName(format);
      EXPECT_GT(jobs_done, 40);
    }
  }
}

TEST(FakeDevice, PiecesAndRetries_AreCountedAndReported) {
  Behaviour how;
  how.largest = 0xFFC0;
  // Does not shrink: it needs more room than is tried first, or just fits.
  const std::string data = MakeData(Kind::kRandom, 1'000'000, TestSeed());
  CompressOptions options;
  options.processors = Alone(OpenFake(how));
  EngineCache cache;
  options.processors.engines = &cache;
  // BGZF's blocks are pieces, too.
  for (const Format format : {Format::kGzip, Format::kBgzf}) {
    options.format = format;
    options.chunk_bytes = format == Format::kGzip ? 500'000 : 0;
    // The engine is kept for the next file, which has its own numbers.
    for (int file = 0; file < 2; ++file) {
      const UniqueFd in = MemoryFile(data);
      const UniqueFd out = MemoryFile("");
      jobs_done = 0;
      const auto stats = Compress(options, in.get(), "IN", out.get(), "OUT");
      ASSERT_TRUE(stats.ok()) << stats.status();
      // Each job is a piece, or one of them once more.
      const std::string said = stats->Explain();
      const size_t at = said.find(" pieces, ");
      ASSERT_NE(at, std::string::npos) << said;
      const int pieces = std::atoi(&said[said.rfind(' ', at - 1) + 1]);
      const int retries = std::atoi(&said[at + std::strlen(" pieces, ")]);
      EXPECT_GE(pieces, 2 * 8) << said;
      EXPECT_EQ(pieces + retries, jobs_done) << said;
    }
  }
}

TEST(FakeDevice, SmallBuffers_LargeChunksAreDecompressedByTheHost) {
  Behaviour how;
  how.largest = 0xFFC0;
  const std::string data = MakeData(Kind::kText, 3'000'000, TestSeed());
  const std::string bytes = CompressedByHost(data, 1 << 20);
  DecompressOptions options;
  options.processors = WithHost(OpenFake(how));
  const Decompressed got = DecompressText(bytes, false, options);
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.data, data);
}

TEST(FakeDevice, LostInTheMiddle_TheHostGoesOn) {
  const std::string data = MakeData(Kind::kText, 3'000'000, TestSeed());
  Behaviour how;
  how.silent_from = 3;
  CompressOptions options;
  options.chunk_bytes = 64 << 10;
  options.processors = WithHost(OpenFake(how));
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(DecompressText(*bytes).data, data);
  EXPECT_GT(jobs_done, 3);

  options.processors = Alone(OpenFake(how));
  const absl::Status alone = CompressText(options, data).status();
  EXPECT_TRUE(absl::IsUnavailable(alone)) << alone;
  EXPECT_TRUE(absl::StrContains(alone.message(), "fake")) << alone;
}

TEST(FakeDevice, CompressesSomethingElse_IsFoundAndReplaced) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  for (const bool final_on_flush : {false, true}) {
    Behaviour how;
    how.lies_from = 0;
    how.final_on_flush = final_on_flush;
    CompressOptions options;
    options.chunk_bytes = 64 << 10;
    options.processors = WithHost(OpenFake(how));
    const auto bytes = CompressText(options, data);
    // One lie that is found costs the device all that follows; those of its other lane that were
    // not decoded are found by whoever reads the stream, as for every agent.
    if (final_on_flush) {
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(DecompressText(*bytes).data, data);
    }
    options.processors = Alone(OpenFake(how));
    const absl::Status alone = CompressText(options, data).status();
    EXPECT_TRUE(absl::IsUnavailable(alone)) << alone;
  }
}

TEST(FakeDevice, DecompressesToSomethingElse_TheChecksumTells) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  const std::string bytes = CompressedByHost(data, 64 << 10);
  Behaviour how;
  how.lies_from = 5;
  DecompressOptions options;
  options.processors = Alone(OpenFake(how));
  const Decompressed got = DecompressText(bytes, false, options);
  EXPECT_TRUE(absl::IsDataLoss(got.status)) << got.status;
}

TEST(FakeDevice, RefusesGoodChunks_IsLostAndNotBelieved) {
  const std::string data = MakeData(Kind::kText, 1'000'000, TestSeed());
  const std::string bytes = CompressedByHost(data, 64 << 10);
  Behaviour how;
  how.refuses_from = 2;
  DecompressOptions options;
  options.processors = WithHost(OpenFake(how));
  const Decompressed got = DecompressText(bytes, false, options);
  EXPECT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.data, data);
  options.processors = Alone(OpenFake(how));
  const absl::Status alone = DecompressText(bytes, false, options).status;
  EXPECT_TRUE(absl::IsUnavailable(alone)) << alone;
  EXPECT_TRUE(absl::StrContains(alone.message(), "FAKE")) << alone;
}

TEST(FakeDevice, NoRoomForAnOperation_TheHostDoesIt) {
  const std::string data = MakeData(Kind::kText, 500'000, TestSeed());
  Behaviour how;
  how.refuses_all_work = true;
  CompressOptions options;
  options.processors.agent = OpenFake(how);
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(DecompressText(*bytes).data, data);
  EXPECT_EQ(jobs_done, 0);
  options.processors = Alone(OpenFake(how));
  EXPECT_TRUE(absl::IsResourceExhausted(CompressText(options, data).status()));
}

TEST(FakeDevice, UnknownName_IsNotFound) {
  const auto device = Device::Open(&kFake, "other", 1);
  EXPECT_TRUE(absl::IsNotFound(device.status())) << device.status();
  EXPECT_TRUE(absl::StrContains(device.status().message(), "nothing is called so"));
}

TEST(FakeRegexDevice, Records_AreMatchedOrLeftToTheHost) {
  EXPECT_TRUE(absl::IsFailedPrecondition(RegexDevice::Open(&kFake, "fake", "y").status()));
  const auto device = RegexDevice::Open(&kFake, "fake", "x");
  ASSERT_TRUE(device.ok()) << device.status();
  const std::string large(101, 'x');
  const std::vector<absl::string_view> records = {"a", "axb", "", "x?", large, "x"};
  const auto answers = (*device)->Scan(records);
  ASSERT_TRUE(answers.ok()) << answers.status();
  using Answer = RegexDevice::Answer;
  EXPECT_EQ(*answers, (std::vector<Answer>{Answer::kNo, Answer::kYes, Answer::kNo, Answer::kUnknown,
                                           Answer::kUnknown, Answer::kYes}));
}

}  // namespace
}  // namespace pulse::ops::dpdk
