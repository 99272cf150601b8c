#include "services/graph/engines/shared_mappings.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <utility>

#include "base/private_memory.h"
#include "channel/region.h"

namespace pulse::graph::engines {
namespace {

// Nobody, whatever it has open or mapped, changes such memory any more. Reserved huge pages are
// left out: touching a hole when there is none left is a SIGBUS.
bool IsSealed(int fd) {
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const int seals = fcntl(fd, F_GET_SEALS);
  struct statfs fs;
  return seals >= 0 && (seals & kAll) == kAll && fstatfs(fd, &fs) == 0 &&
         fs.f_type != HUGETLBFS_MAGIC;
}

}  // namespace

SharedMappings::Mapping SharedMappings::Find(dev_t device, ino_t inode, bool writable,
                                             uint64_t bytes) {
  const std::lock_guard lock(mu_);
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->device != device || it->inode != inode || it->writable != writable ||
        it->mapping.size < bytes) {
      continue;
    }
    Entry found = std::move(*it);
    entries_.erase(it);
    entries_.push_front(found);
    return found.mapping;
  }
  return {};
}

SharedMappings::~SharedMappings() {
  for (const Entry& entry : entries_) budget_->used -= entry.mapping.size;
}

void SharedMappings::Keep(Entry entry) {
  const std::lock_guard lock(mu_);
  if (entry.mapping.size > budget_->most) return;
  budget_->used += entry.mapping.size;
  entries_.push_front(std::move(entry));
  // Where other hosts' leave no room, not even this one stays.
  while (!entries_.empty() && (entries_.size() > kMost || budget_->used > budget_->most)) {
    budget_->used -= entries_.back().mapping.size;
    entries_.pop_back();
  }
}

SharedMappings::Mapping SharedMappings::ForReading(int fd, uint64_t bytes) {
  struct stat st;
  if (bytes == 0 || !IsSealed(fd) || fstat(fd, &st) != 0 ||
      static_cast<uint64_t>(st.st_size) < bytes) {
    return {};
  }
  if (Mapping kept = Find(st.st_dev, st.st_ino, false, bytes); kept.data != nullptr) return kept;
  void* at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED) return {};
  Mapping mapping;
  mapping.data = static_cast<char*>(at);
  mapping.size = bytes;
  mapping.owner = std::make_shared<MappedMemory>(mapping.data, Unmap{bytes});
  Keep({st.st_dev, st.st_ino, false, mapping});
  return mapping;
}

SharedMappings::Mapping SharedMappings::ForWriting(int fd, uint64_t most) {
  struct stat st;
  if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) != 0 || st.st_size == 0 ||
      static_cast<uint64_t>(st.st_size) > most) {
    return {};
  }
  if (Mapping kept = Find(st.st_dev, st.st_ino, true, static_cast<uint64_t>(st.st_size));
      kept.data != nullptr) {
    return kept;
  }
  UniqueFd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return {};
  auto region = Region::Map(std::move(own), static_cast<size_t>(st.st_size));
  if (!region.ok()) return {};  // one that could be cut under its writer, say
  auto owner = std::make_shared<Region>(*std::move(region));
  owner->Populate();
  Mapping mapping;
  mapping.data = owner->data();
  mapping.size = static_cast<uint64_t>(st.st_size);
  mapping.owner = std::move(owner);
  Keep({st.st_dev, st.st_ino, true, mapping});
  return mapping;
}

}  // namespace pulse::graph::engines
