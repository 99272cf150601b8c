// Devices of DPDK, by its software drivers. Without DPDK, or a driver, its tests are skipped;
// fake_module_test.cc has what real devices do not do on demand.
#include "services/ops/dpdk/device.h"

#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>
#include <zlib.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "base/testing.h"
#include "services/ops/dpdk/regex.h"
#include "services/ops/test_data.h"

namespace pulse::ops::dpdk {
namespace {

using testing_util::TestSeed;

// A refused input is a closed pipe for whoever writes it.
const bool kIgnoresSigpipe = signal(SIGPIPE, SIG_IGN) != SIG_ERR;

bool IsInstalled(const std::string& driver) {
  return absl::StrContains(PULSE_TEST_DRIVERS, " " + driver);
}

std::optional<std::string> ReadByZlib(const std::string& bytes, size_t size) {
  std::string data(size + 1, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return std::nullopt;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(data.data());
  stream.avail_out = static_cast<uInt>(data.size());
  int got = inflate(&stream, Z_FINISH);
  // BGZF has several members.
  while (got == Z_STREAM_END && stream.avail_in > 0) {
    inflateReset(&stream);
    got = inflate(&stream, Z_FINISH);
  }
  data.resize(data.size() - stream.avail_out);
  inflateEnd(&stream);
  if (got != Z_STREAM_END) return std::nullopt;
  return data;
}

// Of one member of gzip.
std::optional<std::string> ReadByIsal(const std::string& bytes, size_t size) {
  std::string data(size + 1, '\0');
  inflate_state state;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  state.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data()));
  state.avail_in = static_cast<uint32_t>(bytes.size());
  state.next_out = reinterpret_cast<uint8_t*>(data.data());
  state.avail_out = static_cast<uint32_t>(data.size());
  if (isal_inflate(&state) != ISAL_DECOMP_OK || state.block_state != ISAL_BLOCK_FINISH) {
    return std::nullopt;
  }
  data.resize(data.size() - state.avail_out);
  return data;
}

// This program: code and symbols.
std::string Corpus(size_t most) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::string data(most, '\0');
  file.read(data.data(), static_cast<std::streamsize>(most));
  data.resize(static_cast<size_t>(file.gcount()));
  return data;
}

Processors OnDevice(std::shared_ptr<Device> device) {
  Processors processors;
  processors.agent = std::move(device);
  processors.placement.kind = Placement::Kind::kAgent;
  return processors;
}

class SoftwareDriver : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!IsInstalled(GetParam())) {
      GTEST_SKIP() << "DPDK's driver " << GetParam() << " was not installed when this was built";
    }
    auto device = Device::Open(GetParam(), 2);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  // Of which both sides fit the device's buffers.
  size_t ChunkBytes() const { return device_->facts().chained != 0 ? 1 << 20 : 48 << 10; }

  std::shared_ptr<Device> device_;
};

INSTANTIATE_TEST_SUITE_P(All, SoftwareDriver, ::testing::Values("compress_isal", "compress_zlib"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(SoftwareDriver, Facts_AreThoseOfTheDriver) {
  const DeviceFacts& facts = device_->facts();
  EXPECT_EQ(facts.queues, 2u);
  EXPECT_EQ(facts.hardware, 0u);
  // compress_zlib does not say that it takes chains of buffers.
  const bool chained = std::string(GetParam()) == "compress_isal";
  EXPECT_EQ(facts.chained, chained ? 1u : 0u);
  EXPECT_EQ(facts.largest_buffer, chained ? uint64_t{4} << 20 : uint64_t{0xFFC0});
  // Both end a flush with a final block.
  EXPECT_EQ(facts.final_on_flush, 1u);
  EXPECT_TRUE(absl::StrContains(facts.driver, GetParam())) << facts.driver;
  EXPECT_TRUE(absl::StrContains(device_->Describe(), "software")) << device_->Describe();
}

TEST_P(SoftwareDriver, OpenedAgain_IsTheSameDevice) {
  const auto again = Device::Open(GetParam(), 7);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->threads(), 2);
}

TEST_P(SoftwareDriver, EveryFormatAndLevel_IsReadByOtherDecodersAndByTheDevice) {
  for (const Format format : {Format::kGzip, Format::kZlib, Format::kBgzf}) {
    for (int level = kMinLevel; level <= kMaxLevel; ++level) {
      for (const Kind kind : {Kind::kText, Kind::kRandom, Kind::kZeros, Kind::kMixed}) {
        const std::string data = MakeData(kind, 700'000, TestSeed() + static_cast<uint64_t>(level));
        CompressOptions options;
        options.format = format;
        options.level = level;
        options.chunk_bytes = std::min<size_t>(ChunkBytes(), 128 << 10);
        options.processors = OnDevice(device_);
        const auto bytes = CompressText(options, data);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        ASSERT_EQ(ReadByZlib(*bytes, data.size()), data)
            << FormatName(format) << " level " << level << ", kind " << static_cast<int>(kind);
        if (format == Format::kGzip) {
          ASSERT_EQ(ReadByIsal(*bytes, data.size()), data);
        }
        DecompressOptions back;
        if (format != Format::kBgzf) back.processors = OnDevice(device_);
        const Decompressed got = DecompressText(*bytes, false, back);
        ASSERT_TRUE(got.status.ok()) << got.status;
        ASSERT_EQ(got.data, data);
      }
    }
  }
}

TEST_P(SoftwareDriver, LargeChunksOfAProgram_AreChains) {
  const std::string data = Corpus(7 << 20);
  ASSERT_GT(data.size(), size_t{1} << 20);
  CompressOptions options;
  options.chunk_bytes = 1 << 20;
  options.processors = OnDevice(device_);
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_LT(bytes->size(), data.size() / 2);
  EXPECT_EQ(ReadByZlib(*bytes, data.size()), data);
  EXPECT_EQ(ReadByIsal(*bytes, data.size()), data);
}

TEST_P(SoftwareDriver, StreamsOfTheHost_AreDecompressedByTheDevice) {
  const std::string data = MakeData(Kind::kMixed, 3'000'000, TestSeed());
  for (const Codec codec : {Codec::kIsal, Codec::kZlib, Codec::kLibdeflate}) {
    for (const Format format : {Format::kGzip, Format::kZlib}) {
      CompressOptions options;
      options.codec = codec;
      options.format = format;
      options.chunk_bytes = ChunkBytes();
      const auto bytes = CompressText(options, data);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      DecompressOptions back;
      back.processors = OnDevice(device_);
      const Decompressed got = DecompressText(*bytes, true, back);
      ASSERT_TRUE(got.status.ok()) << got.status;
      EXPECT_EQ(got.data, data);
      EXPECT_EQ(got.report.parallel_members, 1u);
    }
  }
}

TEST_P(SoftwareDriver, HostAndDevice_WriteOneStreamTogether) {
  const std::string data = MakeData(Kind::kMixed, 6'000'000, TestSeed());
  for (const bool primed : {false, true}) {
    CompressOptions options;
    options.chunk_bytes = 128 << 10;
    options.primed = primed;
    options.processors.agent = device_;
    options.processors.placement = *Placement::Parse("split=50");
    const Input in(data, false);
    const UniqueFd out = MemoryFile("");
    const auto stats = Compress(options, in.fd(), "IN", out.get(), "OUT");
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_EQ(stats->engines.size(), 2u);
    const std::string bytes = ContentOf(out);
    EXPECT_EQ(ReadByZlib(bytes, data.size()), data);
    DecompressOptions back;
    back.processors.agent = device_;
    EXPECT_EQ(DecompressText(bytes, false, back).data, data);
  }
}

TEST_P(SoftwareDriver, DamagedChunk_IsReportedAsByTheHost) {
  const std::string data = MakeData(Kind::kText, 1'500'000, TestSeed());
  CompressOptions options;
  options.chunk_bytes = std::min<size_t>(ChunkBytes(), 128 << 10);
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 40; ++i) {
    std::string damaged = *bytes;
    damaged[100 + random() % (damaged.size() - 200)] ^= static_cast<char>(1 + random() % 255);
    const Decompressed host = DecompressText(damaged);
    DecompressOptions by_device;
    by_device.processors = OnDevice(device_);
    const Decompressed got = DecompressText(damaged, false, by_device);
    // A device may take for good what ends too early; then the stream's checksum tells.
    EXPECT_EQ(got.status.code(), host.status.code()) << got.status << "; host: " << host.status;
    EXPECT_TRUE(absl::IsDataLoss(got.status)) << got.status;
    EXPECT_EQ(got.data.substr(0, host.data.size()), host.data.substr(0, got.data.size()));
  }
  for (const size_t length : {size_t{400}, bytes->size() / 2, bytes->size() - 3}) {
    DecompressOptions by_device;
    by_device.processors = OnDevice(device_);
    EXPECT_TRUE(
        absl::IsDataLoss(DecompressText(bytes->substr(0, length), false, by_device).status));
  }
}

TEST_P(SoftwareDriver, OutputThatDoesNotFit_IsReportedAndRetried) {
  const std::string data = MakeData(Kind::kText, ChunkBytes() / 2, TestSeed());
  const auto compress = device_->OpenWork({1, 6, 1});
  ASSERT_TRUE(compress.ok()) << compress.status();
  std::string bytes(data.size() + 1000, '\0');
  Job job{};
  job.input = reinterpret_cast<const uint8_t*>(data.data());
  job.input_bytes = data.size();
  job.output = reinterpret_cast<uint8_t*>(bytes.data());
  job.room = 1000;
  (*compress)->Run(&job, 1);
  EXPECT_EQ(job.outcome, Outcome::kTooSmall);
  job.room = bytes.size();
  (*compress)->Run(&job, 1);
  ASSERT_EQ(job.outcome, Outcome::kOk) << device_->ErrorOf(job);
  bytes.resize(job.produced);

  const auto decompress = device_->OpenWork({0, 1, 0});
  ASSERT_TRUE(decompress.ok()) << decompress.status();
  std::string back(data.size(), '\0');
  job = {};
  job.input = reinterpret_cast<const uint8_t*>(bytes.data());
  job.input_bytes = bytes.size();
  job.output = reinterpret_cast<uint8_t*>(back.data());
  job.room = data.size() / 2;
  (*decompress)->Run(&job, 1);
  EXPECT_EQ(job.outcome, Outcome::kTooSmall);
  job.room = data.size();
  (*decompress)->Run(&job, 1);
  ASSERT_EQ(job.outcome, Outcome::kOk) << device_->ErrorOf(job);
  EXPECT_EQ(back, data);
}

TEST_P(SoftwareDriver, ChunkLargerThanItsBuffers_IsDoneByTheHost) {
  const std::string data = MakeData(Kind::kText, 20 << 20, TestSeed());
  CompressOptions options;
  options.chunk_bytes = 8 << 20;
  const auto bytes = CompressText(options, data);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  DecompressOptions both;
  both.processors.agent = device_;
  const Decompressed got = DecompressText(*bytes, false, both);
  ASSERT_TRUE(got.status.ok()) << got.status;
  EXPECT_EQ(got.data, data);
  DecompressOptions alone;
  alone.processors = OnDevice(device_);
  const Decompressed refused = DecompressText(*bytes, false, alone);
  EXPECT_FALSE(refused.status.ok());
  EXPECT_TRUE(absl::StrContains(refused.status.message(), "buffers")) << refused.status;
  // Compressing such a chunk is a matter of pieces.
  options.processors = OnDevice(device_);
  const auto pieces = CompressText(options, data);
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  EXPECT_EQ(ReadByZlib(*pieces, data.size()), data);
}

TEST_P(SoftwareDriver, SeveralThreads_ShareItsQueues) {
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const std::string data = MakeData(Kind::kMixed, 2'000'000, TestSeed() + i);
      for (int round = 0; round < 3; ++round) {
        CompressOptions options;
        options.chunk_bytes = 48 << 10;
        options.processors = OnDevice(device_);
        const auto bytes = CompressText(options, data);
        ASSERT_TRUE(bytes.ok()) << bytes.status();
        DecompressOptions back;
        back.processors = OnDevice(device_);
        EXPECT_EQ(DecompressText(*bytes, false, back).data, data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SoftwareDriver, TooManyOperations_AreRefusedUntilSomeHaveEnded) {
  std::vector<std::unique_ptr<Device::Work>> works;
  absl::Status full;
  for (int i = 0; i < 4096 && full.ok(); ++i) {
    auto work = device_->OpenWork({1, 6, 0});
    full = work.status();
    if (work.ok()) works.push_back(*std::move(work));
  }
  // A driver may take its memory from the heap, without a limit.
  if (!full.ok()) {
    EXPECT_FALSE(absl::IsUnavailable(full)) << full;
  }
  EXPECT_GE(works.size(), 8u);
  works.clear();
  EXPECT_TRUE(device_->OpenWork({1, 6, 0}).ok());
}

TEST_P(SoftwareDriver, OrdersItCannotDo_AreRefusedByName) {
  EngineOrder order;
  order.kind = EngineOrder::Kind::kCompress;
  order.format = static_cast<uint8_t>(Format::kZstd);
  order.level = 1;
  absl::Status refused = device_->Make(order, {}, nullptr).status();
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "zstd")) << refused;
  order.format = static_cast<uint8_t>(Format::kGzip);
  order.portable = true;
  refused = device_->Make(order, {}, nullptr).status();
  EXPECT_TRUE(absl::StrContains(refused.message(), "--deterministic")) << refused;
  order.kind = EngineOrder::Kind::kFilter;
  order.portable = false;
  refused = device_->Make(order, {}, nullptr).status();
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
}

TEST_P(SoftwareDriver, FormatsOfOthers_AreDecompressedByTheHost) {
  const std::string data = MakeData(Kind::kText, 500'000, TestSeed());
  for (const Format format : {Format::kZstd, Format::kLz4, Format::kBgzf}) {
    CompressOptions options;
    options.format = format;
    const auto bytes = CompressText(options, data);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    DecompressOptions both;
    both.processors.agent = device_;
    EXPECT_EQ(DecompressText(*bytes, false, both).data, data);
  }
}

TEST(Dpdk, DeviceThatDoesNotExist_IsNamed) {
  ASSERT_TRUE(kIgnoresSigpipe);
  if (!IsInstalled("compress_zlib")) {
    const auto device = Device::Open("compress_zlib");
    ASSERT_FALSE(device.ok());
    GTEST_SKIP() << "DPDK was not installed when this was built: " << device.status();
  }
  for (const char* name : {"compress_nothing", "0000:ff:1f.7"}) {
    const auto device = Device::Open(name);
    ASSERT_FALSE(device.ok());
    EXPECT_TRUE(absl::IsNotFound(device.status())) << device.status();
    EXPECT_TRUE(absl::StrContains(device.status().message(), name)) << device.status();
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Device::Open("").status()));
  // The others still work.
  EXPECT_TRUE(Device::Open("compress_zlib", 2).ok());
}

// DPDK has no software driver for regular expressions.
TEST(Dpdk, RegexDevice_WithoutACard_IsReportedMissing) {
  const auto device = RegexDevice::Open("0000:ff:1e.7", "rules");
  ASSERT_FALSE(device.ok());
  if (!IsInstalled("compress_zlib")) {
    GTEST_SKIP() << "DPDK was not installed when this was built: " << device.status();
  }
  EXPECT_TRUE(absl::IsNotFound(device.status())) << device.status();
  EXPECT_TRUE(absl::StrContains(device.status().message(), "no regex device here"))
      << device.status();
  EXPECT_TRUE(absl::StrContains(device.status().message(), "0000:ff:1e.7")) << device.status();
}

}  // namespace
}  // namespace pulse::ops::dpdk
