#include "services/kv/store_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/kv/core/hash.h"
#include "services/kv/core/partition.h"

namespace pulse::kv {
namespace {

constexpr uint64_t kMagic = 0x31564b4553'4c5550;  // "PULSEKV1"
constexpr uint64_t kBeingMade = kMagic - 1;
constexpr uint64_t kVersion = 2;  // of what lies where, and means what

// Without a cluster, and with all slots, as it was before clusters had several processes.
uint64_t DivisionBy(const redis::SlotRange* slots) {
  if (slots == nullptr) return 0;
  return 1 | static_cast<uint64_t>(slots->first) << 16 |
         static_cast<uint64_t>(redis::kSlots - 1 - slots->last) << 32;
}

// A first page of zeros, and nothing else: left by a server of before there was a mark.
bool IsBlank(int fd, const struct stat& facts) {
  if (static_cast<uint64_t>(facts.st_size) < kPageBytes ||
      static_cast<uint64_t>(facts.st_blocks) * 512 > kPageBytes ||
      lseek(fd, kPageBytes, SEEK_DATA) >= 0 || errno != ENXIO) {
    return false;
  }
  std::string page(kPageBytes, '\1');
  const auto n = ReadAt(fd, page.data(), page.size(), 0, "reading", "");
  return n.ok() && *n == page.size() && page.find_first_not_of('\0') == std::string::npos;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StoreFile>> StoreFile::Open(const std::string& path,
                                                           uint64_t memory_bytes, int partitions,
                                                           const redis::SlotRange* slots) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd fd(open(path.c_str(), kFlags | O_EXCL, 0600));
  const bool is_new = fd.valid();
  if (!is_new && errno == EEXIST) fd.reset(open(path.c_str(), kFlags, 0600));
  if (!fd.valid()) {
    return ErrnoError(errno, "opening", path,
                      errno == ELOOP    ? "the path itself has to be a regular file, and no link"
                      : errno == ENOENT ? "make its directory first, or choose another path"
                                        : "");
  }
  std::unique_ptr<StoreFile> file(new StoreFile(std::move(fd), path));
  if (const absl::Status fit = file->CheckPlace(); !fit.ok()) {
    // No other server can have come to use it there.
    if (is_new) unlink(path.c_str());
    return fit;
  }
  PULSE_RETURN_IF_ERROR(file->Lock());
  Header mine{};
  mine.magic = kMagic;
  mine.version = kVersion;
  mine.layout = Partition::FileLayout();
  mine.memory_bytes = memory_bytes;
  mine.partitions = static_cast<uint64_t>(partitions);
  mine.by_slot = DivisionBy(slots);
  mine.hash_seed = HashSeed();
  file->partition_bytes_ = Partition::FileBytes(memory_bytes / static_cast<uint64_t>(partitions));
  if (const absl::Status mapped = file->Map(mine); !mapped.ok()) {
    file->RemoveUnused(is_new);
    return mapped;
  }
  return file;
}

absl::Status StoreFile::CheckPlace() {
  struct stat facts {};
  struct statfs system {};
  if (fstat(fd_.get(), &facts) != 0 || fstatfs(fd_.get(), &system) != 0) {
    return ErrnoError(errno, "asking about", path_);
  }
  if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": the memory file has to be a regular file of this user's, with mode 0600"));
  }
  if (system.f_type != TMPFS_MAGIC) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_,
                     ": the memory file has to be on a tmpfs, as /dev/shm is; on a disk each "
                     "change of a key would be written there"));
  }
  return absl::OkStatus();
}

absl::Status StoreFile::Lock() {
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": another server has this memory file; give another one"));
  }
  return absl::OkStatus();
}

// One that Open has made; or that has no bytes, and nobody misses it.
void StoreFile::RemoveUnused(bool is_new) {
  struct stat facts {};
  if ((is_new && !existed_) || (fstat(fd_.get(), &facts) == 0 && facts.st_size == 0))
    unlink(path_.c_str());
}

absl::Status StoreFile::Map(const Header& mine) {
  struct stat facts {};
  struct statfs system {};
  Header there{};
  if (fstat(fd_.get(), &facts) != 0 || fstatfs(fd_.get(), &system) != 0 ||
      pread(fd_.get(), &there, sizeof(there), 0) < 0) {
    return ErrnoError(errno, "reading", path_);
  }
  existed_ = there.magic == kMagic;
  if (!existed_ && facts.st_size != 0 && there.magic != kBeingMade && !IsBlank(fd_.get(), facts)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": this is no memory file; give another path"));
  }
  if (existed_ && (there.version != mine.version || there.layout != mine.layout)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": another version of PulseDB has made it; remove it to start without its keys"));
  }
  if (existed_ &&
      (there.memory_bytes != mine.memory_bytes || there.partitions != mine.partitions)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": it was made for ", there.memory_bytes >> 20, " MiB of keys and ",
        there.partitions, " threads, and this is ", mine.memory_bytes >> 20, " MiB and ",
        mine.partitions,
        "; start with the same --memory, --max-value, --threads, --shm, --udp and --agent options, "
        "of which all take of the memory, or remove it to start without its keys"));
  }
  if (existed_ && there.by_slot != mine.by_slot) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": it was made ",
        there.by_slot == 0  ? "without --cluster"
        : mine.by_slot == 0 ? "with --cluster"
                            : "for other slots of the cluster",
        ", and its keys are divided accordingly; start the same way, or remove it to start "
        "without its keys"));
  }
  const uint64_t has = static_cast<uint64_t>(facts.st_blocks) * 512;
  const uint64_t room =
      static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize);
  // What is there goes on also where others have filled the file system: it has no room for more.
  if (!existed_ && system.f_blocks != 0 && room + has < mine.memory_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, ": its file system has ", (room + has) >> 20, " MiB of room, and ",
                     mine.memory_bytes >> 20,
                     " MiB are needed; give less --memory, or make the "
                     "tmpfs larger (mount -o remount,size=...)"));
  }
  // What a server that did not come to Finish has left.
  if (!existed_ && ftruncate(fd_.get(), 0) != 0) return ErrnoError(errno, "emptying", path_);
  // The mark comes first: the next server begins anew where this one dies before its end.
  if (!existed_) {
    PULSE_RETURN_IF_ERROR(WriteAt(
        fd_.get(), {reinterpret_cast<const char*>(&kBeingMade), sizeof(kBeingMade)}, 0, path_));
  }
  if (!existed_ && !TakeRoom(fd_.get(), 0, kPageBytes)) {
    return ErrnoError(errno, "taking room for", path_);
  }
  // Before the partitions are opened, by a thread each.
  if (!MakeAsLong(fd_.get(), kPageBytes + mine.partitions * partition_bytes_)) {
    return ErrnoError(errno, "making longer", path_);
  }
  void* at = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (at == MAP_FAILED) return ErrnoError(errno, "mapping", path_);
  header_ = static_cast<Header*>(at);
  if (existed_) {
    SetHashSeed(there.hash_seed);
    return absl::OkStatus();
  }
  header_->version = mine.version;
  header_->layout = mine.layout;
  header_->memory_bytes = mine.memory_bytes;
  header_->partitions = mine.partitions;
  header_->by_slot = mine.by_slot;
  header_->hash_seed = mine.hash_seed;
  return absl::OkStatus();
}

void StoreFile::Finish() {
  InOrder();
  header_->magic = kMagic;
}

StoreFile::~StoreFile() {
  if (header_ != nullptr) munmap(header_, kPageBytes);
}

MemoryFile StoreFile::place(int number) const {
  return {fd_.get(), kPageBytes + static_cast<uint64_t>(number) * partition_bytes_};
}

}  // namespace pulse::kv
