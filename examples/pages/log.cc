#include "examples/pages/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "examples/pages/page.h"
#include "examples/pages/wire.h"

namespace pulse::pages {
namespace {

constexpr uint32_t kFrameMagic = 0x31464750;         // "PGF1"
constexpr uint64_t kCheckpointMagic = 0x314B434750;  // "PGCK1"
constexpr char kPrefix[] = "log.";

struct FrameHeader {
  uint32_t magic;
  uint32_t bytes;  // of the records
  uint64_t first_lsn;
  uint32_t count;
  uint32_t reserved;
  uint64_t checksum;  // of the fields before, and of the records
};
static_assert(sizeof(FrameHeader) == 32);

struct CheckpointFile {
  uint64_t magic;
  uint64_t lsn;
  uint64_t pages;
  uint64_t checksum;
};

uint64_t ChecksumOf(const FrameHeader& h, std::string_view records) {
  const uint64_t seed =
      Checksum({reinterpret_cast<const char*>(&h), offsetof(FrameHeader, checksum)}, kFrameMagic);
  return Checksum(records, seed);
}
uint64_t ChecksumOf(const CheckpointFile& c) {
  return Checksum({reinterpret_cast<const char*>(&c), offsetof(CheckpointFile, checksum)}, 1);
}

absl::StatusOr<std::string> Contents(const std::string& path) {
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "opening", path);
  struct stat st;
  if (fstat(fd.get(), &st) != 0) return ErrnoError(errno, "examining", path);
  return ReadFirst(fd.get(), static_cast<uint64_t>(st.st_size), "reading", path);
}

absl::StatusOr<std::vector<uint64_t>> FilesIn(const std::string& directory) {
  std::vector<uint64_t> files;
  DIR* const dir = opendir(directory.c_str());
  if (dir == nullptr) return ErrnoError(errno, "opening", directory);
  while (const dirent* e = readdir(dir)) {
    if (std::strncmp(e->d_name, kPrefix, sizeof(kPrefix) - 1) != 0) continue;
    files.push_back(std::strtoull(e->d_name + sizeof(kPrefix) - 1, nullptr, 10));
  }
  closedir(dir);
  std::sort(files.begin(), files.end());
  return files;
}

// The whole frame that `bytes` begin with; its size, or 0.
size_t TakeFrame(std::string_view bytes, Frame* frame) {
  FrameHeader h;
  if (bytes.size() < sizeof(h)) return 0;
  std::memcpy(&h, bytes.data(), sizeof(h));
  if (h.magic != kFrameMagic || h.bytes > bytes.size() - sizeof(h) || h.count == 0) return 0;
  const std::string_view records = bytes.substr(sizeof(h), h.bytes);
  if (h.checksum != ChecksumOf(h, records)) return 0;
  frame->first_lsn = h.first_lsn;
  frame->count = h.count;
  frame->records = std::string(records);
  return sizeof(h) + h.bytes;
}

}  // namespace

std::string Log::PathOf(uint64_t first_lsn) const {
  char number[24];
  std::snprintf(number, sizeof(number), "%020llu", static_cast<unsigned long long>(first_lsn));
  return absl::StrCat(directory_, "/", kPrefix, number);
}

absl::StatusOr<std::unique_ptr<Log>> Log::Open(const std::string& directory, uint64_t after,
                                               uint64_t file_bytes,
                                               const std::function<void(Frame)>& told) {
  std::unique_ptr<Log> log(new Log(directory, file_bytes));
  log->next_lsn_ = after + 1;
  if (absl::Status st = log->Recover(after, told); !st.ok()) return st;
  return log;
}

absl::Status Log::Recover(uint64_t after, const std::function<void(Frame)>& told) {
  PULSE_ASSIGN_OR_RETURN(files_, FilesIn(directory_));
  if (files_.empty()) return Begin(next_lsn_);
  if (files_.front() > after + 1) {
    return absl::DataLossError(absl::StrCat("pages: the log in ", directory_, " begins with LSN ",
                                            files_.front(), ", behind the checkpoint at ", after));
  }
  next_lsn_ = files_.front();
  for (size_t i = 0; i < files_.size(); ++i) {
    PULSE_RETURN_IF_ERROR(RecoverFile(files_[i], i + 1 == files_.size(), after, told));
  }
  if (next_lsn_ <= after) {
    return absl::DataLossError(absl::StrCat("pages: the log in ", directory_, " ends at LSN ",
                                            next_lsn_ - 1, ", before the checkpoint at ", after));
  }
  return absl::OkStatus();
}

absl::Status Log::RecoverFile(uint64_t first, bool last, uint64_t after,
                              const std::function<void(Frame)>& told) {
  const std::string path = PathOf(first);
  if (first != next_lsn_) {
    return absl::DataLossError(absl::StrCat("pages: the log lacks records ", next_lsn_, " to ",
                                            first - 1, ", before ", path));
  }
  PULSE_ASSIGN_OR_RETURN(const auto bytes, Contents(path));
  std::vector<Frame> frames;
  size_t good = 0;
  for (Frame frame; true;) {
    const size_t n = TakeFrame(std::string_view(bytes).substr(good), &frame);
    if (n == 0 || frame.first_lsn != next_lsn_) break;
    good += n;
    next_lsn_ = frame.last_lsn() + 1;
    if (frame.last_lsn() > after) frames.push_back(std::move(frame));
  }
  if (good < bytes.size() && !last) {
    return absl::DataLossError(absl::StrCat("pages: ", path, " is damaged at byte ", good));
  }
  if (last) {
    fd_ = OpenFile(path, O_RDWR);
    if (!fd_.valid()) return ErrnoError(errno, "opening", path);
    if (ftruncate(fd_.get(), static_cast<off_t>(good)) != 0) {
      return ErrnoError(errno, "cutting", path);
    }
    PULSE_RETURN_IF_ERROR(SyncFd(fd_.get(), path));
    if (lseek(fd_.get(), 0, SEEK_END) < 0) return ErrnoError(errno, "seeking in", path);
    bytes_ = good;
  }
  for (Frame& f : frames) told(std::move(f));
  return absl::OkStatus();
}

absl::Status Log::Begin(uint64_t first_lsn) {
  const std::string path = PathOf(first_lsn);
  fd_ = OpenFile(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (!fd_.valid()) return ErrnoError(errno, "creating", path);
  PULSE_RETURN_IF_ERROR(SyncDirectory(directory_));
  bytes_ = 0;
  const std::lock_guard lock(mu_);
  if (files_.empty() || files_.back() != first_lsn) files_.push_back(first_lsn);
  return absl::OkStatus();
}

absl::Status Log::Append(Frame* frame) {
  PULSE_RETURN_IF_ERROR(failed_);
  if (bytes_ >= file_bytes_) {
    // What the old file has must not be less durable than the new one.
    PULSE_RETURN_IF_ERROR(Sync());
    failed_ = Begin(next_lsn_);
    PULSE_RETURN_IF_ERROR(failed_);
  }
  frame->first_lsn = next_lsn_;
  FrameHeader h{kFrameMagic,
                static_cast<uint32_t>(frame->records.size()),
                frame->first_lsn,
                frame->count,
                0,
                0};
  h.checksum = ChecksumOf(h, frame->records);
  std::string bytes(reinterpret_cast<const char*>(&h), sizeof(h));
  bytes += frame->records;
  failed_ = WriteAll(fd_.get(), absl::string_view(bytes.data(), bytes.size()), "writing",
                     directory_ + "/log");
  PULSE_RETURN_IF_ERROR(failed_);
  bytes_ += bytes.size();
  next_lsn_ += frame->count;
  return absl::OkStatus();
}

absl::Status Log::Sync() {
  PULSE_RETURN_IF_ERROR(failed_);
  while (fdatasync(fd_.get()) != 0) {
    if (errno == EINTR) continue;
    failed_ = ErrnoError(errno, "syncing", directory_ + "/log");
    return failed_;
  }
  return absl::OkStatus();
}

absl::Status Log::Truncate(uint64_t lsn) {
  const std::lock_guard lock(mu_);
  while (files_.size() > 1 && files_[1] <= lsn + 1) {
    const std::string path = PathOf(files_.front());
    if (unlink(path.c_str()) != 0) return ErrnoError(errno, "removing", path);
    files_.erase(files_.begin());
  }
  return absl::OkStatus();
}

absl::Status SaveCheckpoint(const std::string& directory, const Checkpoint& checkpoint) {
  CheckpointFile c{kCheckpointMagic, checkpoint.lsn, checkpoint.pages, 0};
  c.checksum = ChecksumOf(c);
  const std::string path = directory + "/checkpoint";
  const absl::string_view bytes(reinterpret_cast<const char*>(&c), sizeof(c));
  return ReplaceFile(path, path + ".new", 0644, bytes, [](int) { return absl::OkStatus(); });
}

absl::StatusOr<Checkpoint> LoadCheckpoint(const std::string& directory) {
  const std::string path = directory + "/checkpoint";
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    return absl::NotFoundError("no checkpoint in " + directory);
  }
  PULSE_ASSIGN_OR_RETURN(const auto bytes, Contents(path));
  CheckpointFile c;
  if (bytes.size() == sizeof(c)) {
    std::memcpy(&c, bytes.data(), sizeof(c));
    if (c.magic == kCheckpointMagic && c.checksum == ChecksumOf(c))
      return Checkpoint{c.lsn, c.pages};
  }
  return absl::DataLossError("pages: the checkpoint " + path + " is damaged");
}

}  // namespace pulse::pages
