#include "services/lsm/pool/pool_former.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file_calls.h"
#include "base/log.h"

namespace pulse::lsm {

namespace {

using Copies = std::map<std::string, store::FileId>;

// What a conversion has in DIRECTORY#moving, by name.
Copies CopiesOf(const store::Store& store, const std::string& directory) {
  Copies copies;
  if (const auto moving = store.List(directory + kMoving); moving.ok()) {
    for (const store::DirectoryEntry& f : *moving) copies[f.name] = f.attributes.id;
  }
  return copies;
}

bool IsCopy(const Copies& copies, const store::DirectoryEntry& file) {
  const auto copy = copies.find(file.name);
  return copy != copies.end() && copy->second == file.attributes.id;
}

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
}

}  // namespace

bool IsNumbered(absl::string_view name) {
  name = absl::StripSuffix(name, ".tmp");
  name = absl::StripSuffix(name, ".trash");
  if (!absl::ConsumeSuffix(&name, ".sst") && !absl::ConsumeSuffix(&name, ".blob")) return false;
  return AllDigits(name);
}

absl::Status CheckDirectoryName(absl::string_view directory) {
  for (const absl::string_view part : absl::StrSplit(directory, '/')) {
    const size_t former = part.rfind(kFormer);
    const bool reserved =
        absl::EndsWith(part, kMoving) ||
        (former != absl::string_view::npos && AllDigits(part.substr(former + sizeof(kFormer) - 1)));
    if (!reserved) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        directory, ": a pool keeps directories of such names (DIR", kMoving, ", DIR", kFormer,
        "N) for itself, and would lose the tables; rename the directory, and name that one"));
  }
  return absl::OkStatus();
}

bool HasFormer(const store::Store& store, const std::string& directory) {
  const auto files = store.List(directory);
  if (!files.ok()) return false;
  const Copies copies = CopiesOf(store, directory);
  return std::any_of(files->begin(), files->end(), [&](const store::DirectoryEntry& f) {
    return IsNumbered(f.name) && !IsCopy(copies, f);
  });
}

absl::Status SetAsideFormer(store::Store& store, const std::string& directory, Shared shared,
                            absl::FunctionRef<bool(const std::string& name)> which) {
  const auto files = store.List(directory);
  if (!files.ok()) return absl::IsNotFound(files.status()) ? absl::OkStatus() : files.status();
  const Copies copies = CopiesOf(store, directory);
  std::string aside;
  size_t kept = 0;
  size_t dropped = 0;
  for (const store::DirectoryEntry& f : *files) {
    if (!which(f.name)) continue;
    const auto now = store.Stat(f.attributes.id);
    absl::Status st;
    if (now.ok() && now->links > 1 && (shared == Shared::kDrop || IsCopy(copies, f))) {
      st = store.Unlink(directory, f.name);
      ++dropped;
    } else {
      for (int n = 1; aside.empty(); ++n) {
        const std::string candidate = absl::StrCat(directory, kFormer, n);
        if (store.HasDirectory(candidate)) continue;
        st = store.CreateDirectory(candidate);
        aside = candidate;
      }
      if (st.ok()) st = store.Rename(directory, f.name, aside, f.name);
      ++kept;
    }
    if (!st.ok()) return st;
  }
  if (dropped > 0) {
    Log(LogLevel::kInfo,
        absl::StrCat("pool ", store.path(), ": ", dropped, " names of ", directory,
                     " are dropped, whose database has no tables in the pool; the files have other "
                     "names, such as a checkpoint's, or those of a conversion that was stopped"));
  }
  if (kept == 0) return absl::OkStatus();
  Log(LogLevel::kWarn,
      absl::StrCat("pool ", store.path(), ": ", kept, " files of a former ", directory,
                   ", which was deleted or replaced without the plug-in, or is not mounted, are "
                   "kept as ",
                   aside, "; `pulse pool rm` deletes them, `pulse pool mv` brings them back"));
  return absl::OkStatus();
}

void DropCopies(store::Store& store, const std::string& directory) {
  const std::string moving = directory + kMoving;
  if (!store.HasDirectory(moving)) return;
  // The guard may be in memory only: without it the names of DIRECTORY are copies, too.
  absl::Status st = SyncDirectory(directory);
  if (st.ok()) st = store.ClearDirectory(moving);
  if (st.ok()) st = store.RemoveDirectory(moving);
  if (st.ok()) return;
  Log(LogLevel::kWarn, absl::StrCat("pool ", store.path(), ": ", moving, " stays: ", st.message()));
}

}  // namespace pulse::lsm
