#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <string>

#include "apps/pulse/doctor/check.h"
#include "apps/pulse/util/disk.h"
#include "base/file_calls.h"
#include "fmt/format.h"
#include "services/lsm/pool/pool_guard.h"
#include "store/store.h"

namespace pulse::doctor {
namespace {

// Below this share of free segments, and of segments at all, flushes and compactions get short.
constexpr double kLowShare = 0.1;
constexpr uint64_t kFewSegments = 16;

// Whether somebody has the pool open for writing, and with it the lock that readers share.
bool HasWriter(const std::string& path) {
  const UniqueFd file = OpenFile(path, O_RDONLY | O_NONBLOCK);
  return file.valid() && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace

Checks CheckPool(const std::string& path) {
  store::OpenOptions options;
  options.read_only = true;
  auto opened = store::Store::Open(path, options);
  if (absl::IsFailedPrecondition(opened.status()) && HasWriter(path)) {
    // "... is in use by process 7 (name); end it first, ...", which is no advice here.
    const std::string why(opened.status().message());
    return {
        Ok("pool", why.substr(0, why.rfind("; ")) + "; it is examined when nobody has it open")};
  }
  if (!opened.ok()) {
    return {Fail("pool", std::string(opened.status().message()),
                 "`pulse pool create PATH --size SIZE` makes a pool, `pulse pool check PATH` "
                 "examines one")};
  }
  const store::Store& pool = **opened;
  const store::Usage usage = pool.usage();
  const uint64_t segment = pool.geometry().segment_bytes;
  const std::string found =
      fmt::format("{}: {} of {} segments of {} are free, {} files", path, usage.free,
                  usage.segments, FormatBytes(segment), usage.files);
  Checks checks;
  if (usage.segments < kFewSegments) {
    checks.push_back(Warn("pool", found, "make a larger pool, or one of smaller segments"));
  } else if (static_cast<double>(usage.free) < kLowShare * static_cast<double>(usage.segments)) {
    checks.push_back(Warn("pool", found,
                          "delete data, or move the databases to a larger pool: compactions need "
                          "room beside what they replace"));
  } else {
    checks.push_back(Ok("pool", found));
  }
  checks.push_back(pool.direct_io()
                       ? Ok("pool, direct I/O", "to be had")
                       : Warn("pool, direct I/O",
                              "not to be had: outputs go through the page cache",
                              "put the pool on a local disk (ext4, xfs) or a block device"));
  return checks;
}

Checks CheckGuard(const std::string& dir) {
  const auto guard = lsm::ReadGuard(dir);
  if (absl::IsNotFound(guard.status())) return {};
  if (!guard.ok()) {
    return {
        Fail("tables", std::string(guard.status().message()),
             "restore MANIFEST-000000 from a backup of the directory, or open the database with "
             "the pool that you know it to be in")};
  }
  return {Ok("tables", fmt::format("in the pool {} ({}): open with layout=pool&pool={}",
                                   guard->pool, guard->pool_id, guard->pool))};
}

}  // namespace pulse::doctor
