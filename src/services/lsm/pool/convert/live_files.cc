// Which files a MANIFEST names.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/core/manifest_records.h"
#include "services/lsm/pool/convert/closed_database.h"

namespace pulse::convert {
namespace {

// Of a blob file, around its records.
constexpr uint64_t kBlobFrame = 30 + 32;

absl::Status ReadAll(const std::string& path,
                     absl::FunctionRef<bool(absl::string_view bytes)> take) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(errno, "opening", path);
  std::vector<char> buffer(1 << 16);
  while (true) {
    const ssize_t n = read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "reading", path);
    if (n == 0 || !take({buffer.data(), static_cast<size_t>(n)})) return absl::OkStatus();
  }
}

struct Family {
  std::map<uint64_t, lsm::FileEdits::Table> tables;
  struct Blob {
    uint64_t count = 0;
    uint64_t garbage = 0;
    uint64_t bytes = 0;
  };
  std::map<uint64_t, Blob> blobs;
};
using Families = std::map<uint32_t, Family>;

void Apply(const lsm::FileEdits& edits, Families* families) {
  if (edits.drops_family) {
    families->erase(edits.family);
    return;
  }
  Family& family = (*families)[edits.family];
  for (const uint64_t number : edits.deleted) family.tables.erase(number);
  for (const auto& table : edits.tables) family.tables[table.number] = table;
  for (const auto& blob : edits.blobs) family.blobs[blob.number] = {blob.count, 0, blob.bytes};
  for (const auto& more : edits.garbage) family.blobs[more.number].garbage += more.count;
}

// A MANIFEST does not say when a blob file goes: it does when all in it is garbage, or when no
// table refers to it or to an older one.
void AddLive(const Family& family, std::vector<LiveFile>* files) {
  uint64_t oldest_blob = ~uint64_t{0};
  for (const auto& [number, table] : family.tables) {
    files->push_back({number, false, table.size});
    if (table.oldest_blob != 0) oldest_blob = std::min(oldest_blob, table.oldest_blob);
  }
  for (const auto& [number, blob] : family.blobs) {
    if (number < oldest_blob || blob.garbage >= blob.count) continue;
    files->push_back({number, true, blob.bytes + kBlobFrame});
  }
}

}  // namespace

absl::StatusOr<LiveFiles> ReadLiveFiles(const std::string& current) {
  std::string name;
  PULSE_RETURN_IF_ERROR(ReadAll(current, [&](absl::string_view bytes) {
    absl::StrAppend(&name, bytes);
    return name.size() < 1000;
  }));
  const absl::string_view manifest = absl::StripSuffix(name, "\n");
  if (manifest.size() == name.size() || !absl::StartsWith(manifest, "MANIFEST-") ||
      absl::StrContains(manifest, '/')) {
    return absl::DataLossError(absl::StrCat(
        current, " does not name a MANIFEST: it is damaged; put it back from a backup"));
  }
  const std::string path = absl::StrCat(lsm::DirectoryOf(current), "/", manifest);
  Families families;
  std::vector<lsm::FileEdits> group;
  const auto take_record = [&](absl::string_view record) {
    lsm::FileEdits edits;
    if (!lsm::DecodeFileEdits(record, &edits)) return false;
    if (!edits.in_group) {
      Apply(edits, &families);
      return true;
    }
    group.push_back(std::move(edits));
    if (group.back().group_left > 0) return true;
    for (const lsm::FileEdits& e : group) Apply(e, &families);
    group.clear();
    return true;
  };
  LiveFiles live;
  live.known = true;
  lsm::ManifestRecords records;
  const absl::Status st = ReadAll(path, [&](absl::string_view bytes) {
    live.known = records.AppendRecords(bytes, take_record);
    return live.known;
  });
  if (ErrnoOf(st) == ENOENT) {
    return absl::DataLossError(
        absl::StrCat(path, " is missing, which ", current, " names; put it back from a backup"));
  }
  PULSE_RETURN_IF_ERROR(st);
  if (!live.known) return live;
  for (const auto& [id, family] : families) AddLive(family, &live.files);
  return live;
}

}  // namespace pulse::convert
