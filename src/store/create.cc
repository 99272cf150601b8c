// Create() and Format(): a new store. The superblock is written last, so that what was cut in
// between is no store.
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "store/aligned_buffer.h"
#include "store/file_device.h"
#include "store/format.h"
#include "store/recovery.h"
#include "store/store.h"

namespace pulse::store {
namespace {

constexpr uint64_t kPrefillChunk = uint64_t{4} << 20;
constexpr uint64_t kMetadataPerSegment = 320;
constexpr uint64_t kMetadataBase = uint64_t{8} << 20;
constexpr uint64_t kMaxDefaultMetadata = uint64_t{1} << 30;

absl::Status RandomUuid(std::array<uint8_t, 16>* uuid) {
  if (getrandom(uuid->data(), uuid->size(), 0) != static_cast<ssize_t>(uuid->size())) {
    return ErrnoError(errno, "getrandom", "");
  }
  (*uuid)[6] = static_cast<uint8_t>(((*uuid)[6] & 0x0f) | 0x40);  // RFC 4122, version 4
  (*uuid)[8] = static_cast<uint8_t>(((*uuid)[8] & 0x3f) | 0x80);
  return absl::OkStatus();
}

absl::StatusOr<Superblock> Design(const std::string& name, uint64_t size,
                                  const CreateOptions& options) {
  const uint64_t segment = options.segment_bytes;
  if (!std::has_single_bit(segment) || segment < kMinSegmentBytes || segment > kMaxSegmentBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--segment ", segment, ": must be a power of two from ", kMinSegmentBytes,
                     " (4K) to ", kMaxSegmentBytes, " (1G)"));
  }
  Superblock s;
  s.segment_bytes = segment;
  s.segments = size / segment;
  if (s.segments > kMaxSegments) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": more than 2^32 segments; ",
        size / kMaxSegmentBytes > kMaxSegments ? "lower --size" : "choose a larger --segment"));
  }
  if (s.segments < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", size, " bytes are too small for a store with segments of ",
                     segment, "; at least two are needed: raise --size, or lower --segment"));
  }
  uint64_t metadata = options.metadata_bytes;
  if (metadata == 0) {
    metadata = std::max(s.segments * kMetadataPerSegment + kMetadataBase,
                        std::min(size / 64, kMaxDefaultMetadata));
    metadata = std::max(segment, std::min(metadata, size / 4 / segment * segment));
  }
  if (metadata > size) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metadata ", metadata, ": more than the store's ", size, " bytes"));
  }
  s.metadata_segments = (metadata + segment - 1) / segment;
  if (s.metadata_segments >= s.segments) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": metadata takes ", s.metadata_segments, " of ", s.segments,
                     " segments, which leaves none for data; raise --size, or lower --metadata"));
  }
  const auto laid_out = LayOut(&s);
  if (!laid_out.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": ", laid_out.message(), options.metadata_bytes == 0 ? ", or --size" : ""));
  }
  s.created_ns = ClockNanos(CLOCK_REALTIME);
  PULSE_RETURN_IF_ERROR(RandomUuid(&s.uuid));
  return s;
}

absl::Status WriteFormat(Device& device, const Superblock& s) {
  // An earlier store's superblock goes first: from here on the device is no store.
  AlignedBuffer block(kBlock);
  absl::StatusOr<Superblock> former = absl::NotFoundError("there was none");
  if (device.Read(0, block.data(), kBlock).ok()) former = DecodeSuperblock(block.data());
  std::memset(block.data(), 0, kBlock);
  // A repair would take it for this one's, where its metadata had another size.
  if (former.ok() && former->copy_offset() + kBlock <= device.size()) {
    PULSE_RETURN_IF_ERROR(device.Write(former->copy_offset(), block.data(), kBlock));
    PULSE_RETURN_IF_ERROR(device.Sync());
  }
  PULSE_RETURN_IF_ERROR(device.Write(0, block.data(), kBlock));
  PULSE_RETURN_IF_ERROR(device.Write(s.copy_offset(), block.data(), kBlock));
  PULSE_RETURN_IF_ERROR(device.Sync());
  for (int i = 0; i < 2; ++i) {
    PULSE_RETURN_IF_ERROR(device.Write(s.checkpoint_offset[i], block.data(), kBlock));
    PULSE_RETURN_IF_ERROR(device.Write(s.journal_offset[i], block.data(), kBlock));
  }
  const State empty(s.segments, s.metadata_segments, s.segment_bytes);
  PULSE_RETURN_IF_ERROR(WriteCheckpoint(device, s, MakeCheckpoint(empty, 1, 0)));
  EncodeSuperblock(s, block.data());
  PULSE_RETURN_IF_ERROR(device.Write(s.copy_offset(), block.data(), kBlock));
  PULSE_RETURN_IF_ERROR(device.Write(0, block.data(), kBlock));
  return device.Sync();
}

absl::Status Prefill(Device& device, uint64_t size, const CreateOptions& options) {
  AlignedBuffer zeros(std::min(kPrefillChunk, size));
  for (uint64_t at = 0; at < size; at += kPrefillChunk) {
    PULSE_RETURN_IF_ERROR(device.Write(at, zeros.data(), std::min(kPrefillChunk, size - at)));
    if (!options.progress) continue;
    PULSE_RETURN_IF_ERROR(options.progress(std::min(at + kPrefillChunk, size), size));
  }
  return device.Sync();
}

// Whether the first bytes of a block device look used. Wiping a partition by a mistyped name must
// need
// --force.
absl::Status RefuseUnlessBlank(Device& device) {
  AlignedBuffer head(std::min<uint64_t>(uint64_t{1} << 20, device.size() / kBlock * kBlock));
  PULSE_RETURN_IF_ERROR(device.Read(0, head.data(), head.size()));
  if (std::any_of(head.data(), head.data() + head.size(), [](uint8_t b) { return b != 0; })) {
    return absl::AlreadyExistsError(absl::StrCat(
        device.name(), " is not blank; --force makes it a store, and loses what is there"));
  }
  return absl::OkStatus();
}

absl::Status GiveSize(const FileDevice& device, uint64_t size) {
  const int fd = device.buffered_fd();
  const std::string what = absl::StrCat("store: no ", size, " bytes for");
  constexpr char kRemedy[] = "free space on that file system, or lower --size";
  // Asked first: fallocate would take all there is before it says that it is not enough.
  struct statvfs space {};
  struct stat st {};
  if (fstatvfs(fd, &space) == 0 && fstat(fd, &st) == 0) {
    const uint64_t has = static_cast<uint64_t>(st.st_blocks) * 512;
    if (size > has && (size - has) / space.f_frsize > space.f_bavail) {
      return ErrnoError(ENOSPC, what, device.name(), kRemedy);
    }
  }
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return ErrnoError(errno, what, device.name(), "lower --size");
  }
  // Sparse where it is not supported.
  if (fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP &&
      errno != ENOSYS) {
    return ErrnoError(errno, what, device.name(), errno == ENOSPC ? kRemedy : "");
  }
  return absl::OkStatus();
}

absl::Status CreateOn(FileDevice& device, bool existed, const CreateOptions& options) {
  uint64_t size = options.size;
  if (device.is_block_device()) {
    if (size == 0) size = device.size();
    if (size > device.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(device.name(), " has ", device.size(), " bytes, fewer than --size ", size));
    }
    if (!options.force) PULSE_RETURN_IF_ERROR(RefuseUnlessBlank(device));
  } else if (existed && size == 0) {
    size = device.size();
  }
  PULSE_ASSIGN_OR_RETURN(const auto superblock, Design(device.name(), size, options));
  size = superblock.device_bytes();
  if (!device.is_block_device()) {
    PULSE_RETURN_IF_ERROR(GiveSize(device, size));
    PULSE_RETURN_IF_ERROR(device.UpdateSize());
  }
  if (options.prefill) {
    // What was a store is none while its data are overwritten.
    PULSE_RETURN_IF_ERROR(Prefill(device, size, options));
  }
  PULSE_RETURN_IF_ERROR(WriteFormat(device, superblock));
  // The size and the blocks of the file are metadata of its file system.
  return SyncFd(device.buffered_fd(), device.name());
}

absl::Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string dir = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return SyncDirectory(dir);
}

}  // namespace

absl::Status Format(Device& device, const CreateOptions& options) {
  PULSE_ASSIGN_OR_RETURN(
      const auto superblock,
      Design(device.name(), options.size == 0 ? device.size() : options.size, options));
  return WriteFormat(device, superblock);
}

absl::Status Create(const std::string& path, const CreateOptions& options) {
  struct stat st {};
  const bool existed = stat(path.c_str(), &st) == 0;
  const bool regular = existed && S_ISREG(st.st_mode);
  if (regular && st.st_size != 0 && !options.force) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists; --force makes it a store, and loses what is there"));
  }
  if ((!existed || regular) && options.size == 0 && (!existed || st.st_size == 0)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a new store needs its size: --size"));
  }
  if (!existed) {
    // What cannot be is found out before there is a file.
    PULSE_RETURN_IF_ERROR(Design(path, options.size, options).status());
    UniqueFd fd(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0640));
    if (!fd.valid()) return ErrnoError(errno, "store: cannot create", path);
  }
  auto device = FileDevice::Open(path, /*read_only=*/false);
  absl::Status status = device.status();
  if (status.ok()) status = CreateOn(**device, existed, options);
  if (status.ok() && !existed) status = SyncDirectoryOf(path);
  if (!status.ok() && !existed) unlink(path.c_str());
  return status;
}

}  // namespace pulse::store
