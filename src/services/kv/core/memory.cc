#include "services/kv/core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/check.h"
#include "base/errors.h"
#include "base/file_calls.h"

namespace pulse::kv {
namespace {

constexpr char kAgentFile[] = "the agent's memory";

uint64_t WholePages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }
off_t OffsetOf(uint64_t page) { return static_cast<off_t>(page * kPageBytes); }

}  // namespace

bool TakeRoom(int fd, off_t at, off_t bytes) {
  int result;
  do {
    result = fallocate(fd, 0, at, bytes);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

bool MakeAsLong(int fd, uint64_t bytes) {
  struct stat facts {};
  const auto end = static_cast<off_t>(bytes);
  return fstat(fd, &facts) == 0 && (facts.st_size >= end || ftruncate(fd, end) == 0);
}

absl::StatusOr<Memory> Memory::Open(uint64_t limit, uint64_t reserve, uint64_t uncounted,
                                    const MemoryFile& file) {
  reserve = WholePages(reserve);
  uncounted = WholePages(uncounted);
  const uint64_t bytes = uncounted + reserve;
  // One page more, to begin at a page.
  void* at = mmap(nullptr, bytes + kPageBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return ErrnoError(
        errno, "reserving", absl::StrCat(bytes, " bytes of addresses"),
        "give less memory (memory_bytes or --memory), or raise the limit of addresses (ulimit -v)");
  }
  auto begin = reinterpret_cast<uintptr_t>(at);
  const uintptr_t aligned = WholePages(begin);
  if (aligned > begin) munmap(at, aligned - begin);
  const size_t tail = begin + kPageBytes - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  auto* mapping = reinterpret_cast<char*>(aligned);
  Memory memory(mapping, uncounted, reserve, limit / kPageBytes, file);
  if (file.is_given()) {
    // Only what is written takes memory.
    if (!MakeAsLong(file.fd, file.offset + bytes)) {
      return ErrnoError(errno, "making longer", "the memory file");
    }
    if (mmap(mapping, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
             file.fd, static_cast<off_t>(file.offset)) == MAP_FAILED) {
      return ErrnoError(errno, "mapping", "the memory file");
    }
    if (!TakeRoom(file.fd, static_cast<off_t>(file.offset), static_cast<off_t>(uncounted))) {
      return ErrnoError(errno, "taking room for", "the memory file",
                        "it has to be on a tmpfs with room for all of --memory");
    }
  }
  // Without huge pages it works, at more TLB misses.
  madvise(mapping + uncounted, reserve, MADV_HUGEPAGE);
  return memory;
}

Memory::Memory(Memory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      uncounted_(other.uncounted_),
      reserve_(other.reserve_),
      limit_pages_(other.limit_pages_),
      file_(other.file_),
      used_pages_(other.used_pages_),
      taken_(std::move(other.taken_)),
      agent_(std::move(other.agent_)),
      agent_pages_(other.agent_pages_) {}

Memory::~Memory() {
  if (mapping_ != nullptr) munmap(mapping_, uncounted_ + reserve_);
}

void Memory::Drop(char* first, uint64_t bytes) {
  if (file_.is_given()) {
    PULSE_CHECK(madvise(first, bytes, MADV_REMOVE) == 0);
    return;
  }
  const uint64_t page = PageOf(first);
  const uint64_t end = page + bytes / kPageBytes;
  const uint64_t border = std::clamp(agent_pages_, page, end);
  // DONTNEED would leave the file its memory.
  PULSE_CHECK(madvise(first, (border - page) * kPageBytes, MADV_REMOVE) == 0);
  PULSE_CHECK(madvise(base() + border * kPageBytes, (end - border) * kPageBytes, MADV_DONTNEED) ==
              0);
  std::fill(taken_.begin() + static_cast<ptrdiff_t>(page),
            taken_.begin() + static_cast<ptrdiff_t>(end), false);
}

bool Memory::Back(char* first, uint64_t pages) {
  if (file_.is_given()) {
    const auto at = static_cast<off_t>(file_.offset) + (first - mapping_);
    refused_ = !TakeRoom(file_.fd, at, static_cast<off_t>(pages * kPageBytes));
  } else {
    const uint64_t page = PageOf(first);
    const uint64_t border = std::clamp(agent_pages_, page, page + pages);
    refused_ = border > page && !TakeRoom(agent_.get(), OffsetOf(page), OffsetOf(border - page));
    std::fill_n(taken_.begin() + static_cast<ptrdiff_t>(page), pages, true);
  }
  if (refused_) Give(first, pages);
  return !refused_;
}

void Memory::Give(char* first, uint64_t pages) {
  PULSE_CHECK(pages <= *used_pages_);
  *used_pages_ -= pages;
  Drop(first, pages * kPageBytes);
}

absl::Status Memory::MakeAgentFile() {
  UniqueFd fd(memfd_create("pulse-kv-agent", MFD_CLOEXEC));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(reserve_)) != 0) {
    return ErrnoError(errno, "making", kAgentFile,
                      "raise the limits of file sizes and open files (ulimit -f, -n), or take "
                      "another design");
  }
  agent_ = std::move(fd);
  return absl::OkStatus();
}

void Memory::PunchAgentPage(uint64_t page) {
  PULSE_CHECK(fallocate(agent_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, OffsetOf(page),
                        OffsetOf(1)) == 0);
}

// Costs no commit, so it works where the host's memory was refused.
void Memory::MapAgent(uint64_t page, uint64_t pages) {
  char* const at = base() + page * kPageBytes;
  PULSE_CHECK(mmap(at, pages * kPageBytes, PROT_READ | PROT_WRITE,
                   MAP_FIXED | MAP_NORESERVE | MAP_SHARED, agent_.get(),
                   OffsetOf(page)) != MAP_FAILED);
  madvise(at, pages * kPageBytes, MADV_HUGEPAGE);
}

absl::StatusOr<bool> Memory::MoveNext(bool to_agent) {
  const uint64_t left = to_agent ? reserve_ / kPageBytes - agent_pages_ : agent_pages_;
  if (file_.is_given() || left == 0) return false;
  if (!agent_.valid()) PULSE_RETURN_IF_ERROR(MakeAgentFile());
  uint64_t pages = 0;
  while (pages < left && !taken_[to_agent ? agent_pages_ + pages : agent_pages_ - 1 - pages]) {
    ++pages;
  }
  const bool copies = pages == 0;
  if (copies) pages = 1;
  const uint64_t page = to_agent ? agent_pages_ : agent_pages_ - pages;
  char* const at = base() + page * kPageBytes;
  absl::Status status;
  if (copies && to_agent) {
    status = WriteAt(agent_.get(), {at, kPageBytes}, page * kPageBytes, kAgentFile);
  }
  // What was copied there is mapped at once, as it would not count as resident otherwise.
  const int flags =
      MAP_FIXED | MAP_NORESERVE |
      (to_agent ? MAP_SHARED | (copies ? MAP_POPULATE : 0) : MAP_PRIVATE | MAP_ANONYMOUS);
  // What the kernel maps beside its like becomes one mapping with it, so there are few.
  if (status.ok() &&
      mmap(at, pages * kPageBytes, PROT_READ | PROT_WRITE, flags, to_agent ? agent_.get() : -1,
           to_agent ? OffsetOf(page) : 0) == MAP_FAILED) {
    status = ErrnoError(errno, "mapping", to_agent ? kAgentFile : "the host's memory");
  }
  if (!status.ok()) {
    if (copies && to_agent) PunchAgentPage(page);
    // Where commits are limited, Linux before 6.12 has nothing mapped there by now.
    if (!to_agent) MapAgent(page, pages);
    return status;
  }
  madvise(at, pages * kPageBytes, MADV_HUGEPAGE);
  if (copies && !to_agent) {
    const auto read =
        ReadAt(agent_.get(), at, kPageBytes, page * kPageBytes, "reading", kAgentFile);
    if (!read.ok()) {
      MapAgent(page, 1);
      return read.status();
    }
    PunchAgentPage(page);
  }
  agent_pages_ = to_agent ? page + pages : page;
  return true;
}

Side Memory::side() const {
  if (agent_pages_ == 0) return Side::kHost;
  return agent_pages_ == reserve_ / kPageBytes ? Side::kAgent : Side::kBoth;
}

uint64_t Memory::agent_bytes() const {
  struct stat facts {};
  if (!agent_.valid() || fstat(agent_.get(), &facts) != 0) return 0;
  return static_cast<uint64_t>(facts.st_blocks) * 512;
}

}  // namespace pulse::kv
