// Export: each table is written under a temporary name that RocksDB deletes if it finds it, and
// then renamed; a guarded database reads those of the pool until its CURRENT is back.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "services/lsm/pool/convert/conversion.h"
#include "services/lsm/pool/pool_former.h"
#include "services/lsm/pool/pool_guard.h"

namespace pulse::convert {
namespace {

// The guard's, too, which is written at another time.
constexpr char kTemporaryName[] = "000000.dbtmp";
// For what a file system needs beside the data.
constexpr uint64_t kRoomBeside = uint64_t{1} << 20;

struct Item {
  std::string dir;
  std::string name;
  store::FileId file = store::kNoFile;
  uint64_t size = 0;
  bool in_place = false;  // there is a plain file of that name

  std::string path() const { return absl::StrCat(dir, "/", name); }
};

class Exporter {
 public:
  explicit Exporter(Conversion& conversion) : conversion_(conversion), store_(conversion.store()) {}

  absl::Status Plan();
  absl::Status Run();

 private:
  absl::Status PlanDirectory(const std::string& dir);
  absl::Status CheckRoom();
  absl::Status Place(const Item& item);
  absl::Status MarkForDeletion();
  absl::Status DeleteFromPool();

  Conversion& conversion_;
  store::Store& store_;
  std::vector<Item> items_;
};

absl::Status Exporter::PlanDirectory(const std::string& dir) {
  PULSE_ASSIGN_OR_RETURN(const auto stored, conversion_.Stored(dir));
  PULSE_ASSIGN_OR_RETURN(const auto moving, conversion_.Stored(dir + kMoving));
  for (const auto& [name, attributes] : stored) {
    if (!conversion_.guarded()) {
      // The database is plain already. What was stopped before it was all deleted; or an import.
      const auto copy = moving.find(name);
      if (copy == moving.end() || copy->second.id != attributes.id) {
        conversion_.report().foreign_files += lsm::IsNumbered(name) ? 1 : 0;
        continue;
      }
    } else if (!conversion_.Owns(dir, name, attributes.size)) {
      // Another database's, or not in use any more.
      conversion_.report().foreign_files += 1;
      continue;
    }
    const bool in_place = SizeOfPlain(absl::StrCat(dir, "/", name)).has_value();
    items_.push_back({dir, name, attributes.id, attributes.size, in_place});
  }
  return absl::OkStatus();
}

absl::Status Exporter::CheckRoom() {
  struct Disk {
    std::string dir;  // one of:
    std::set<std::string> dirs;
    uint64_t needed = 0;
    uint64_t files = 0;
  };
  std::map<dev_t, Disk> disks;
  Report& report = conversion_.report();
  for (const Item& item : items_) {
    if (item.in_place || !conversion_.guarded()) continue;
    struct stat st {};
    if (stat(item.dir.c_str(), &st) != 0) return ErrnoError(errno, "looking at", item.dir);
    Disk& disk = disks[st.st_dev];
    disk.dir = item.dir;
    disk.dirs.insert(item.dir);
    disk.needed += store::RoundUpToBlock(item.size);
    ++disk.files;
    report.needed += store::RoundUpToBlock(item.size);
    if (conversion_.options().dry_run) {
      ++report.copied_files;
      report.copied_bytes += item.size;
    }
  }
  report.room = ~uint64_t{0};
  for (const auto& [id, disk] : disks) {
    struct statvfs fs {};
    // What a call that was killed has left takes room, all that a table will have.
    for (const std::string& dir : disk.dirs) {
      const std::string temporary = absl::StrCat(dir, "/", kTemporaryName);
      if (!conversion_.options().dry_run && unlink(temporary.c_str()) != 0 && errno != ENOENT) {
        return ErrnoError(errno, "deleting", temporary);
      }
    }
    if (statvfs(disk.dir.c_str(), &fs) != 0) return ErrnoError(errno, "looking at", disk.dir);
    const uint64_t free = uint64_t{fs.f_bavail} * fs.f_frsize;
    report.room = std::min(report.room, free);
    if (disk.needed + kRoomBeside <= free) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the file system of ", disk.dir, " has ", free, " bytes free, and the ", disk.files,
        " files to be copied need ", disk.needed, "; make room there. Nothing was changed"));
  }
  if (disks.empty()) report.room = 0;
  return absl::OkStatus();
}

absl::Status Exporter::Plan() {
  for (const std::string& dir : conversion_.database().dirs())
    PULSE_RETURN_IF_ERROR(PlanDirectory(dir));
  Report& report = conversion_.report();
  report.switched_before = !conversion_.guarded();
  report.already = !conversion_.guarded() && items_.empty() && !conversion_.HasMoving();
  report.files = items_.size();
  std::map<std::string, uint64_t> stored;
  for (const Item& item : items_) {
    report.bytes += item.size;
    if (conversion_.guarded()) stored[item.name] = item.size;
  }
  PULSE_RETURN_IF_ERROR(conversion_.database().CheckFiles(stored));
  return CheckRoom();
}

absl::Status Exporter::Place(const Item& item) {
  if (item.in_place) {
    PULSE_ASSIGN_OR_RETURN(const auto same, conversion_.Same(item.path(), item.file));
    if (!same) return conversion_.Differs(item.path());
    // It may be there by another's hand.
    const UniqueFd fd = OpenFile(item.path(), O_RDONLY);
    if (!fd.valid()) return ErrnoError(errno, "syncing", item.path());
    return SyncFd(fd.get(), item.path());
  }
  const std::string temporary = absl::StrCat(item.dir, "/", kTemporaryName);
  PULSE_RETURN_IF_ERROR(conversion_.CopyOut(item.file, temporary));
  if (rename(temporary.c_str(), item.path().c_str()) != 0) {
    return ErrnoError(errno, "renaming", temporary);
  }
  return absl::OkStatus();
}

absl::Status Exporter::MarkForDeletion() {
  PULSE_RETURN_IF_ERROR(conversion_.DeleteMoving());
  for (const Item& item : items_) {
    const std::string moving = item.dir + kMoving;
    absl::Status st;
    if (!store_.HasDirectory(moving)) st = store_.CreateDirectory(moving);
    if (st.ok()) st = store_.Link(item.dir, item.name, moving, item.name);
    if (absl::IsResourceExhausted(st)) {
      // A pool that is full to the brim must be left all the same.
      Log(LogLevel::kWarn,
          absl::StrCat(st.message(),
                       ": if the export is cut off now, delete what it leaves in the "
                       "pool with `pulse pool rm`"));
      PULSE_RETURN_IF_ERROR(conversion_.DeleteMoving());
      break;
    }
    PULSE_RETURN_IF_ERROR(st);
  }
  return store_.Commit();
}

absl::Status Exporter::DeleteFromPool() {
  // The names in DIR#moving last: with them the others can be told.
  for (const Item& item : items_) PULSE_RETURN_IF_ERROR(store_.Unlink(item.dir, item.name));
  PULSE_RETURN_IF_ERROR(conversion_.DeleteMoving());
  for (const std::string& dir : conversion_.database().dirs()) {
    PULSE_ASSIGN_OR_RETURN(const auto left, conversion_.Stored(dir));
    if (left.empty() && store_.HasDirectory(dir)) {
      PULSE_RETURN_IF_ERROR(store_.RemoveDirectory(dir));
    }
  }
  return store_.Commit();
}

absl::Status Exporter::Run() {
  if (conversion_.guarded()) {
    std::set<std::string> dirs;
    for (const Item& item : items_) {
      PULSE_RETURN_IF_ERROR(Place(item));
      dirs.insert(item.dir);
    }
    for (const std::string& dir : dirs) PULSE_RETURN_IF_ERROR(SyncDirectory(dir));
    PULSE_RETURN_IF_ERROR(conversion_.Step("switching"));
    PULSE_RETURN_IF_ERROR(MarkForDeletion());
    PULSE_RETURN_IF_ERROR(lsm::LiftGuard(conversion_.database().home()));
  } else {
    // An earlier call may have been killed before its rename was durable.
    PULSE_RETURN_IF_ERROR(SyncDirectory(conversion_.database().home()));
  }
  PULSE_RETURN_IF_ERROR(conversion_.Switched());
  return DeleteFromPool();
}

}  // namespace

absl::StatusOr<Report> Export(const Options& options) {
  PULSE_ASSIGN_OR_RETURN(auto conversion, Conversion::Open(options, /*into_pool=*/false));
  Exporter exporter(*conversion);
  PULSE_RETURN_IF_ERROR(exporter.Plan());
  if (!options.dry_run) PULSE_RETURN_IF_ERROR(exporter.Run());
  return conversion->report();
}

}  // namespace pulse::convert
