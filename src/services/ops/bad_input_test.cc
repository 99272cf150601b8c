// Inputs that pause, change while they are read, or are good and not for this program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <zstd.h>

#include <memory>
#include <string>
#include <thread>

#include "base/cpu_list.h"
#include "base/file_calls.h"
#include "base/testing.h"
#include "services/ops/byte_stream.h"
#include "services/ops/test_data.h"
#include "services/ops/test_decoders.h"

namespace pulse::ops {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::TestSeed;
using testing_util::Text;

struct OpenPipe {
  OpenPipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    from.reset(ends[0]);
    to.reset(ends[1]);
  }
  UniqueFd from;
  UniqueFd to;
};

TEST(FdSource, StopWhileItWaits_EndsReading) {
  OpenPipe pipe;
  FdSource source(pipe.from.get(), "IN");
  ASSERT_TRUE(WriteAll(pipe.to.get(), "x", "writing", "the pipe").ok());
  char byte;
  EXPECT_EQ(*source.Read(&byte, 1), 1U);
  std::thread stopper([&] { source.Stop(); });
  EXPECT_TRUE(absl::IsCancelled(source.Read(&byte, 1).status()));
  stopper.join();
  EXPECT_TRUE(absl::IsCancelled(source.Read(&byte, 1).status()));
}

// Whoever writes need not end: what is wrong is known.
TEST(Decompress, GarbageInAPipeThatStaysOpen_IsSeenAtOnce) {
  const std::string data = MakeData(Kind::kText, 20'000, TestSeed());  // less than a pipe holds
  for (const std::string& bytes : {ForeignGzip(data), *CompressText({}, data)}) {
    OpenPipe pipe;
    const std::string sent = bytes + std::string(1000, 'x');
    ASSERT_TRUE(WriteAll(pipe.to.get(), sent, "writing", "the pipe").ok());
    const UniqueFd out = MemoryFile("");
    const auto report = Decompress({}, pipe.from.get(), "IN", out.get(), "OUT");
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->trailing_garbage);
    EXPECT_EQ(ContentOf(out), data);
  }
}

TEST(Compress, PrimedFileThatIsWrittenInPlace_IsAnError) {
  constexpr size_t kSize = 4'000'000;
  const UniqueFd in = MemoryFile(MakeData(Kind::kRandom, kSize, TestSeed()));
  // Nobody reads: the results of the first chunks fill the pipe, and the only lane waits.
  OpenPipe pipe;
  CompressOptions options;
  options.primed = true;
  options.chunk_bytes = 64 << 10;
  options.processors.host_cpus = {MyCpus().front()};
  absl::Status status;
  std::thread compressing(
      [&] { status = Compress(options, in.get(), "IN", pipe.to.get(), "OUT").status(); });
  EXPECT_TRUE(Eventually([&] {
    pollfd full = {.fd = pipe.to.get(), .events = POLLOUT, .revents = 0};
    return poll(&full, 1, 0) == 0;
  }));
  const std::string other = MakeData(Kind::kRandom, kSize, TestSeed() + 1);
  EXPECT_TRUE(WriteAt(in.get(), other, 0, "IN").ok());
  std::string taken(1 << 16, '\0');
  std::thread reading([&] {
    while (read(pipe.from.get(), taken.data(), taken.size()) > 0) {
    }
  });
  compressing.join();
  pipe.to.reset();
  reading.join();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(Text(status), HasSubstr("IN was changed while it was read"));
}

// A frame that says neither its size nor a checksum, with a window of 2^`log` bytes: "hello".
std::string HelloFrame(int log) {
  const char window = static_cast<char>((log - 10) << 3);
  return std::string("\x28\xb5\x2f\xfd\0", 5) + window + std::string("\x29\0\0hello", 8);
}

TEST(Decompress, ZstdOfALargeWindow_IsNotCalledDamaged) {
  EXPECT_EQ(DecompressText(HelloFrame(27)).data, "hello");
  const Decompressed refused = DecompressText(HelloFrame(28));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_THAT(Text(refused.status), HasSubstr("IN: the zstd frame at offset 0 needs a window of "
                                              "268435456 bytes, and at most 134217728 are taken; "
                                              "`zstd -d --long=31`"));
}

TEST(Decompress, ZstdWithADictionary_IsNotCalledDamaged) {
  std::string frame = HelloFrame(20);
  frame[4] = 1;  // it names its dictionary, in a byte
  frame.insert(6, "\x07");
  const Decompressed refused = DecompressText(frame);
  EXPECT_TRUE(absl::IsUnimplemented(refused.status)) << refused.status;
  EXPECT_THAT(Text(refused.status), HasSubstr("needs a dictionary"));
}

// Three bytes in front of each eight, since the writer was flushed there.
TEST(Decompress, ZstdFlushedOften_IsNotCalledDamaged) {
  const std::string data = MakeData(Kind::kRandom, 4'000'000, TestSeed());
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                   ZSTD_freeCCtx);
  ZSTD_CCtx_setPledgedSrcSize(context.get(), data.size());
  std::string frame(data.size() * 2, '\0');
  ZSTD_outBuffer to{frame.data(), frame.size(), 0};
  for (size_t at = 0; at < data.size(); at += 8) {
    ZSTD_inBuffer from{&data[at], 8, 0};
    ASSERT_EQ(ZSTD_compressStream2(context.get(), &to, &from, ZSTD_e_flush), 0u);
  }
  ZSTD_inBuffer none{nullptr, 0, 0};
  ASSERT_EQ(ZSTD_compressStream2(context.get(), &to, &none, ZSTD_e_end), 0u);
  frame.resize(to.pos);
  const Decompressed plain = DecompressText(frame);
  EXPECT_TRUE(plain.status.ok()) << plain.status;
  EXPECT_TRUE(plain.data == data);
}

// 2,500 blocks of 64 KiB each are 256 KiB of BGZF.
TEST(Decompress, BgzfThatBecomesMuchLarger_IsDoneInPiecesThatFitInMemory) {
  CompressOptions options;
  options.format = Format::kBgzf;
  std::string zeros;
  zeros.resize(20'000'000);
  const auto packed = CompressText(options, zeros);
  ASSERT_TRUE(packed.ok()) << packed.status();
  const Decompressed plain = DecompressText(*packed);
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  EXPECT_TRUE(plain.data == zeros);
  ASSERT_EQ(plain.report.queues.size(), 1u);
  EXPECT_GE(plain.report.queues.begin()->second.chunks, 9u);
}

}  // namespace
}  // namespace pulse::ops
