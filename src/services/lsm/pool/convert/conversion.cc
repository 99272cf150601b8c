#include "services/lsm/pool/convert/conversion.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_guard.h"
#include "services/lsm/pool/pool_io.h"

namespace pulse::convert {

namespace {

constexpr uint64_t kPiece = uint64_t{4} << 20;
static_assert(kPiece % store::kBlock == 0);

// Direct I/O where the file system has it.
UniqueFd OpenPlain(const std::string& path, int flags) {
  UniqueFd fd = OpenFile(path, flags | O_DIRECT, 0644);
  if (!fd.valid() && errno == EINVAL) fd = OpenFile(path, flags, 0644);
  return fd;
}

// The file system takes direct I/O, and not in these units.
bool TurnBuffered(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

// `n` bytes at a multiple of the block size; the buffer holds whole blocks.
absl::Status ReadPlain(int fd, const std::string& path, uint64_t at, uint64_t n, uint8_t* data) {
  uint64_t got = 0;
  while (got < n) {
    // A read that ended within a block is only continued at the end of the file, or without
    // O_DIRECT.
    const ssize_t r =
        pread(fd, data + got, store::RoundUpToBlock(n) - got, static_cast<off_t>(at + got));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0 && errno == EINVAL && TurnBuffered(fd)) continue;
    if (r < 0) return ErrnoError(errno, "reading", path);
    if (r == 0) {
      return absl::DataLossError(absl::StrCat("reading ", path, ": it ends at ", at + got,
                                              "; it was cut short meanwhile"));
    }
    got += static_cast<uint64_t>(r);
  }
  return absl::OkStatus();
}

absl::Status WritePlain(int fd, const std::string& path, uint64_t at, uint64_t n,
                        const uint8_t* data) {
  for (uint64_t done = 0; done < n;) {
    const ssize_t r = pwrite(fd, data + done, n - done, static_cast<off_t>(at + done));
    if (r < 0 && errno == EINTR) continue;
    if (r < 0 && errno == EINVAL && TurnBuffered(fd)) continue;
    if (r <= 0) return ErrnoError(r < 0 ? errno : ENOSPC, "writing", path);
    done += static_cast<uint64_t>(r);
  }
  return absl::OkStatus();
}

absl::Status NotGivenBack(const std::string& what, uint64_t at) {
  return absl::DataLossError(absl::StrCat(what, ", at ", at,
                                          ": what was just written reads back as something else; "
                                          "the device is faulty, do not use it"));
}

}  // namespace

struct Conversion::Mapped {
  uint64_t size = 0;
  std::vector<store::Extent> extents;
  int fd = -1;
};

Conversion::Conversion(const Options& options) : options_(options), data_(kPiece), again_(kPiece) {}

absl::StatusOr<std::unique_ptr<Conversion>> Conversion::Open(const Options& options,
                                                             bool into_pool) {
  std::unique_ptr<Conversion> conversion(new Conversion(options));
  PULSE_ASSIGN_OR_RETURN(conversion->database_,
                         ClosedDatabase::Open(options.database, options.db_paths, options.dry_run));
  // As the plug-in spells it, since the guard shows it.
  std::error_code ec;
  std::string path = std::filesystem::canonical(options.pool, ec).string();
  if (ec) path = options.pool;  // the store says what is wrong with it
  // What is in there can always be taken out again.
  if (into_pool) PULSE_RETURN_IF_ERROR(lsm::CheckPoolPath(path));
  auto store = store::Store::Open(path, {.read_only = options.dry_run, .device = nullptr});
  if (!store.ok()) return store.status();
  conversion->store_ = *std::move(store);
  conversion->report_.database = conversion->database_->home();
  conversion->report_.pool = path;
  const auto& guard = conversion->database_->guard();
  conversion->switched_ = guard.has_value() == into_pool;
  const lsm::GuardInfo here = lsm::GuardInfoOf(*conversion->store_);
  if (guard.has_value() && guard->pool_id != here.pool_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the tables of ", conversion->database_->home(), " are in the pool ", guard->pool, " (",
        guard->pool_id, "), not in ", path, " (", here.pool_id, "); name that one"));
  }
  const ClosedDatabase& db = *conversion->database_;
  for (const std::string& dir : db.dirs()) {
    if (dir.size() + sizeof(kMoving) <= store::kMaxDirectoryName) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        dir, ": the path is too long to move tables between it and a pool, which needs DIR",
        kMoving,
        " besides; rename the directory, through the plug-in if its tables are in a pool"));
  }
  if (db.known()) return conversion;
  if (db.dirs().size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        db.home(),
        ": its MANIFEST has records that are not understood, such as a newer RocksDB's: "
        "which files are the database's in ",
        db.dirs()[1],
        " cannot be told. Nothing was changed; "
        "update pulse, or gather all tables in one directory"));
  }
  if (!options.unchecked) {
    return absl::FailedPreconditionError(absl::StrCat(
        db.home(),
        ": its MANIFEST has records that are not understood, such as a newer RocksDB's: "
        "whether all its tables are there cannot be told. Nothing was changed; update pulse, or go "
        "on with --unchecked, best with --verify"));
  }
  Log(LogLevel::kWarn, absl::StrCat(db.home(),
                                    ": its MANIFEST has records that are not understood: "
                                    "not checked whether all tables are there"));
  return conversion;
}

bool Conversion::Owns(const std::string& dir, const std::string& name, uint64_t size) const {
  if (dir == database_->home()) return true;
  if (!database_->Owns(name, size)) return false;
  for (const std::string& before : database_->dirs()) {
    if (before == dir) break;
    const auto plain = SizeOfPlain(absl::StrCat(before, "/", name));
    if (plain && database_->Owns(name, *plain)) return false;
    if (!guarded()) continue;
    const auto file = store_->Lookup(before, name);
    const auto stored = file.ok() ? store_->Stat(*file) : file.status();
    if (stored.ok() && database_->Owns(name, stored->size)) return false;
  }
  return true;
}

absl::StatusOr<Conversion::StoredFiles> Conversion::Stored(const std::string& dir) const {
  StoredFiles found;
  const auto files = store_->List(dir);
  if (!files.ok()) {
    if (absl::IsNotFound(files.status())) return found;
    return files.status();
  }
  for (const store::DirectoryEntry& f : *files) found[f.name] = f.attributes;
  return found;
}

bool Conversion::HasMoving() const {
  const auto& dirs = database_->dirs();
  return std::any_of(dirs.begin(), dirs.end(), [this](const std::string& dir) {
    return store_->HasDirectory(dir + kMoving);
  });
}

absl::Status Conversion::DeleteMoving() {
  for (const std::string& dir : database_->dirs()) {
    const std::string moving = dir + kMoving;
    if (!store_->HasDirectory(moving)) continue;
    PULSE_RETURN_IF_ERROR(store_->ClearDirectory(moving));
    PULSE_RETURN_IF_ERROR(store_->RemoveDirectory(moving));
  }
  return absl::OkStatus();
}

absl::Status Conversion::Step(const char* what, uint64_t bytes) {
  done_ += bytes;
  if (options_.on_step == nullptr) return absl::OkStatus();
  return options_.on_step({what, done_, report_.bytes, switched_});
}

absl::Status Conversion::Switched() {
  switched_ = true;
  if (options_.verify == nullptr) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(Step("verifying"));
  return options_.verify(report_);
}

absl::StatusOr<Conversion::Mapped> Conversion::Map(store::FileId file) const {
  PULSE_ASSIGN_OR_RETURN(const auto now, store_->Stat(file));
  Mapped stored;
  stored.size = now.size;
  PULSE_RETURN_IF_ERROR(store_->MapRead(file, 0, now.size, &stored.extents));
  const bool whole = std::none_of(stored.extents.begin(), stored.extents.end(),
                                  [](const store::Extent& e) { return e.hole(); });
  // A hole may begin anywhere; direct I/O may not.
  stored.fd = store_->device_fd(whole);
  if (whole && !stored.extents.empty()) {
    // The last block, whole: the segment has more than the file.
    stored.extents.back().length = store::RoundUpToBlock(stored.extents.back().length);
  }
  return stored;
}

absl::Status Conversion::ReadMapped(const Mapped& file, uint64_t at, uint64_t n,
                                    uint8_t* data) const {
  const bool whole = file.extents.empty() || !file.extents.back().hole();
  return lsm::ReadExtents(file.fd, file.extents, at, whole ? store::RoundUpToBlock(n) : n,
                          reinterpret_cast<char*>(data), store_->path());
}

absl::StatusOr<bool> Conversion::Same(const std::string& plain, store::FileId file) {
  const uint64_t before = done_;
  PULSE_RETURN_IF_ERROR(Step("comparing"));
  PULSE_ASSIGN_OR_RETURN(const auto stored, Map(file));
  const UniqueFd fd = OpenPlain(plain, O_RDONLY);
  struct stat st {};
  if (!fd.valid() || fstat(fd.get(), &st) != 0) return ErrnoError(errno, "opening", plain);
  if (static_cast<uint64_t>(st.st_size) != stored.size) return false;
  for (uint64_t at = 0; at < stored.size;) {
    const uint64_t n = std::min(kPiece, stored.size - at);
    PULSE_RETURN_IF_ERROR(ReadPlain(fd.get(), plain, at, n, data_.data()));
    PULSE_RETURN_IF_ERROR(ReadMapped(stored, at, n, again_.data()));
    if (std::memcmp(data_.data(), again_.data(), n) != 0) {
      done_ = before;
      return false;
    }
    PULSE_RETURN_IF_ERROR(Step("comparing", n));
    at += n;
  }
  return true;
}

absl::Status Conversion::Differs(const std::string& plain) const {
  return absl::FailedPreconditionError(absl::StrCat(
      plain, " is a plain file, and is not what the pool ", store_->path(),
      " has of that name, which is what the database reads; move the plain file away and run the "
      "command again"));
}

absl::Status Conversion::CopyIn(const std::string& from, uint64_t size, store::FileId to) {
  PULSE_RETURN_IF_ERROR(Step("copying"));
  const UniqueFd fd = OpenPlain(from, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "opening", from);
  PULSE_RETURN_IF_ERROR(store_->Reserve(to, size));
  const int device = store_->device_fd(true);
  for (uint64_t at = 0; at < size;) {
    const uint64_t n = std::min(kPiece, size - at);
    const uint64_t blocks = store::RoundUpToBlock(n);
    PULSE_RETURN_IF_ERROR(ReadPlain(fd.get(), from, at, n, data_.data()));
    std::memset(data_.data() + n, 0, blocks - n);
    std::vector<store::Extent> extents;
    PULSE_RETURN_IF_ERROR(store_->MapWrite(to, at, blocks, &extents));
    PULSE_RETURN_IF_ERROR(lsm::WriteExtents(
        device, extents, 0, blocks, reinterpret_cast<const char*>(data_.data()), store_->path()));
    PULSE_RETURN_IF_ERROR(lsm::ReadExtents(device, extents, 0, blocks,
                                           reinterpret_cast<char*>(again_.data()), store_->path()));
    if (std::memcmp(data_.data(), again_.data(), blocks) != 0) {
      return NotGivenBack(store_->path(), extents.front().device_offset);
    }
    PULSE_RETURN_IF_ERROR(Step("copying", n));
    at += n;
  }
  // Any commit may carry the length: the data goes first.
  PULSE_RETURN_IF_ERROR(store_->SyncData());
  PULSE_RETURN_IF_ERROR(store_->Wrote(to, 0, size));
  ++report_.copied_files;
  report_.copied_bytes += size;
  return absl::OkStatus();
}

absl::Status Conversion::WritePieces(const Mapped& stored, const std::string& to) {
  if (unlink(to.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "replacing", to);
  const UniqueFd fd = OpenPlain(to, O_RDWR | O_CREAT | O_EXCL);
  if (!fd.valid()) return ErrnoError(errno, "creating", to);
  PULSE_RETURN_IF_ERROR(lsm::TakeOwner(fd.get(), to, database_->current()));
  // In one run, if the file system can.
  if (stored.size > 0 && fallocate(fd.get(), 0, 0, static_cast<off_t>(stored.size)) != 0 &&
      errno == ENOSPC) {
    return ErrnoError(ENOSPC, "writing", to);
  }
  for (uint64_t at = 0; at < stored.size;) {
    const uint64_t n = std::min(kPiece, stored.size - at);
    const uint64_t blocks = store::RoundUpToBlock(n);
    PULSE_RETURN_IF_ERROR(ReadMapped(stored, at, n, data_.data()));
    PULSE_RETURN_IF_ERROR(WritePlain(fd.get(), to, at, blocks, data_.data()));
    PULSE_RETURN_IF_ERROR(ReadPlain(fd.get(), to, at, blocks, again_.data()));
    if (std::memcmp(data_.data(), again_.data(), n) != 0) return NotGivenBack(to, at);
    PULSE_RETURN_IF_ERROR(Step("copying", n));
    at += n;
  }
  if (ftruncate(fd.get(), static_cast<off_t>(stored.size)) != 0) {
    return ErrnoError(errno, "truncating", to);
  }
  return SyncFd(fd.get(), to);
}

absl::Status Conversion::CopyOut(store::FileId from, const std::string& to) {
  PULSE_RETURN_IF_ERROR(Step("copying"));
  PULSE_ASSIGN_OR_RETURN(const Mapped stored, Map(from));
  if (const absl::Status st = WritePieces(stored, to); !st.ok()) {
    unlink(to.c_str());  // a piece of a table, and the space is needed
    return st;
  }
  ++report_.copied_files;
  report_.copied_bytes += stored.size;
  return absl::OkStatus();
}

}  // namespace pulse::convert
