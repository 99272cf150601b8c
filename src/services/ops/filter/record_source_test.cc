#include "services/ops/filter/record_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_calls.h"
#include "base/testing.h"

namespace pulse::filter {
namespace {

using ::testing::HasSubstr;
using testing_util::ScratchPath;
using testing_util::Text;

// A file with `text` in it, opened at its beginning.
UniqueFd FileOf(const ScratchPath& path, const std::string& text) {
  UniqueFd fd = OpenFile(path.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT_TRUE(WriteAll(fd.get(), text, "writing", path.get()).ok());
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_SET), 0);
  return fd;
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
  Pipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
};

// All chunks, loaded; each chunk's records are whole.
absl::StatusOr<std::vector<std::string>> ReadAll(RecordSource* source) {
  std::vector<std::string> chunks;
  ops::Chunk chunk;
  uint64_t offset = 0;
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const bool more, source->Next(chunk));
    if (!more) return chunks;
    PULSE_RETURN_IF_ERROR(source->Load(chunk));
    EXPECT_EQ(chunk.offset, offset);
    EXPECT_GT(chunk.size(), 0U);
    offset += chunk.size();
    chunks.emplace_back(chunk.input.view());
  }
}

std::string Joined(const std::vector<std::string>& chunks) {
  std::string all;
  for (const std::string& chunk : chunks) all += chunk;
  return all;
}

std::string RandomLines(size_t bytes, size_t longest, std::mt19937_64& random) {
  std::string text;
  while (text.size() < bytes) {
    text += std::string(static_cast<size_t>(random() % (longest + 1)), 'x') + "\n";
  }
  return text;
}

SourceOptions Small(uint64_t chunk_bytes) {
  SourceOptions options;
  options.chunk_bytes = chunk_bytes;
  options.name = "the input";
  return options;
}

void CheckLines(const std::vector<std::string>& chunks, const std::string& text) {
  EXPECT_EQ(Joined(chunks), text);
  for (size_t i = 0; i + 1 < chunks.size(); ++i) EXPECT_EQ(chunks[i].back(), '\n') << i;
}

TEST(RecordSourceTest, Lines_FilesOfAllKinds_AreCutBetweenThem) {
  std::mt19937_64 random(testing_util::TestSeed());
  const ScratchPath path("source");
  for (int round = 0; round < 60; ++round) {
    std::string text = RandomLines(random() % 60000, 1 + random() % 20000, random);
    if (random() % 2 == 0 && !text.empty()) text.pop_back();
    const UniqueFd fd = FileOf(path, text);
    auto source = RecordSource::Make(fd.get(), Small(1 + random() % 9000));
    ASSERT_TRUE(source.ok()) << source.status();
    const auto chunks = ReadAll(source->get());
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    CheckLines(*chunks, text);
  }
}

TEST(RecordSourceTest, Lines_Streams_AreCutBetweenThem) {
  std::mt19937_64 random(testing_util::TestSeed() + 1);
  for (int round = 0; round < 30; ++round) {
    std::string text = RandomLines(random() % 300000, 1 + random() % 100000, random);
    if (random() % 2 == 0 && !text.empty()) text.pop_back();
    Pipe pipe;
    std::thread writer([&] {
      std::mt19937_64 sizes(static_cast<uint64_t>(round));
      for (size_t at = 0; at < text.size();) {
        const size_t n = std::min<size_t>(1 + sizes() % 70000, text.size() - at);
        EXPECT_TRUE(
            WriteAll(pipe.write.get(), absl::string_view(text).substr(at, n), "writing", "").ok());
        at += n;
      }
      pipe.write.reset();
    });
    auto source = RecordSource::Make(pipe.read.get(), Small(1 + random() % 90000));
    ASSERT_TRUE(source.ok()) << source.status();
    const auto chunks = ReadAll(source->get());
    writer.join();
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    CheckLines(*chunks, text);
  }
}

TEST(RecordSourceTest, Lines_StreamThatPauses_GivesWhatIsWhole) {
  Pipe pipe;
  ASSERT_EQ(write(pipe.write.get(), "one\ntwo\nthr", 11), 11);
  auto source = RecordSource::Make(pipe.read.get(), Small(1 << 20));
  ops::Chunk chunk;
  ASSERT_TRUE(*(*source)->Next(chunk));
  EXPECT_EQ(chunk.input.view(), "one\ntwo\n");
  ASSERT_EQ(write(pipe.write.get(), "ee\n", 3), 3);
  ASSERT_TRUE(*(*source)->Next(chunk));
  EXPECT_EQ(chunk.input.view(), "three\n");
  pipe.write.reset();
  EXPECT_FALSE(*(*source)->Next(chunk));
}

TEST(RecordSourceTest, Lines_TooLong_SaysWhereTheyBegin) {
  const std::string text = "short\n" + std::string(5000, 'x') + "\nmore\n";
  for (const bool stream : {false, true}) {
    const ScratchPath path("long");
    SourceOptions options = Small(1000);
    options.max_record = 4999;
    options.max_record_option = "--the-limit";
    UniqueFd fd = FileOf(path, text);
    Pipe pipe;
    if (stream) {
      ASSERT_TRUE(WriteAll(pipe.write.get(), text, "writing", "").ok());
      pipe.write.reset();
      fd = std::move(pipe.read);
    }
    auto source = RecordSource::Make(fd.get(), options);
    const auto chunks = ReadAll(source->get());
    ASSERT_EQ(chunks.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(Text(chunks.status()), HasSubstr("the input: the line that begins at byte 6"));
    EXPECT_THAT(Text(chunks.status()), HasSubstr("--the-limit allows longer ones"));
  }
}

TEST(RecordSourceTest, Lines_LongestThatIsAllowed_IsRead) {
  const std::string text = "short\n" + std::string(5000, 'x') + "\nmore\n";
  const ScratchPath path("longest");
  const UniqueFd fd = FileOf(path, text);
  SourceOptions options = Small(1000);
  options.max_record = 5000;
  auto source = RecordSource::Make(fd.get(), options);
  const auto chunks = ReadAll(source->get());
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  CheckLines(*chunks, text);
}

TEST(RecordSourceTest, File_ThatGrows_IsReadToItsEnd) {
  const ScratchPath path("grows");
  const UniqueFd fd = FileOf(path, "a\nb\nc\nd\n");
  auto source = RecordSource::Make(fd.get(), Small(4));
  ops::Chunk chunk;
  ASSERT_TRUE(*(*source)->Next(chunk));
  ASSERT_EQ(pwrite(fd.get(), "e\nf\n", 4, 8), 4);
  std::string all;
  do {
    ASSERT_TRUE((*source)->Load(chunk).ok());
    all += std::string(chunk.input.view());
  } while (*(*source)->Next(chunk));
  EXPECT_EQ(all, "a\nb\nc\nd\ne\nf\n");
}

TEST(RecordSourceTest, File_ThatGrowsWithinALine_KeepsTheLineWhole) {
  const ScratchPath path("grows-within");
  const UniqueFd fd = FileOf(path, "first\nsec");
  auto source = RecordSource::Make(fd.get(), Small(100));
  ops::Chunk chunk;
  const auto next = [&] {
    if (!*(*source)->Next(chunk)) return std::string("the end");
    EXPECT_TRUE((*source)->Load(chunk).ok());
    return std::string(chunk.input.view());
  };
  EXPECT_EQ(next(), "first\n");
  ASSERT_EQ(pwrite(fd.get(), "ond\nthi", 7, 9), 7);
  EXPECT_EQ(next(), "second\n");
  EXPECT_EQ(next(), "thi");
  // A line that was read as the last one, and is written to its end later, is not read in two.
  ASSERT_EQ(pwrite(fd.get(), "rd\n", 3, 16), 3);
  EXPECT_EQ(next(), "the end");
}

TEST(RecordSourceTest, File_ThatBecomesShorter_IsAnError) {
  const ScratchPath path("shrinks");
  const UniqueFd fd = FileOf(path, "a\nb\nc\nd\n");
  auto source = RecordSource::Make(fd.get(), Small(4));
  ops::Chunk chunk;
  ASSERT_TRUE(*(*source)->Next(chunk));
  ASSERT_EQ(ftruncate(fd.get(), 2), 0);
  const absl::Status load = (*source)->Load(chunk);
  EXPECT_EQ(load.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Text(load), HasSubstr("only 2 of 4 bytes are left at byte 0"));
  const auto next = (*source)->Next(chunk);
  EXPECT_EQ(next.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Text(next.status()), HasSubstr("became shorter"));
}

TEST(RecordSourceTest, File_ThatBecomesAsShortAsWhatWasRead_IsAnError) {
  const ScratchPath path("shrinks-to");
  const UniqueFd fd = FileOf(path, "a\nb\nc\nd\n");
  auto source = RecordSource::Make(fd.get(), Small(4));
  ops::Chunk chunk;
  ASSERT_TRUE(*(*source)->Next(chunk));
  ASSERT_EQ(ftruncate(fd.get(), 4), 0);
  EXPECT_TRUE((*source)->Load(chunk).ok());
  EXPECT_THAT(Text((*source)->Next(chunk).status()), HasSubstr("it had 8 bytes, and now has 4"));
}

TEST(RecordSourceTest, File_FromWhereTheDescriptorIs) {
  const ScratchPath path("middle");
  const UniqueFd fd = FileOf(path, "a\nb\nc\n");
  ASSERT_EQ(lseek(fd.get(), 2, SEEK_SET), 2);
  auto source = RecordSource::Make(fd.get(), Small(100));
  EXPECT_EQ((*source)->TotalBytes(), 4U);
  ops::Chunk chunk;
  ASSERT_TRUE(*(*source)->Next(chunk));
  ASSERT_TRUE((*source)->Load(chunk).ok());
  EXPECT_EQ(chunk.input.view(), "b\nc\n");
}

TEST(RecordSourceTest, Folder_IsRefused) {
  const UniqueFd fd = OpenFile(".", O_RDONLY | O_DIRECTORY);
  EXPECT_FALSE(RecordSource::Make(fd.get(), Small(100)).ok());
}

TEST(RecordSourceTest, Prefixed_AnyCut_GivesWholeRecords) {
  std::mt19937_64 random(testing_util::TestSeed() + 2);
  std::string text;
  for (int i = 0; i < 400; ++i) {
    const auto size = static_cast<size_t>(random() % 900);
    for (int k = 0; k < 4; ++k) text.push_back(static_cast<char>(size >> (8 * k)));
    text += std::string(size, '\n');
  }
  const ScratchPath path("prefixed");
  const UniqueFd fd = FileOf(path, text);
  SourceOptions options = Small(3000);
  options.records = Records::kPrefixed;
  auto source = RecordSource::Make(fd.get(), options);
  const auto chunks = ReadAll(source->get());
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  EXPECT_GT(chunks->size(), 10U);
  EXPECT_EQ(Joined(*chunks), text);
  for (const std::string& chunk : *chunks) {
    size_t at = 0;
    while (at + 4 <= chunk.size()) {
      at += 4 + static_cast<unsigned char>(chunk[at]) +
            256 * static_cast<unsigned char>(chunk[at + 1]);
    }
    EXPECT_EQ(at, chunk.size());
  }
}

TEST(RecordSourceTest, Prefixed_CutOffOrTooLong_SaysWhere) {
  const ScratchPath path("cut");
  SourceOptions options = Small(3000);
  options.records = Records::kPrefixed;
  options.max_record = 1000;
  UniqueFd fd = FileOf(path, std::string("\2\0\0\0ab\5\0\0\0abc", 13));
  auto cut = ReadAll(RecordSource::Make(fd.get(), options)->get());
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Text(cut.status()), HasSubstr("begins at byte 6 is cut off"));
  fd = FileOf(path, std::string("\2\0\0\0ab\xff\xff\xff\xff", 10));
  auto too_long = ReadAll(RecordSource::Make(fd.get(), options)->get());
  EXPECT_EQ(too_long.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Text(too_long.status()), HasSubstr("byte 6"));
}

TEST(RecordSourceTest, Stop_WhileItWaitsForAStream_EndsIt) {
  Pipe pipe;
  auto source = RecordSource::Make(pipe.read.get(), Small(100));
  std::thread stopper([&] { (*source)->Stop(); });
  ops::Chunk chunk;
  EXPECT_FALSE(*(*source)->Next(chunk));
  stopper.join();
}

}  // namespace
}  // namespace pulse::filter
