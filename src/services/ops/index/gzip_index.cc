#include "services/ops/index/gzip_index.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/format.h"

namespace pulse::ops {
namespace {

constexpr absl::string_view kIndexMagic = "PULSEIDX";
constexpr uint32_t kIndexVersion = 1;
constexpr size_t kSample = 4096;  // bytes, at each end of the file
constexpr uint64_t kMostSegments = uint64_t{1} << 26;
constexpr size_t kMostPacked = 48 << 10;
constexpr size_t kHead = 64;
// No member is shorter: header, an empty block, trailer.
constexpr uint64_t kLeastMember = 20;
// The fixed part of a segment, and the flags in it.
constexpr size_t kSegmentBytes = 8 + 8 + 8 + 4 + 4 + 4 + 4;
constexpr uint32_t kEndsMember = 1;

uint64_t LoadLe64(const char* from) {
  return uint64_t{LoadLe32(from)} | uint64_t{LoadLe32(from + 4)} << 32;
}

uint32_t Crc(absl::string_view bytes, uint32_t before = 0) {
  return crc32_gzip_refl(before, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

absl::Status DamagedIndex() { return absl::DataLossError("it is damaged, or no index"); }

absl::Status NoIndex(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the index ", path, " ", why));
}

// InvalidArgument: this file has something else in it, which no index may replace; nor may it
// replace the input, which is open as `input`.
absl::Status CheckIsIndex(int file, const std::string& path, int input) {
  struct stat info;
  struct stat of_input;
  if (fstat(file, &info) != 0 || fstat(input, &of_input) != 0) {
    return ErrnoError(errno, "reading the index", path);
  }
  if (!S_ISREG(info.st_mode)) return NoIndex(path, "is no file");
  if (IsSameFile(info, of_input)) {
    return NoIndex(path, "is the input");
  }
  if (info.st_size == 0) return absl::OkStatus();
  std::string magic(kIndexMagic.size(), '\0');
  PULSE_ASSIGN_OR_RETURN(const size_t n,
                         ReadAt(file, magic.data(), magic.size(), 0, "reading the index", path));
  if (absl::string_view(magic).substr(0, n) == kIndexMagic) return absl::OkStatus();
  return NoIndex(path, "exists and is something else; it is not overwritten");
}

struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};
struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

}  // namespace

uint64_t GzipIndex::members() const {
  return static_cast<uint64_t>(std::count_if(segments.begin(), segments.end(),
                                             [](const IndexSegment& s) { return s.ends_member; }));
}

std::string EncodeIndex(const GzipIndex& index) {
  std::string bytes(kIndexMagic);
  AppendLe(bytes, kIndexVersion, 4);
  AppendLe(bytes, index.garbage ? 1 : 0, 4);
  AppendLe(bytes, index.file_bytes, 8);
  AppendLe(bytes, static_cast<uint64_t>(index.changed_nanos), 8);
  AppendLe(bytes, index.sample_crc, 4);
  AppendLe(bytes, 0, 4);
  AppendLe(bytes, index.data_bytes, 8);
  AppendLe(bytes, index.end, 8);
  AppendLe(bytes, index.segments.size(), 8);
  for (const IndexSegment& segment : index.segments) {
    AppendLe(bytes, segment.begin_bit, 8);
    AppendLe(bytes, segment.end, 8);
    AppendLe(bytes, segment.data_bytes, 8);
    AppendLe(bytes, segment.crc, 4);
    AppendLe(bytes, segment.ends_member ? kEndsMember : 0, 4);
    AppendLe(bytes, segment.window_bytes, 4);
    AppendLe(bytes, segment.window.size(), 4);
    bytes += segment.window;
  }
  AppendLe(bytes, Crc(bytes), 4);
  return bytes;
}

absl::Status CheckIndexHead(absl::string_view head, uint64_t index_bytes, uint64_t file_bytes) {
  if (head.size() < kHead || head.substr(0, kIndexMagic.size()) != kIndexMagic) {
    return DamagedIndex();
  }
  if (LoadLe32(&head[8]) != kIndexVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is of version ", LoadLe32(&head[8]), ", not ", kIndexVersion));
  }
  const uint64_t of_file = LoadLe64(&head[16]);
  if (of_file != file_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is of a file of ", of_file, " bytes, and this one has ", file_bytes));
  }
  // A segment is a member, or what several MiB of data were compressed to.
  const uint64_t count = LoadLe64(&head[56]);
  if (count == 0 || count > kMostSegments || count > file_bytes / kLeastMember) {
    return DamagedIndex();
  }
  const uint64_t least = kHead + count * kSegmentBytes + 4;
  return index_bytes < least || index_bytes > least + count * kMostPacked ? DamagedIndex()
                                                                          : absl::OkStatus();
}

absl::StatusOr<GzipIndex> DecodeIndex(absl::string_view bytes) {
  if (bytes.size() < kHead + 4 || bytes.substr(0, kIndexMagic.size()) != kIndexMagic)
    return DamagedIndex();
  if (LoadLe32(&bytes[8]) != kIndexVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is of version ", LoadLe32(&bytes[8]), ", not ", kIndexVersion));
  }
  const size_t body = bytes.size() - 4;
  if (Crc(bytes.substr(0, body)) != LoadLe32(&bytes[body])) return DamagedIndex();
  GzipIndex index;
  index.garbage = (LoadLe32(&bytes[12]) & 1) != 0;
  index.file_bytes = LoadLe64(&bytes[16]);
  index.changed_nanos = static_cast<int64_t>(LoadLe64(&bytes[24]));
  index.sample_crc = LoadLe32(&bytes[32]);
  index.data_bytes = LoadLe64(&bytes[40]);
  index.end = LoadLe64(&bytes[48]);
  const uint64_t count = LoadLe64(&bytes[56]);
  if (count == 0 || count > kMostSegments || count > body / kSegmentBytes) return DamagedIndex();
  absl::string_view rest = bytes.substr(kHead, body - kHead);
  uint64_t data = 0;
  bool begins_member = true;
  for (uint64_t i = 0; i < count; ++i) {
    if (rest.size() < kSegmentBytes) return DamagedIndex();
    IndexSegment segment;
    segment.begin_bit = LoadLe64(rest.data());
    segment.end = LoadLe64(&rest[8]);
    segment.data_bytes = LoadLe64(&rest[16]);
    segment.crc = LoadLe32(&rest[24]);
    segment.ends_member = (LoadLe32(&rest[28]) & kEndsMember) != 0;
    segment.window_bytes = LoadLe32(&rest[32]);
    const size_t packed = LoadLe32(&rest[36]);
    rest.remove_prefix(kSegmentBytes);
    if (packed > kMostPacked || packed > rest.size()) return DamagedIndex();
    segment.window = std::string(rest.substr(0, packed));
    rest.remove_prefix(packed);
    const uint64_t before = index.segments.empty() ? 0 : index.segments.back().end;
    // A segment may begin in the last byte of the one before.
    if (segment.begin_bit / 8 + 1 < before || segment.end <= segment.begin_bit / 8 ||
        segment.end > index.file_bytes || segment.data_bytes > kLargestPiece ||
        segment.window_bytes > kDeflateWindow ||
        (begins_member && (segment.window_bytes != 0 || segment.begin_bit % 8 != 0)) ||
        segment.end - segment.begin_bit / 8 > kLargestPiece) {
      return DamagedIndex();
    }
    begins_member = segment.ends_member;
    data += segment.data_bytes;
    index.segments.push_back(std::move(segment));
  }
  if (!rest.empty() || !begins_member || data != index.data_bytes || index.end > index.file_bytes ||
      index.end != index.segments.back().end + kGzipTrailer) {
    return DamagedIndex();
  }
  return index;
}

absl::Status Describe(int fd, const std::string& name, GzipIndex* index) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoError(errno, "reading", name);
  index->file_bytes = static_cast<uint64_t>(info.st_size);
  index->changed_nanos = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  std::string sample(kSample, '\0');
  uint32_t crc = 0;
  const uint64_t last = index->file_bytes - std::min<uint64_t>(index->file_bytes, kSample);
  for (const uint64_t at : {uint64_t{0}, last}) {
    PULSE_ASSIGN_OR_RETURN(const size_t n,
                           ReadAt(fd, sample.data(), sample.size(), at, "reading", name));
    crc = Crc({sample.data(), n}, crc);
  }
  index->sample_crc = crc;
  return absl::OkStatus();
}

absl::Status Matches(const GzipIndex& index, int fd, const std::string& name) {
  GzipIndex now;
  PULSE_RETURN_IF_ERROR(Describe(fd, name, &now));
  if (now.file_bytes != index.file_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is of a file of ", index.file_bytes, " bytes, and ", name, " has ", now.file_bytes));
  }
  if (now.changed_nanos != index.changed_nanos || now.sample_crc != index.sample_crc) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " was changed since, or it is of another file"));
  }
  return absl::OkStatus();
}

absl::StatusOr<GzipIndex> LoadIndex(const std::string& path, int fd, const std::string& name) {
  // A pipe is not waited for.
  const UniqueFd file = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!file.valid()) return ErrnoError(errno, "opening the index", path);
  PULSE_RETURN_IF_ERROR(CheckIsIndex(file.get(), path, fd));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return ErrnoError(errno, "reading the index", path);
  struct stat of_input;
  if (fstat(fd, &of_input) != 0) return ErrnoError(errno, "reading", name);
  const auto wrong = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("the index ", path, ": ", status.message()));
  };
  std::string bytes;
  const auto read = [&](uint64_t size) -> absl::Status {
    bytes.resize(size);
    PULSE_ASSIGN_OR_RETURN(const size_t n, ReadAt(file.get(), bytes.data(), bytes.size(), 0,
                                                  "reading the index", path));
    bytes.resize(n);
    return absl::OkStatus();
  };
  const auto index_bytes = static_cast<uint64_t>(info.st_size);
  PULSE_RETURN_IF_ERROR(read(kHead));
  const absl::Status head =
      CheckIndexHead(bytes, index_bytes, static_cast<uint64_t>(of_input.st_size));
  if (!head.ok()) return wrong(head);
  PULSE_RETURN_IF_ERROR(read(index_bytes));
  auto index = DecodeIndex(bytes);
  const absl::Status status = index.ok() ? Matches(*index, fd, name) : index.status();
  if (status.ok()) return index;
  return wrong(status);
}

absl::Status SaveIndex(const std::string& path, const GzipIndex& index, int fd) {
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  struct stat of_input;
  if (fstat(fd, &of_input) != 0) return ErrnoError(errno, "writing the index", path);
  UniqueFd file = OpenFile(temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (!file.valid()) return ErrnoError(errno, "writing the index", temporary);
  // It has data of the input, which not everybody may read.
  absl::Status status;
  if (fchmod(file.get(), CopyOwner(file.get(), of_input) & 0666) != 0) {
    status = ErrnoError(errno, "setting the mode of the index", path);
  }
  if (status.ok()) status = WriteAll(file.get(), EncodeIndex(index), "writing the index", path);
  if (status.ok() && close(file.release()) != 0) {
    status = ErrnoError(errno, "writing the index", path);
  }
  if (status.ok()) {
    // Again: what is there may have come since the input was begun.
    const UniqueFd there = OpenFile(path, O_RDONLY | O_NONBLOCK);
    if (there.valid()) {
      status = CheckIsIndex(there.get(), path, fd);
    } else if (errno != ENOENT) {
      status = ErrnoError(errno, "replacing the index", path);
    }
  }
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoError(errno, "renaming the index to", path);
  }
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

std::string PackWindow(absl::string_view window) {
  const std::unique_ptr<libdeflate_compressor, FreeCompressor> compressor(
      libdeflate_alloc_compressor(1));
  std::string packed(libdeflate_deflate_compress_bound(compressor.get(), window.size()), '\0');
  packed.resize(libdeflate_deflate_compress(compressor.get(), window.data(), window.size(),
                                            packed.data(), packed.size()));
  return packed;
}

bool UnpackWindow(const IndexSegment& segment, uint8_t* to) {
  if (segment.window_bytes == 0) return true;
  thread_local const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(
      libdeflate_alloc_decompressor());
  return libdeflate_deflate_decompress(decompressor.get(), segment.window.data(),
                                       segment.window.size(), to, segment.window_bytes,
                                       nullptr) == LIBDEFLATE_SUCCESS;
}

}  // namespace pulse::ops
