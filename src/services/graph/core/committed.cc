#include "services/graph/core/committed.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/errors.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

constexpr char kCommittedMagic[8] = {'P', 'U', 'L', 'S', 'E', 'C', 'O', 'M'};

struct CommittedBytes {
  char magic[8];
  uint64_t sequence;
  uint64_t inverted;  // of the sequence: what is read while it is written does not fit
  uint64_t synced;    // as are these two, which older versions do not write
  uint64_t synced_inverted;
};
static_assert(sizeof(CommittedBytes) == 40);
constexpr size_t kOldBytes = offsetof(CommittedBytes, synced);

// Size 0: it is not there.
absl::Status ReadBytes(Files* files, const std::string& directory, CommittedBytes* out,
                       size_t* size) {
  const auto bytes = files->ReadPart(directory + "/" + kCommittedFile, 0, sizeof(*out));
  if (absl::IsNotFound(bytes.status())) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(bytes.status());
  *size = std::min(bytes->size(), sizeof(*out));
  std::memcpy(out, bytes->data(), *size);
  return absl::OkStatus();
}

bool SequenceFits(const CommittedBytes& bytes, size_t size) {
  return size >= kOldBytes && std::memcmp(bytes.magic, kCommittedMagic, sizeof(bytes.magic)) == 0 &&
         bytes.inverted == ~bytes.sequence;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommittedWriter>> CommittedWriter::Open(
    Files* files, const std::string& directory) {
  const std::string path = directory + "/" + kCommittedFile;
  // Not emptied: a follower goes on with what there is.
  auto file = files->OpenForWriting(path);
  if (absl::IsNotFound(file.status())) file = files->Create(path);
  if (!file.ok()) return file.status();
  std::unique_ptr<CommittedWriter> writer(new CommittedWriter(*std::move(file)));
  const int fd = writer->file_->descriptor();
  if (fd < 0) return writer;
  PULSE_ASSIGN_OR_RETURN(writer->lock_, LockForWriter(fd, path));
  return writer;
}

absl::Status CommittedWriter::Write(const Committed& committed) {
  CommittedBytes now{
      {}, committed.sequence, ~committed.sequence, committed.synced, ~committed.synced};
  std::memcpy(now.magic, kCommittedMagic, sizeof(now.magic));
  return file_->WriteAt({reinterpret_cast<const char*>(&now), sizeof(now)}, 0);
}

absl::StatusOr<std::optional<Committed>> ReadCommitted(Files* files, const std::string& directory) {
  CommittedBytes now{};
  size_t size = 0;
  PULSE_RETURN_IF_ERROR(ReadBytes(files, directory, &now, &size));
  if (!SequenceFits(now, size)) return std::optional<Committed>();
  const bool known = size == sizeof(now) && now.synced_inverted == ~now.synced;
  return std::optional<Committed>({now.sequence, known ? now.synced : 0});
}

absl::Status CheckCommittedIsWhole(Files* files, const std::string& directory) {
  // One that is written at this moment fits the next time.
  constexpr int kReads = 16;
  for (int i = 0; i < kReads; ++i) {
    CommittedBytes now{};
    const CommittedBytes zeros{};
    size_t size = 0;
    PULSE_RETURN_IF_ERROR(ReadBytes(files, directory, &now, &size));
    // After a power cut, what was never synced may be short, or zeros.
    if (size < kOldBytes || std::memcmp(&now, &zeros, sizeof(now)) == 0) return absl::OkStatus();
    if (SequenceFits(now, size) && (size < sizeof(now) || now.synced_inverted == ~now.synced)) {
      return absl::OkStatus();
    }
  }
  return absl::DataLossError(
      cypher::Concat(directory, "/", kCommittedFile, " is damaged: its numbers do not fit"));
}

absl::Status CheckSyncedIsThere(const Committed& before, uint64_t newest,
                                const std::string& directory) {
  if (before.synced <= newest) return absl::OkStatus();
  return absl::DataLossError(cypher::Concat(
      "the log has lost its end: ", directory, "/", kCommittedFile, " says that commit ",
      before.synced, " was on the device, and the newest that is there is ", newest));
}

}  // namespace pulse::graph
