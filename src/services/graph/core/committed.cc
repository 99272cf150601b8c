#include "services/graph/core/committed.h"

#include <cstring>

#include "base/errors.h"

namespace pulse::graph {
namespace {

constexpr char kCommittedMagic[8] = {'P', 'U', 'L', 'S', 'E', 'C', 'O', 'M'};

struct Committed {
  char magic[8];
  uint64_t sequence;
  uint64_t inverted;  // of the sequence: what is read while it is written does not fit
};
static_assert(sizeof(Committed) == 24);

}  // namespace

absl::StatusOr<std::unique_ptr<CommittedWriter>> CommittedWriter::Open(
    Files* files, const std::string& directory) {
  const std::string path = directory + "/" + kCommittedFile;
  // Not emptied: a follower goes on with what there is.
  auto file = files->OpenForWriting(path);
  if (absl::IsNotFound(file.status())) file = files->Create(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<CommittedWriter>(new CommittedWriter(*std::move(file)));
}

absl::Status CommittedWriter::Write(uint64_t sequence) {
  Committed now{{}, sequence, ~sequence};
  std::memcpy(now.magic, kCommittedMagic, sizeof(now.magic));
  return file_->WriteAt({reinterpret_cast<const char*>(&now), sizeof(now)}, 0);
}

absl::StatusOr<std::optional<uint64_t>> ReadCommitted(Files* files, const std::string& directory) {
  Committed now;
  const auto bytes = files->ReadPart(directory + "/" + kCommittedFile, 0, sizeof(now));
  if (absl::IsNotFound(bytes.status())) return std::optional<uint64_t>();
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() < sizeof(now)) return std::optional<uint64_t>();
  std::memcpy(&now, bytes->data(), sizeof(now));
  if (std::memcmp(now.magic, kCommittedMagic, sizeof(now.magic)) != 0 ||
      now.inverted != ~now.sequence) {
    return std::optional<uint64_t>();
  }
  return std::optional<uint64_t>(now.sequence);
}

}  // namespace pulse::graph
