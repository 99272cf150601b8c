#include "services/lsm/placement/task_wire.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse::lsm {
namespace {

constexpr uint32_t kMagic = 0x32545350;  // "PST2"
constexpr uint64_t kManual = 1;
constexpr uint64_t kUrgent = 2;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

void PutNumber(uint64_t n, std::string* out) {
  out->append(reinterpret_cast<const char*>(&n), sizeof(n));
}

void PutString(const std::string& s, std::string* out) {
  PutNumber(s.size(), out);
  out->append(s);
}

bool TakeNumber(absl::string_view* bytes, uint64_t* n) {
  if (bytes->size() < sizeof(*n)) return false;
  std::memcpy(n, bytes->data(), sizeof(*n));
  bytes->remove_prefix(sizeof(*n));
  return true;
}

bool TakeString(absl::string_view* bytes, std::string* out) {
  uint64_t n = 0;
  if (!TakeNumber(bytes, &n) || n > bytes->size()) return false;
  out->assign(bytes->data(), n);
  bytes->remove_prefix(n);
  return true;
}

// An absolute path without "..", as the host gives it.
bool IsPlainPath(const std::string& path) {
  if (path.empty() || path[0] != '/' || path.find('\0') != std::string::npos) return false;
  return ("/" + path + "/").find("/../") == std::string::npos;
}

}  // namespace

bool IsInTaskDirectory(const std::string& path) {
  return absl::StrContains(path, absl::StrCat("/", kTaskDirectory, "/"));
}

std::string EncodeTask(const TaskRequest& request) {
  std::string out(reinterpret_cast<const char*>(&kMagic), sizeof(kMagic));
  PutString(request.db, &out);
  PutString(request.output_dir, &out);
  PutString(request.column_family, &out);
  PutString(request.input, &out);
  PutString(request.version, &out);
  PutNumber(request.device, &out);
  PutNumber(request.inode, &out);
  PutNumber((request.manual ? kManual : 0) | (request.urgent ? kUrgent : 0), &out);
  return out;
}

absl::StatusOr<TaskRequest> DecodeTask(absl::string_view bytes) {
  uint32_t magic = 0;
  if (bytes.size() >= sizeof(magic)) std::memcpy(&magic, bytes.data(), sizeof(magic));
  // The last byte is the version: another release's, which it will be for every compaction.
  if (magic != kMagic && ((magic ^ kMagic) & 0x00ffffff) == 0) {
    return ErrnoError(EOPNOTSUPP, "reading", "the request of a compaction",
                      "run host and agent from the same release");
  }
  if (magic != kMagic) return absl::InvalidArgumentError("not the request of a compaction");
  bytes.remove_prefix(sizeof(magic));
  TaskRequest r;
  uint64_t flags = 0;
  if (!TakeString(&bytes, &r.db) || !TakeString(&bytes, &r.output_dir) ||
      !TakeString(&bytes, &r.column_family) || !TakeString(&bytes, &r.input) ||
      !TakeString(&bytes, &r.version) || !TakeNumber(&bytes, &r.device) ||
      !TakeNumber(&bytes, &r.inode) || !TakeNumber(&bytes, &flags) || !bytes.empty()) {
    return absl::InvalidArgumentError("the request of a compaction is cut short or too long");
  }
  r.manual = (flags & kManual) != 0;
  r.urgent = (flags & kUrgent) != 0;
  if (!IsPlainPath(r.db) || !IsPlainPath(r.output_dir) ||
      r.output_dir.compare(0, r.db.size() + 1, r.db + "/") != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a compaction of \"", r.db, "\" cannot put its outputs into \"", r.output_dir,
                     "\": both must be absolute, and the second below the first"));
  }
  return r;
}

absl::StatusOr<UniqueFd> WriteTask(const TaskRequest& request) {
  const std::string bytes = EncodeTask(request);
  if (bytes.size() > kMaxTaskBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a compaction's request of ", bytes.size(), " bytes is too long to pass on"));
  }
  UniqueFd fd(memfd_create("pulse-task", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoError(errno, "creating", "memory for a compaction's request");
  PULSE_RETURN_IF_ERROR(WriteAll(fd.get(), bytes, "writing", "a compaction's request"));
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return ErrnoError(errno, "sealing", "a compaction's request");
  }
  return fd;
}

absl::StatusOr<TaskRequest> ReadTask(int fd) {
  struct stat info;
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(fd, &info) != 0) {
    return absl::InvalidArgumentError("a compaction's request must come in a sealed memfd");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > kMaxTaskBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a compaction's request of ", size, " bytes is too long"));
  }
  PULSE_ASSIGN_OR_RETURN(const auto bytes,
                         ReadFirst(fd, size, "reading", "a compaction's request"));
  return DecodeTask(bytes);
}

absl::Status CheckTaskFrame(const TaskFrame& frame) {
  const bool known = frame.kind >= static_cast<uint32_t>(TaskFrameKind::kBeat) &&
                     frame.kind <= static_cast<uint32_t>(TaskFrameKind::kFailed);
  if (frame.magic == kTaskFrameMagic && known && frame.length <= kMaxTaskBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the agent's answer about a compaction makes no sense");
}

}  // namespace pulse::lsm
