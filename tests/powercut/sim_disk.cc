#include "powercut/sim_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "powercut/real_calls.h"

namespace pulse::powercut {
namespace {

constexpr auto kDelay = std::chrono::milliseconds(30);
constexpr size_t kBlock = 4096;

int Fail(int err) {
  errno = err;
  return -1;
}

// Half of a transfer. What looks like direct I/O ends on a block's boundary, as on a device:
// RocksDB takes a direct read that ends elsewhere for the end of the file.
size_t Half(const void* data, size_t n, off_t offset) {
  const auto aligned = [](uint64_t x) { return x % kBlock == 0; };
  if (aligned(n) && aligned(static_cast<uint64_t>(offset)) &&
      aligned(reinterpret_cast<uintptr_t>(data))) {
    return std::max(n / 2 / kBlock * kBlock, kBlock);
  }
  return std::max<size_t>(n / 2, 1);
}

}  // namespace

std::atomic<bool> SimDisk::active_{false};
std::atomic<uint32_t> SimDisk::table_[SimDisk::kMaxDescriptors];

SimDisk& SimDisk::Get() {
  static SimDisk* const disk = new SimDisk;  // outlives every thread
  return *disk;
}

void SimDisk::SetNode(int fd, int64_t node) {
  if (fd >= 0 && fd < kMaxDescriptors) {
    table_[fd].store(static_cast<uint32_t>(node + 1), std::memory_order_release);
  } else if (fd >= kMaxDescriptors) {
    abort();  // the harness would silently miss writes
  }
}

void SimDisk::Start(const std::string& root, const SimDiskOptions& options) {
  std::lock_guard lock(mu_);
  root_ = root.ends_with('/') ? root : root + "/";
  options_ = options;
  rng_.seed(options.seed);
  nodes_.clear();
  log_.clear();
  fault_ = {};
  fault_hits_ = 0;
  fault_files_.clear();
  counts_ = {};
  nodes_.push_back({true, FileClass::kDirectory, root, {}});
  Adopt(root, kRootNode);
  for (auto& slot : table_) slot.store(0, std::memory_order_relaxed);
  active_.store(true, std::memory_order_release);
}

OpLog SimDisk::Stop() {
  active_.store(false, std::memory_order_release);
  std::lock_guard lock(mu_);
  for (auto& slot : table_) slot.store(0, std::memory_order_relaxed);
  return std::move(log_);
}

// Takes what is there already, and calls it durable.
void SimDisk::Adopt(const std::string& path, NodeId dir) {
  DIR* const d = opendir(path.c_str());
  if (d == nullptr) return;
  while (const dirent* e = readdir(d)) {
    const std::string name = e->d_name;
    if (name == "." || name == "..") continue;
    const std::string child = path + "/" + name;
    const bool is_dir = e->d_type == DT_DIR;
    const NodeId node = NewNode(is_dir, child, name);
    nodes_[dir].entries[name] = node;
    Op& op = Add(is_dir ? OpKind::kMakeDir : OpKind::kCreate);
    op.dir = dir;
    op.name = name;
    op.node = node;
    if (is_dir) {
      Adopt(child, node);
      continue;
    }
    const int fd = real::Open(child.c_str(), O_RDONLY | O_CLOEXEC, 0);
    std::string data;
    char buffer[1 << 16];
    for (ssize_t n; fd >= 0 && (n = real::Read(fd, buffer, sizeof(buffer))) > 0;) {
      data.append(buffer, n);
    }
    if (fd >= 0) real::Close(fd);
    Op& write = Add(OpKind::kWrite);
    write.node = node;
    write.data = std::move(data);
    const size_t begin = log_.size();
    Add(OpKind::kSyncBegin).node = node;
    Op& end = Add(OpKind::kSyncEnd);
    end.node = node;
    end.offset = begin;
  }
  closedir(d);
  const size_t begin = log_.size();
  Add(OpKind::kSyncBegin).node = dir;
  Op& end = Add(OpKind::kSyncEnd);
  end.node = dir;
  end.offset = begin;
}

size_t SimDisk::position() {
  std::lock_guard lock(mu_);
  return log_.size();
}

void SimDisk::SetFault(const Fault& fault) {
  std::lock_guard lock(mu_);
  fault_ = fault;
  fault_hits_ = 0;
  fault_thread_.clear();
  fault_files_.clear();
  counts_ = {};
}

void SimDisk::ClearFault() {
  std::lock_guard lock(mu_);
  fault_ = {};
}

int SimDisk::fault_hits() {
  std::lock_guard lock(mu_);
  return fault_hits_;
}

std::string SimDisk::fault_thread() {
  std::lock_guard lock(mu_);
  return fault_thread_;
}

std::set<std::string> SimDisk::fault_files() {
  std::lock_guard lock(mu_);
  return fault_files_;
}

CallCount SimDisk::counts() {
  std::lock_guard lock(mu_);
  return counts_;
}

SimDisk::Verdict SimDisk::Judge(Call call, FileClass file_class, const std::string& path) {
  const int n = ++counts_.at(call, file_class);
  if (fault_.effect == Effect::kNone || call != fault_.at.call ||
      file_class != fault_.at.file_class || n < fault_.at.nth ||
      n >= fault_.at.nth + fault_.calls) {
    return {};
  }
  if (++fault_hits_ == 1) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    fault_thread_ = name;
  }
  fault_files_.insert(path.substr(path.rfind('/') + 1));
  return {fault_.effect, fault_.err};
}

size_t SimDisk::Shortened(const Verdict& verdict, const void* data, size_t n, off_t offset) {
  if (verdict.effect != Effect::kShort) return n;
  const size_t half = Half(data, n, offset);
  if (half == n) --fault_hits_;  // one block of direct I/O: all or nothing
  return half;
}

void SimDisk::SleepIfDelayed(const Verdict& verdict) {
  if (verdict.effect == Effect::kDelay) {
    const int saved = errno;
    std::this_thread::sleep_for(kDelay);  // sleep: this device is slow
    errno = saved;
  }
}

bool SimDisk::Locate(const char* path, Place* place) {
  const std::string_view text = path;
  if (!text.starts_with(root_)) return false;
  std::vector<std::string> parts;
  for (size_t at = root_.size(); at < text.size();) {
    const size_t end = std::min(text.find('/', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    if (!part.empty() && part != ".") parts.emplace_back(part);
    at = end + 1;
  }
  if (parts.empty()) {
    *place = {kRootNode, "", kRootNode};
    return true;
  }
  NodeId dir = kRootNode;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto it = nodes_[dir].entries.find(parts[i]);
    if (it == nodes_[dir].entries.end()) return false;  // the real call will say ENOENT
    dir = it->second;
  }
  const auto it = nodes_[dir].entries.find(parts.back());
  *place = {dir, parts.back(), it == nodes_[dir].entries.end() ? -1 : int64_t{it->second}};
  return true;
}

NodeId SimDisk::NewNode(bool is_dir, const std::string& path, const std::string& name) {
  nodes_.push_back({is_dir, is_dir ? FileClass::kDirectory : ClassOf(name), path, {}});
  return static_cast<NodeId>(nodes_.size() - 1);
}

Op& SimDisk::Add(OpKind kind) {
  if (!options_.record) {
    unrecorded_ = Op{};
    return unrecorded_;
  }
  log_.emplace_back();
  log_.back().kind = kind;
  return log_.back();
}

int SimDisk::Open(const char* path, int flags, mode_t mode) {
  Verdict verdict;
  int fd;
  {
    std::lock_guard lock(mu_);
    Place place;
    if (!active() || !Locate(path, &place)) {
      fd = real::Open(path, flags, mode);
      SetNode(fd, -1);
      return fd;
    }
    const bool creates = (flags & O_CREAT) != 0;
    verdict = Judge(creates ? Call::kCreate : Call::kOpen,
                    place.node >= 0 ? nodes_[place.node].file_class : ClassOf(place.name), path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
    // Direct I/O is granted and done through the page cache: the root may be a tmpfs.
    fd = real::Open(path, flags & ~O_DIRECT, mode);
    if (fd < 0) return fd;
    if (place.node < 0) {
      const NodeId node = NewNode(false, path, place.name);
      nodes_[place.dir].entries[place.name] = node;
      Op& op = Add(OpKind::kCreate);
      op.dir = place.dir;
      op.name = place.name;
      op.node = node;
      place.node = node;
    } else if ((flags & O_TRUNC) != 0) {
      Add(OpKind::kTruncate).node = static_cast<NodeId>(place.node);
    }
    SetNode(fd, place.node);
  }
  SleepIfDelayed(verdict);
  return fd;
}

void SimDisk::Forget(int fd) {
  std::lock_guard lock(mu_);
  SetNode(fd, -1);
}

int SimDisk::Close(int fd) {
  Verdict verdict;
  int rc;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    SetNode(fd, -1);
    rc = real::Close(fd);
    if (node < 0) return rc;
    verdict = Judge(Call::kClose, nodes_[node].file_class, nodes_[node].path);
    // Linux closes the descriptor whatever it says.
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  SleepIfDelayed(verdict);
  return rc;
}

ssize_t SimDisk::Read(int fd, void* data, size_t n, off_t offset) {
  Verdict verdict;
  ssize_t rc;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    if (node >= 0) verdict = Judge(Call::kRead, nodes_[node].file_class, nodes_[node].path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
    n = Shortened(verdict, data, n, offset);
    rc = offset < 0 ? real::Read(fd, data, n) : real::Pread(fd, data, n, offset);
  }
  SleepIfDelayed(verdict);
  return rc;
}

ssize_t SimDisk::Write(int fd, const void* data, size_t n, off_t offset) {
  Verdict verdict;
  ssize_t rc;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    if (node >= 0) verdict = Judge(Call::kWrite, nodes_[node].file_class, nodes_[node].path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
    n = Shortened(verdict, data, n, offset);
    rc = offset < 0 ? real::Write(fd, data, n) : real::Pwrite(fd, data, n, offset);
    if (rc > 0 && node >= 0) {
      Op& op = Add(OpKind::kWrite);
      op.node = static_cast<NodeId>(node);
      op.offset = offset < 0 ? lseek(fd, 0, SEEK_CUR) - rc : offset;
      if (options_.record) op.data.assign(static_cast<const char*>(data), rc);
    }
  }
  SleepIfDelayed(verdict);
  return rc;
}

void SimDisk::RecordWrite(int fd, const char* data, size_t n, uint64_t offset) {
  std::lock_guard lock(mu_);
  const int64_t node = NodeOf(fd);
  if (node < 0) return;
  Op& op = Add(OpKind::kWrite);
  op.node = static_cast<NodeId>(node);
  op.offset = offset;
  op.data.assign(data, n);
}

int SimDisk::Fallocate(int fd, int mode, off_t offset, off_t length) {
  Verdict verdict;
  int rc;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    if (node >= 0) verdict = Judge(Call::kAllocate, nodes_[node].file_class, nodes_[node].path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
    rc = real::Fallocate(fd, mode, offset, length);
    if (rc == 0 && node >= 0 && (mode & FALLOC_FL_KEEP_SIZE) == 0) {
      Op& op = Add(OpKind::kAllocate);
      op.node = static_cast<NodeId>(node);
      op.length = offset + length;
    }
    // RocksDB punches holes only beyond the end of a file, which changes nothing here.
  }
  SleepIfDelayed(verdict);
  return rc;
}

int SimDisk::Ftruncate(int fd, off_t length) {
  Verdict verdict;
  int rc;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    if (node >= 0) verdict = Judge(Call::kTruncate, nodes_[node].file_class, nodes_[node].path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
    rc = real::Ftruncate(fd, length);
    if (rc == 0 && node >= 0) {
      Op& op = Add(OpKind::kTruncate);
      op.node = static_cast<NodeId>(node);
      op.length = length;
    }
  }
  SleepIfDelayed(verdict);
  return rc;
}

void SimDisk::RecordSize(OpKind kind, int fd, uint64_t length) {
  std::lock_guard lock(mu_);
  const int64_t node = NodeOf(fd);
  if (node < 0) return;
  Op& op = Add(kind);
  op.node = static_cast<NodeId>(node);
  op.length = length;
}

void SimDisk::RecordTruncate(int fd, uint64_t length) { RecordSize(OpKind::kTruncate, fd, length); }
void SimDisk::RecordAllocate(int fd, uint64_t length) { RecordSize(OpKind::kAllocate, fd, length); }

int SimDisk::Truncate(const char* path, off_t length) {
  std::lock_guard lock(mu_);
  Place place;
  const bool known = Locate(path, &place) && place.node >= 0;
  if (known) {
    const Node& node = nodes_[place.node];
    const Verdict verdict = Judge(Call::kTruncate, node.file_class, path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  const int rc = real::Truncate(path, length);
  if (rc == 0 && known) {
    Op& op = Add(OpKind::kTruncate);
    op.node = static_cast<NodeId>(place.node);
    op.length = length;
  }
  return rc;
}

SimDisk::SyncTicket SimDisk::BeginSync(int fd) {
  int micros = 0;
  SyncTicket ticket;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    if (node < 0) return ticket;
    const FileClass c = nodes_[node].file_class;
    ticket = {static_cast<NodeId>(node), log_.size(), !options_.lie[static_cast<int>(c)]};
    Add(OpKind::kSyncBegin).node = ticket.node;
    if (options_.max_sync_micros > 0) {
      const bool slow = (c == FileClass::kTable || c == FileClass::kBlob) && rng_() % 2 == 0;
      micros = static_cast<int>(
          rng_() % (slow ? options_.max_sync_micros : options_.max_sync_micros / 10 + 1));
    }
  }
  // sleep: a sync takes its time
  if (micros > 0) std::this_thread::sleep_for(std::chrono::microseconds(micros));
  return ticket;
}

void SimDisk::EndSync(const SyncTicket& ticket) {
  if (!ticket.counts) return;
  std::lock_guard lock(mu_);
  Op& op = Add(OpKind::kSyncEnd);
  op.node = ticket.node;
  op.offset = ticket.begin;
}

int SimDisk::Sync(int fd) {
  Verdict verdict;
  {
    std::lock_guard lock(mu_);
    const int64_t node = NodeOf(fd);
    if (node >= 0) verdict = Judge(Call::kSync, nodes_[node].file_class, nodes_[node].path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  SleepIfDelayed(verdict);
  EndSync(BeginSync(fd));
  return 0;
}

int SimDisk::SyncFileRange(int fd, off_t offset, off_t length, unsigned flags) {
  std::lock_guard lock(mu_);
  const int64_t node = NodeOf(fd);
  if (node < 0) return real::SyncFileRange(fd, offset, length, flags);
  if (flags == 0 && length == 0) return 0;  // RocksDB's question whether there is such a call
  // It promises nothing, so nothing is recorded.
  const Verdict verdict = Judge(Call::kRangeSync, nodes_[node].file_class, nodes_[node].path);
  return verdict.effect == Effect::kError ? Fail(verdict.err) : 0;
}

int SimDisk::Rename(const char* from, const char* to) {
  std::lock_guard lock(mu_);
  Place a;
  Place b;
  const bool known = Locate(from, &a) && a.node >= 0 && Locate(to, &b);
  if (known) {
    const Verdict verdict = Judge(Call::kRename, nodes_[a.node].file_class, from);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  const int rc = real::Rename(from, to);
  if (rc == 0 && known) {
    nodes_[a.dir].entries.erase(a.name);
    nodes_[b.dir].entries[b.name] = static_cast<NodeId>(a.node);
    Op& op = Add(OpKind::kRename);
    op.node = static_cast<NodeId>(a.node);
    op.dir = a.dir;
    op.name = a.name;
    op.to_dir = b.dir;
    op.to_name = b.name;
  }
  return rc;
}

int SimDisk::Link(const char* from, const char* to) {
  std::lock_guard lock(mu_);
  Place a;
  Place b;
  const bool known = Locate(from, &a) && a.node >= 0 && Locate(to, &b);
  if (known) {
    const Verdict verdict = Judge(Call::kLink, nodes_[a.node].file_class, from);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  const int rc = real::Link(from, to);
  if (rc == 0 && known) {
    nodes_[b.dir].entries[b.name] = static_cast<NodeId>(a.node);
    Op& op = Add(OpKind::kLink);
    op.node = static_cast<NodeId>(a.node);
    op.dir = b.dir;
    op.name = b.name;
  }
  return rc;
}

int SimDisk::Unlink(const char* path, bool directory) {
  std::lock_guard lock(mu_);
  Place place;
  const bool known = Locate(path, &place) && place.node >= 0;
  if (known) {
    const Verdict verdict = Judge(Call::kUnlink, nodes_[place.node].file_class, path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  const int rc = directory ? real::Rmdir(path) : real::Unlink(path);
  if (rc == 0 && known) {
    nodes_[place.dir].entries.erase(place.name);
    Op& op = Add(OpKind::kUnlink);
    op.node = static_cast<NodeId>(place.node);
    op.dir = place.dir;
    op.name = place.name;
  }
  return rc;
}

int SimDisk::Mkdir(const char* path, mode_t mode) {
  std::lock_guard lock(mu_);
  Place place;
  const bool known = Locate(path, &place) && place.node < 0;
  if (known) {
    const Verdict verdict = Judge(Call::kMakeDir, FileClass::kDirectory, path);
    if (verdict.effect == Effect::kError) return Fail(verdict.err);
  }
  const int rc = real::Mkdir(path, mode);
  if (rc == 0 && known) {
    const NodeId node = NewNode(true, path, place.name);
    nodes_[place.dir].entries[place.name] = node;
    Op& op = Add(OpKind::kMakeDir);
    op.dir = place.dir;
    op.name = place.name;
    op.node = node;
  }
  return rc;
}

int SimDisk::FcntlDuplicate(int fd, int command, int lowest) {
  std::lock_guard lock(mu_);
  const int64_t node = NodeOf(fd);
  if (node >= 0) {
    const Verdict v = Judge(Call::kDuplicate, nodes_[node].file_class, nodes_[node].path);
    if (v.effect == Effect::kError) return Fail(v.err);
  }
  const int copy = real::FcntlDuplicate(fd, command, lowest);
  SetNode(copy, node);
  return copy;
}

int SimDisk::Dup3(int fd, int to, int flags) {
  std::lock_guard lock(mu_);
  const int copy = real::Dup3(fd, to, flags);
  if (copy >= 0) SetNode(copy, NodeOf(fd));
  return copy;
}

}  // namespace pulse::powercut
