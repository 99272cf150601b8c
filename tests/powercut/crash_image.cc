#include "powercut/crash_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "powercut/faults.h"

namespace pulse::powercut {
namespace {

void WriteWhole(const std::string& path, const std::string& content) {
  const int fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
  size_t done = 0;
  while (fd >= 0 && done < content.size()) {
    const ssize_t n = write(fd, content.data() + done, content.size() - done);
    if (n <= 0) break;
    done += n;
  }
  if (fd < 0 || done < content.size()) {
    perror(("powercut: writing the image's " + path).c_str());
    abort();  // no verdict can be given
  }
  close(fd);
}

// RocksDB takes zeros up to the end of a log's block for padding, and reads on in the next one.
constexpr size_t kLogBlock = 32 << 10;

// Cuts `content` behind the first block whose end is zeros where `whole` has more.
void EndAtHiddenGap(const std::string& whole, std::string* content) {
  for (size_t begin = 0; begin + kLogBlock < content->size(); begin += kLogBlock) {
    const size_t end = begin + kLogBlock;
    size_t zeros = end;
    while (zeros > begin && (*content)[zeros - 1] == '\0') --zeros;
    const size_t known = std::min(end, whole.size());
    const bool hidden = zeros < known && std::any_of(whole.begin() + static_cast<ptrdiff_t>(zeros),
                                                     whole.begin() + static_cast<ptrdiff_t>(known),
                                                     [](char c) { return c != '\0'; });
    if (!hidden) continue;
    content->resize(end);
    return;
  }
}

size_t Below(std::mt19937_64* rng, size_t n) { return n == 0 ? 0 : (*rng)() % n; }

}  // namespace

CrashImage::CrashImage(const OpLog* log, std::string cache_dir)
    : log_(*log), cache_dir_(std::move(cache_dir)) {
  std::filesystem::create_directories(cache_dir_);
  NodeId nodes = 1;
  for (const Op& op : log_) nodes = std::max(nodes, op.node + 1);
  changes_.resize(nodes);
  syncs_.resize(nodes);
  is_dir_.resize(nodes, false);
  is_dir_[kRootNode] = true;
  for (size_t i = 0; i < log_.size(); ++i) {
    const Op& op = log_[i];
    switch (op.kind) {
      case OpKind::kMakeDir:
        is_dir_[op.node] = true;
        changes_[op.dir].push_back(i);
        break;
      case OpKind::kCreate:
      case OpKind::kLink:
      case OpKind::kUnlink:
        changes_[op.dir].push_back(i);
        break;
      case OpKind::kRename:
        changes_[op.dir].push_back(i);
        if (op.to_dir != op.dir) changes_[op.to_dir].push_back(i);
        break;
      case OpKind::kWrite:
      case OpKind::kTruncate:
      case OpKind::kAllocate:
        changes_[op.node].push_back(i);
        break;
      case OpKind::kSyncBegin:
        break;
      case OpKind::kSyncEnd:
        syncs_[op.node].begin_end.emplace_back(op.offset, i);
        break;
    }
  }
}

CrashImage::~CrashImage() {
  std::error_code ec;
  std::filesystem::remove_all(cache_dir_, ec);
}

// Changes with an index below the result are durable when the power is cut.
size_t CrashImage::DurableBefore(NodeId node, size_t cut) const {
  size_t before = 0;
  for (const auto& [begin, end] : syncs_[node].begin_end) {
    if (end < cut) before = std::max(before, begin);
  }
  return before;
}

CrashImage::Entries CrashImage::Names(NodeId dir, size_t cut,
                                      const std::vector<size_t>& kept) const {
  Entries names;
  for (const size_t i : changes_[dir]) {
    if (i >= kept[dir]) break;
    const Op& op = log_[i];
    switch (op.kind) {
      case OpKind::kUnlink:
        names.erase(op.name);
        break;
      case OpKind::kRename:
        // Across directories the new name comes first: the file is never without one.
        if (op.dir == dir && i < kept[op.to_dir]) names.erase(op.name);
        if (op.to_dir == dir) names[op.to_name] = op.node;
        break;
      default:
        names[op.name] = op.node;
        break;
    }
  }
  return names;
}

bool CrashImage::Build(size_t cut, uint64_t seed, const std::string& path, const std::string& out) {
  std::mt19937_64 rng(seed);
  // How much of each directory's changes survives: all before kept[dir].
  std::vector<size_t> kept(changes_.size(), 0);
  for (NodeId n = 0; n < changes_.size(); ++n) {
    if (!is_dir_[n]) continue;
    const auto& all = changes_[n];
    const size_t durable = DurableBefore(n, cut);
    const size_t first = std::lower_bound(all.begin(), all.end(), durable) - all.begin();
    const size_t last = std::lower_bound(all.begin(), all.end(), cut) - all.begin();
    size_t keep = first;
    switch (Below(&rng, 4)) {
      case 0:
        break;
      case 1:
        keep = last;
        break;
      default:
        keep = first + Below(&rng, last - first + 1);
    }
    kept[n] = keep < all.size() ? std::min(all[keep], cut) : cut;
  }
  NodeId dir = kRootNode;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const Entries names = Names(dir, cut, kept);
    const auto it = names.find(path.substr(at, end - at));
    if (it == names.end() || !is_dir_[it->second]) return false;
    dir = it->second;
    at = end + 1;
  }
  return Write(dir, cut, kept, out, &rng);
}

bool CrashImage::Write(NodeId dir, size_t cut, const std::vector<size_t>& kept,
                       const std::string& out, std::mt19937_64* rng) {
  std::filesystem::create_directories(out);
  bool log_lost = false;
  for (const auto& [name, node] : Names(dir, cut, kept)) {  // logs in the order of their numbers
    if (is_dir_[node]) {
      Write(node, cut, kept, out + "/" + name, rng);
    } else {
      WriteFile(node, cut, name, out + "/" + name, &log_lost, rng);
    }
  }
  return true;
}

void CrashImage::Apply(const Op& op, std::string* content) const {
  switch (op.kind) {
    case OpKind::kWrite:
      if (content->size() < op.offset + op.data.size()) {
        content->resize(op.offset + op.data.size());
      }
      content->replace(op.offset, op.data.size(), op.data);
      break;
    case OpKind::kTruncate:
      content->resize(op.length);
      break;
    case OpKind::kAllocate:
      if (content->size() < op.length) content->resize(op.length);
      break;
    default:
      break;
  }
}

std::string CrashImage::ContentAt(NodeId file, size_t changes) const {
  std::string content;
  for (size_t i = 0; i < changes; ++i) Apply(log_[changes_[file][i]], &content);
  return content;
}

void CrashImage::WriteFile(NodeId file, size_t cut, const std::string& name, const std::string& out,
                           bool* log_lost, std::mt19937_64* rng) {
  const auto& all = changes_[file];
  const size_t durable =
      std::lower_bound(all.begin(), all.end(), DurableBefore(file, cut)) - all.begin();
  const size_t end = std::lower_bound(all.begin(), all.end(), cut) - all.begin();
  const FileClass file_class = ClassOf(name);
  if (durable < end) {
    std::string content = Tear(file, durable, end, file_class == FileClass::kManifest, rng);
    if (file_class == FileClass::kWal) {
      const std::string whole = ContentAt(file, end);
      EndAtHiddenGap(whole, &content);
      if (*log_lost) content = ContentAt(file, durable);
      *log_lost = *log_lost || content != whole;
    }
    WriteWhole(out, content);
    return;
  }
  const bool shared = file_class == FileClass::kTable || file_class == FileClass::kBlob;
  if (shared) {
    const auto it = cache_.find(file);
    if (it != cache_.end() && it->second.first == end &&
        link(it->second.second.c_str(), out.c_str()) == 0) {
      return;
    }
  }
  const std::string content = ContentAt(file, end);
  if (!shared) {
    WriteWhole(out, content);
    return;
  }
  const std::string cached = cache_dir_ + "/" + std::to_string(file) + "-" + std::to_string(end);
  WriteWhole(cached, content);
  cache_[file] = {end, cached};
  if (link(cached.c_str(), out.c_str()) != 0) WriteWhole(out, content);
}

// The content of a file of whose changes the first `durable` are durable, and the others up to
// `end` are anyone's guess.
std::string CrashImage::Tear(NodeId file, size_t durable, size_t end, bool only_ends,
                             std::mt19937_64* rng) const {
  const auto& all = changes_[file];
  const size_t mode = Below(rng, only_ends ? 3 : 5);
  const size_t sector = Below(rng, 2) == 0 ? 512 : 4096;
  const size_t lost_of_10 = 1 + Below(rng, 9);

  // The moment that the size is of.
  size_t size_at = end;
  if (mode == 0) size_at = durable;
  if (mode >= 2) size_at = durable + Below(rng, end - durable + 1);
  std::string content;
  size_t i = 0;
  for (; i < durable; ++i) Apply(log_[all[i]], &content);
  std::string sized = content;
  for (; i < size_at; ++i) Apply(log_[all[i]], &sized);
  if (mode == 2 && size_at < end && log_[all[size_at]].kind == OpKind::kWrite) {
    // One write was under way.
    const size_t before = sized.size();
    Apply(log_[all[size_at]], &sized);
    if (before < sized.size()) {
      const size_t sectors = (sized.size() - before) / sector;
      sized.resize(std::max(before, (before + Below(rng, sectors + 1) * sector) / sector * sector));
    }
  }
  if (mode <= 2) return sized;  // nothing, everything, or all up to one moment

  // Each sector as of a moment of its own: the versions it had, in order.
  const size_t size = sized.size();
  std::map<size_t, std::vector<size_t>> touched;  // sector -> changes
  for (i = durable; i < end; ++i) {
    const Op& op = log_[all[i]];
    if (op.kind != OpKind::kWrite || op.data.empty()) continue;
    const size_t last = (op.offset + op.data.size() - 1) / sector;
    for (size_t s = op.offset / sector; s <= last; ++s) touched[s].push_back(i);
  }
  if (mode == 4) {  // the size is the latest, whatever became of the data
    for (i = size_at; i < end; ++i) Apply(log_[all[i]], &sized);
  }
  content.resize(mode == 4 ? sized.size() : size);
  for (const auto& [s, changes] : touched) {
    if (Below(rng, 10) < lost_of_10) continue;
    const size_t versions = 1 + Below(rng, changes.size());
    for (size_t v = 0; v < versions; ++v) {
      const Op& op = log_[all[changes[v]]];
      const size_t from = std::max<size_t>(s * sector, op.offset);
      const size_t to =
          std::min({(s + 1) * sector, size_t{op.offset + op.data.size()}, content.size()});
      if (from < to) content.replace(from, to - from, op.data, from - op.offset, to - from);
    }
  }
  return content;
}

}  // namespace pulse::powercut
