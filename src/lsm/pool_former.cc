#include "lsm/pool_former.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse::lsm {

bool IsNumbered(absl::string_view name) {
  return !name.empty() && absl::ascii_isdigit(static_cast<unsigned char>(name[0]));
}

absl::Status SetAsideFormer(store::Store& store, const std::string& directory,
                            absl::FunctionRef<bool(const std::string& name)> which) {
  const auto files = store.List(directory);
  if (!files.ok()) return absl::IsNotFound(files.status()) ? absl::OkStatus() : files.status();
  std::string aside;
  size_t kept = 0;
  for (const store::DirectoryEntry& f : *files) {
    if (!which(f.name)) continue;
    const auto now = store.Stat(f.attributes.id);
    absl::Status st;
    if (now.ok() && now->links > 1) {
      st = store.Unlink(directory, f.name);
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
  if (kept == 0) return absl::OkStatus();
  Log(LogLevel::kWarn,
      absl::StrCat("pool ", store.path(), ": ", kept, " files of a former ", directory,
                   ", which was deleted or replaced without the plug-in, or is not mounted, are "
                   "kept as ",
                   aside, "; `pulse pool rm` deletes them, `pulse pool mv` brings them back"));
  return absl::OkStatus();
}

}  // namespace pulse::lsm
