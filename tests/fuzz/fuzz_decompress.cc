// Every format that `pulse decompress` reads: gzip, zlib, BGZF, zstd, LZ4, streams of ours and
// foreign ones. Whatever it is: no output beyond the limit, the same from a pipe as from a file,
// and gzip's and zlib's streams decode to what zlib makes of them.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <optional>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "fuzz_input.h"
#include "services/ops/decompress.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/format.h"

namespace {

constexpr uint64_t kLimit = 4 << 20;

using pulse::UniqueFd;

std::string ContentOf(int fd) {
  std::string content(static_cast<size_t>(lseek(fd, 0, SEEK_END)), '\0');
  FUZZ_CHECK(pread(fd, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()));
  return content;
}

struct Outcome {
  bool ok;
  std::string data;
};

Outcome Decode(int in, bool salvage = false) {
  const UniqueFd out(memfd_create("fuzz", MFD_CLOEXEC));
  FUZZ_CHECK(out.valid());
  pulse::ops::DecompressOptions options;
  options.max_output = kLimit;
  uint64_t written = 0;
  options.written = &written;
  options.salvage = options.pass_unknown = salvage;
  const auto report = pulse::ops::Decompress(options, in, "in", out.get(), "out");
  Outcome outcome{report.ok(), ContentOf(out.get())};
  FUZZ_CHECK(outcome.data.size() <= kLimit);
  FUZZ_CHECK(written == outcome.data.size());
  if (report.ok()) FUZZ_CHECK(report->output_bytes == outcome.data.size());
  return outcome;
}

// The members up to the first thing that is none. None: damaged.
std::optional<std::string> WithZlib(const std::string& bytes, bool gzip) {
  std::string data;
  std::string piece(1 << 16, '\0');
  z_stream stream{};
  FUZZ_CHECK(inflateInit2(&stream, gzip ? 15 + 16 : 15) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int got = Z_OK;
  while (got == Z_OK && data.size() <= kLimit) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    got = inflate(&stream, Z_NO_FLUSH);
    data.append(piece.data(), piece.size() - stream.avail_out);
    if (got == Z_STREAM_END && gzip && stream.avail_in > 2 && stream.next_in[0] == 0x1f &&
        stream.next_in[1] == 0x8b && stream.next_in[2] == 8) {
      got = inflateReset(&stream);
    }
  }
  inflateEnd(&stream);
  if (got != Z_STREAM_END) return std::nullopt;
  return data;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  // Parsers of headers, also where no stream goes on.
  const auto mark = pulse::ops::ReadMark(bytes);
  if (mark.has_value())
    FUZZ_CHECK(pulse::ops::ChunkMark(mark->length) == bytes.substr(0, mark->size));
  const auto header = pulse::ops::GzipHeaderSize(bytes);
  if (header.ok()) FUZZ_CHECK(*header <= bytes.size());

  const UniqueFd file(memfd_create("fuzz", MFD_CLOEXEC));
  FUZZ_CHECK(write(file.get(), data, size) == static_cast<ssize_t>(size));
  lseek(file.get(), 0, SEEK_SET);
  const Outcome from_file = Decode(file.get());

  // Decoded one by one, pieces give the same, and before damage no less; text may go on behind
  // them.
  lseek(file.get(), 0, SEEK_SET);
  const Outcome salvaged = Decode(file.get(), true);
  const auto begins =
      pulse::ops::Recognise(absl::string_view(bytes).substr(0, pulse::ops::kRecogniseBytes));
  const bool zlib = begins.ok() && *begins == pulse::ops::Format::kZlib;
  if (!zlib) FUZZ_CHECK(salvaged.data.starts_with(from_file.data));
  if (from_file.ok) FUZZ_CHECK(salvaged.ok);

  int ends[2];
  FUZZ_CHECK(pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  // What libFuzzer makes fits into a pipe.
  FUZZ_CHECK(write(to.get(), data, size) == static_cast<ssize_t>(size));
  to.reset();
  const Outcome from_pipe = Decode(from.get());
  FUZZ_CHECK(from_pipe.ok == from_file.ok);
  if (from_file.ok) FUZZ_CHECK(from_pipe.data == from_file.data);

  const auto format =
      pulse::ops::Recognise(absl::string_view(bytes).substr(0, pulse::ops::kRecogniseBytes));
  using pulse::ops::Format;
  if (from_file.ok && format.ok() && *format != Format::kZstd && *format != Format::kLz4) {
    const auto expected = WithZlib(bytes, *format != Format::kZlib);
    // Behind gzip's members others may follow.
    FUZZ_CHECK(expected.has_value() && from_file.data.starts_with(*expected));
  }
  return 0;
}
