// Import: copies gather in a directory of the pool of their own (DIR#moving), since a database that
// is not guarded has no tables in the pool, and what is there under its name is a former one's.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/lsm/pool/convert/conversion.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_former.h"
#include "services/lsm/pool/pool_guard.h"
#include "store/records.h"

namespace pulse::convert {
namespace {

// What a file with its two names takes of the store's metadata, at most: each segment may lie
// apart.
uint64_t MetadataOf(const std::string& name, uint64_t segments) {
  return store::FileCheckpointBytes(segments) + 2 * (store::kLinkRecordBytes + name.size());
}

// By which a plain file is known to be the one that was copied.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  int64_t modified_s = 0;
  int64_t modified_ns = 0;

  bool operator==(const Identity&) const = default;
  static absl::StatusOr<Identity> Of(const std::string& path) {
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0) return ErrnoError(errno, "looking at", path);
    return Identity{st.st_dev, st.st_ino, st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec};
  }
};

// A plain table or blob file.
struct ImportItem {
  std::string dir;
  std::string name;
  uint64_t size = 0;
  Identity identity;
  // Guarded: the file of the same name and size that the database reads.
  store::FileId published = store::kNoFile;
  // What an earlier call, or this one, has copied; and whether it has its name in DIR.
  store::FileId copy = store::kNoFile;
  bool linked = false;

  std::string path() const { return absl::StrCat(dir, "/", name); }
  std::string moving() const { return dir + kMoving; }
  bool in_pool() const { return published != store::kNoFile || copy != store::kNoFile; }
};

class Importer {
 public:
  explicit Importer(Conversion& conversion) : conversion_(conversion), store_(conversion.store()) {}

  absl::Status Plan();
  absl::Status Run();

 private:
  absl::Status PlanDirectory(const std::string& dir);
  absl::Status CheckFiles() const;
  absl::Status CheckRoom();
  absl::Status Place(ImportItem* item);
  absl::Status Publish();
  absl::Status DeleteOriginals();

  Conversion& conversion_;
  store::Store& store_;
  std::vector<ImportItem> items_;
  std::vector<std::pair<std::string, std::string>> stale_;  // copies that nobody wants any more
  uint64_t stale_bytes_ = 0;
};

absl::Status Importer::PlanDirectory(const std::string& dir) {
  PULSE_ASSIGN_OR_RETURN(const auto plain, ListPlainFiles(dir));
  PULSE_ASSIGN_OR_RETURN(const auto stored, conversion_.Stored(dir));
  PULSE_ASSIGN_OR_RETURN(const auto moving, conversion_.Stored(dir + kMoving));
  const auto id_in = [](const Conversion::StoredFiles& files, const std::string& name,
                        uint64_t size) {
    const auto it = files.find(name);
    return it != files.end() && it->second.size == size ? it->second.id : store::kNoFile;
  };
  std::map<std::string, uint64_t> ours;
  for (const auto& [name, size] : plain) {
    if (!lsm::IsNumbered(name)) continue;  // the user's own
    const bool differs =
        conversion_.guarded() && stored.count(name) > 0 && stored.at(name).size != size;
    if (!differs && !conversion_.Owns(dir, name, size)) continue;
    ImportItem item;
    item.dir = dir;
    item.name = name;
    item.size = size;
    const store::FileId named = id_in(stored, name, size);
    if (conversion_.guarded()) {
      item.published = named;
      if (named == store::kNoFile && stored.count(name) > 0)
        return conversion_.Differs(item.path());
    }
    item.copy = id_in(moving, name, size);
    item.linked = item.copy != store::kNoFile && item.copy == named;
    ours[name] = size;
    items_.push_back(std::move(item));
  }
  for (const auto& [name, attributes] : moving) {
    const auto it = ours.find(name);
    if (it != ours.end() && it->second == attributes.size) continue;
    // First where it would pass for a former database's.
    if (!conversion_.guarded() && id_in(stored, name, attributes.size) == attributes.id) {
      stale_.emplace_back(dir, name);
    }
    stale_.emplace_back(dir + kMoving, name);
    stale_bytes_ += attributes.allocated;
  }
  return absl::OkStatus();
}

absl::Status Importer::CheckFiles() const {
  std::set<std::string> only_stored;  // of tables
  std::map<std::string, uint64_t> stored_sizes;
  for (const std::string& dir : conversion_.database().dirs()) {
    PULSE_ASSIGN_OR_RETURN(const auto stored, conversion_.Stored(dir));
    for (const auto& [name, attributes] : stored) {
      if (conversion_.guarded()) stored_sizes[name] = attributes.size;
      if (lsm::IsNumbered(name) && !SizeOfPlain(absl::StrCat(dir, "/", name))) {
        only_stored.insert(name);
      }
    }
  }
  const absl::Status checked = conversion_.database().CheckFiles(stored_sizes);
  const bool whole = checked.ok() && conversion_.database().known();
  if (conversion_.guarded() || only_stored.empty() || whole) return checked;
  // Without its guard, nobody looks for its tables in the pool.
  const std::string real = absl::StrCat(conversion_.database().home(), "/", lsm::kRealCurrentName);
  if (access(real.c_str(), F_OK) != 0) return checked;
  return absl::FailedPreconditionError(absl::StrCat(
      conversion_.database().current(), " was replaced without the plug-in, and tables such as ",
      *only_stored.begin(), " are in the pool ", store_.path(), " only; move the guard (",
      lsm::kCurrentName, ", ", lsm::kGuardManifestName, ") back from a copy, or remove ", real,
      " to go on without these tables"));
}

absl::Status Importer::CheckRoom() {
  Report& report = conversion_.report();
  const uint64_t segment = store_.geometry().segment_bytes;
  const store::Usage usage = store_.usage();
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t metadata = 0;
  for (const ImportItem& item : items_) {
    if (item.in_pool()) continue;
    ++files;
    bytes += item.size;
    const uint64_t segments = (item.size + segment - 1) / segment;
    report.needed += segments * segment;
    metadata += MetadataOf(item.name, segments);
  }
  report.room = (usage.free + usage.pending) * segment;
  if (conversion_.options().dry_run) {
    report.room += stale_bytes_;
    report.copied_files = files;
    report.copied_bytes = bytes;
  }
  if (report.needed > report.room) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the pool ", store_.path(), " has ", report.room, " bytes free, and the ",
                     files, " files to be copied need ", report.needed, " in segments of ", segment,
                     "; make a larger pool, or delete data. The database was not changed"));
  }
  for (const std::string& dir : conversion_.database().dirs()) {
    if (files == 0) break;
    metadata += 2 * (store::kDirectoryRecordBytes + dir.size() + sizeof(kMoving));
  }
  if (usage.metadata_bytes + metadata > usage.metadata_capacity) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the pool ", store_.path(), " has no room for the names of ", files,
                     " more files; make one with more: `pulse pool create --metadata SIZE`. "
                     "The database was not changed"));
  }
  return absl::OkStatus();
}

absl::Status Importer::Plan() {
  for (const std::string& dir : conversion_.database().dirs())
    PULSE_RETURN_IF_ERROR(PlanDirectory(dir));
  PULSE_RETURN_IF_ERROR(CheckFiles());
  Report& report = conversion_.report();
  report.files = items_.size();
  for (const ImportItem& item : items_) report.bytes += item.size;
  report.switched_before = conversion_.guarded();
  report.already = conversion_.guarded() && items_.empty() && !conversion_.HasMoving();
  if (!conversion_.options().dry_run && !stale_.empty()) {
    for (const auto& [dir, name] : stale_) PULSE_RETURN_IF_ERROR(store_.Unlink(dir, name));
    PULSE_RETURN_IF_ERROR(store_.Commit());
  }
  return CheckRoom();
}

// Afterwards the item is in the pool: published or copied, the same, and durable.
absl::Status Importer::Place(ImportItem* item) {
  PULSE_ASSIGN_OR_RETURN(item->identity, Identity::Of(item->path()));
  if (item->published != store::kNoFile) {
    PULSE_ASSIGN_OR_RETURN(const auto same, conversion_.Same(item->path(), item->published));
    return same ? absl::OkStatus() : conversion_.Differs(item->path());
  }
  const std::string moving = item->moving();
  if (item->copy != store::kNoFile) {
    PULSE_ASSIGN_OR_RETURN(const auto same, conversion_.Same(item->path(), item->copy));
    if (same) return absl::OkStatus();
    if (item->linked) PULSE_RETURN_IF_ERROR(store_.Unlink(item->dir, item->name));
    PULSE_RETURN_IF_ERROR(store_.Unlink(moving, item->name));
    item->linked = false;
  }
  if (!store_.HasDirectory(moving)) PULSE_RETURN_IF_ERROR(store_.CreateDirectory(moving));
  PULSE_ASSIGN_OR_RETURN(const auto file, store_.CreateFile(moving, item->name));
  PULSE_RETURN_IF_ERROR(conversion_.CopyIn(item->path(), item->size, file));
  item->copy = file;
  return store_.Commit();
}

// The copies' names in DIR, durably.
absl::Status Importer::Publish() {
  PULSE_RETURN_IF_ERROR(conversion_.Step("naming"));
  for (const std::string& dir : conversion_.database().dirs()) {
    if (conversion_.guarded()) continue;
    std::set<std::string> ours;
    for (const ImportItem& item : items_) {
      if (item.dir == dir && item.linked) ours.insert(item.name);
    }
    PULSE_RETURN_IF_ERROR(lsm::SetAsideFormer(
        store_, dir, lsm::Shared::kKeep,
        [&](const std::string& name) { return lsm::IsNumbered(name) && ours.count(name) == 0; }));
  }
  for (const ImportItem& item : items_) {
    if (item.published != store::kNoFile || item.linked) continue;
    if (!store_.HasDirectory(item.dir)) PULSE_RETURN_IF_ERROR(store_.CreateDirectory(item.dir));
    PULSE_RETURN_IF_ERROR(store_.Link(item.moving(), item.name, item.dir, item.name));
  }
  return store_.Commit();
}

absl::Status Importer::DeleteOriginals() {
  std::set<std::string> dirs;
  for (const ImportItem& item : items_) {
    PULSE_RETURN_IF_ERROR(conversion_.Step("deleting"));
    const std::string path = item.path();
    const auto now = Identity::Of(path);
    if (ErrnoOf(now.status()) == ENOENT) continue;
    if (!now.ok()) return now.status();
    if (*now != item.identity) {
      return absl::FailedPreconditionError(absl::StrCat(
          path,
          " was changed or replaced after it was copied, and was not deleted; the database is "
          "in its pool. Find out who writes there, and run the command again"));
    }
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "deleting", path);
    dirs.insert(item.dir);
  }
  for (const std::string& dir : dirs) PULSE_RETURN_IF_ERROR(SyncDirectory(dir));
  return absl::OkStatus();
}

absl::Status Importer::Run() {
  for (ImportItem& item : items_) PULSE_RETURN_IF_ERROR(Place(&item));
  PULSE_RETURN_IF_ERROR(Publish());
  PULSE_RETURN_IF_ERROR(conversion_.Step("switching"));
  PULSE_RETURN_IF_ERROR(lsm::WriteGuard(conversion_.database().home(), lsm::GuardInfoOf(store_)));
  PULSE_RETURN_IF_ERROR(conversion_.DeleteMoving());
  PULSE_RETURN_IF_ERROR(store_.Commit());
  PULSE_RETURN_IF_ERROR(conversion_.Switched());
  return DeleteOriginals();
}

}  // namespace

absl::StatusOr<Report> Import(const Options& options) {
  PULSE_ASSIGN_OR_RETURN(auto conversion, Conversion::Open(options, /*into_pool=*/true));
  Importer importer(*conversion);
  PULSE_RETURN_IF_ERROR(importer.Plan());
  if (!options.dry_run) PULSE_RETURN_IF_ERROR(importer.Run());
  return conversion->report();
}

}  // namespace pulse::convert
