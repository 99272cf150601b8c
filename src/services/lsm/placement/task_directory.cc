#include "services/lsm/placement/task_directory.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/placement/task_wire.h"

namespace pulse::lsm {
namespace {

const std::string& Token() {
  static const std::string token = [] {
    std::random_device random;
    char text[33];
    std::snprintf(text, sizeof(text), "%08x%08x%08x%08x", random(), random(), random(), random());
    return std::string(text);
  }();
  return token;
}

}  // namespace

void SweepTaskDirectories(FileSystem* fs, const std::string& home) {
  const std::string parent = absl::StrCat(home, "/", kTaskDirectory);
  if (!fs->FileExists(parent, IOOptions(), nullptr).ok()) return;
  std::vector<std::string> old;
  fs->GetChildren(parent, IOOptions(), &old, nullptr).PermitUncheckedError();
  for (const std::string& name : old) {
    if (name == "." || name == ".." || absl::StartsWith(name, Token())) continue;
    RemoveTaskDirectory(fs, absl::StrCat(parent, "/", name));
  }
}

absl::StatusOr<std::string> MakeTaskDirectory(FileSystem* fs, const std::string& home) {
  static std::atomic<uint64_t> next{0};
  const std::string parent = absl::StrCat(home, "/", kTaskDirectory);
  const std::string dir = absl::StrCat(parent, "/", Token(), "-", next.fetch_add(1));
  IOStatus s;
  // Another's Remove may take the parent away in between.
  for (int i = 0; i < 3; ++i) {
    s = fs->CreateDirIfMissing(parent, IOOptions(), nullptr);
    if (s.ok()) s = fs->CreateDir(dir, IOOptions(), nullptr);
    if (s.ok()) return dir;
  }
  return absl::UnavailableError(absl::StrCat(
      "no directory for a whole compaction's outputs, which is done by the host: ", s.ToString()));
}

void RemoveTaskDirectory(FileSystem* fs, const std::string& dir) {
  // An agent that has not heard yet that its host is gone may still make files there.
  for (int i = 0; i < 3; ++i) {
    std::vector<std::string> children;
    const IOStatus s = fs->GetChildren(dir, IOOptions(), &children, nullptr);
    if (!s.ok()) break;
    for (const std::string& name : children) {
      if (name == "." || name == "..") continue;
      fs->DeleteFile(absl::StrCat(dir, "/", name), IOOptions(), nullptr).PermitUncheckedError();
    }
    if (fs->DeleteDir(dir, IOOptions(), nullptr).ok()) break;
  }
  rmdir(DirectoryOf(dir).c_str());
}

}  // namespace pulse::lsm
