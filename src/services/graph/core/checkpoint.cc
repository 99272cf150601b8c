#include "services/graph/core/checkpoint.h"

#include <cstring>

#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/newer_format.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kFrameBytes = size_t{1} << 20;

absl::Status DamagedCheckpoint(const std::string& path, uint64_t at) {
  return absl::DataLossError(cypher::Concat("the checkpoint ", path, " is damaged at byte ", at));
}

}  // namespace

absl::Status CheckpointWriter::WriteFrame() {
  const std::string payload = operations_.Take();
  operations_ = OperationWriter();
  return Write(payload);
}

absl::Status CheckpointWriter::AppendFrame(std::string_view operations) {
  PULSE_RETURN_IF_ERROR(WriteFrame());
  return Write(operations);
}

absl::Status CheckpointWriter::Write(std::string_view payload) {
  std::string bytes;
  if (size_ == 0) {
    bytes = kCheckpointMagic;
    const uint32_t words[2] = {kVersion, 0};
    bytes.append(reinterpret_cast<const char*>(words), sizeof(words));
  }
  if (!payload.empty()) {
    ++frames_;
    const CheckpointFrame frame{static_cast<uint32_t>(payload.size()),
                                Crc32c(payload.data(), payload.size())};
    bytes.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
    bytes += payload;
  }
  PULSE_RETURN_IF_ERROR(file_->WriteAt(bytes, size_));
  size_ += bytes.size();
  return absl::OkStatus();
}

absl::Status CheckpointWriter::FlushIfFull() {
  return operations_.bytes().size() < kFrameBytes ? absl::OkStatus() : WriteFrame();
}

absl::Status CheckpointWriter::Finish() {
  PULSE_RETURN_IF_ERROR(WriteFrame());
  std::string bytes;
  const CheckpointFrame frame{0, Crc32c(&frames_, sizeof(frames_))};
  bytes.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
  bytes.append(reinterpret_cast<const char*>(&frames_), sizeof(frames_));
  PULSE_RETURN_IF_ERROR(file_->WriteAt(bytes, size_));
  size_ += bytes.size();
  return file_->Sync();
}

absl::Status ReadCheckpoint(std::string_view bytes, const std::string& path,
                            const std::function<absl::Status(std::string_view)>& apply) {
  if (bytes.size() < kCheckpointHeader || !bytes.starts_with(kCheckpointMagic)) {
    return DamagedCheckpoint(path, 0);
  }
  uint32_t words[2];
  std::memcpy(words, bytes.data() + kCheckpointMagic.size(), sizeof(words));
  if (words[0] == 0 || words[1] != 0) return DamagedCheckpoint(path, kCheckpointMagic.size());
  if (words[0] != kVersion) return NewerFormat(path, words[0], kVersion);
  uint64_t frames = 0;
  for (size_t at = kCheckpointHeader;;) {
    CheckpointFrame frame;
    if (bytes.size() - at < sizeof(frame)) return DamagedCheckpoint(path, at);
    std::memcpy(&frame, bytes.data() + at, sizeof(frame));
    const size_t length = frame.length == 0 ? sizeof(uint64_t) : frame.length;
    const std::string_view rest = bytes.substr(at + sizeof(frame));
    if (rest.size() < length || Crc32c(rest.data(), length) != frame.crc)
      return DamagedCheckpoint(path, at);
    if (frame.length == 0) {
      uint64_t written;
      std::memcpy(&written, rest.data(), sizeof(written));
      return written == frames && rest.size() == length ? absl::OkStatus()
                                                        : DamagedCheckpoint(path, at);
    }
    PULSE_RETURN_IF_ERROR(apply(rest.substr(0, length)));
    ++frames;
    at += sizeof(frame) + length;
  }
}

absl::Status ReadCheckpointNames(Files* files, const std::string& path,
                                 const std::function<absl::Status(std::string_view)>& apply) {
  CheckpointFrame frame;
  for (uint64_t at = kCheckpointHeader;; at += sizeof(frame) + frame.length) {
    PULSE_ASSIGN_OR_RETURN(std::string bytes, files->ReadPart(path, at, sizeof(frame) + 1));
    if (bytes.size() <= sizeof(frame)) return DamagedCheckpoint(path, at);
    std::memcpy(&frame, bytes.data(), sizeof(frame));
    if (frame.length == 0) return absl::OkStatus();
    if (bytes[sizeof(frame)] != static_cast<char>(Operation::Kind::kName)) continue;
    PULSE_ASSIGN_OR_RETURN(bytes, files->ReadPart(path, at + sizeof(frame), frame.length));
    if (bytes.size() != frame.length || Crc32c(bytes.data(), bytes.size()) != frame.crc) {
      return DamagedCheckpoint(path, at);
    }
    PULSE_RETURN_IF_ERROR(apply(bytes));
  }
}

}  // namespace pulse::graph
