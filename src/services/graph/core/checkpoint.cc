#include "services/graph/core/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/newer_format.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

constexpr std::string_view kMagic = "PULSECKP";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeader = 16;
constexpr size_t kFrameBytes = size_t{1} << 20;

// A length of 0 ends the file; its payload is the number of frames, as 8 bytes.
struct Frame {
  uint32_t length;
  uint32_t crc;  // of the payload
};

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
    bytes = kMagic;
    const uint32_t words[2] = {kVersion, 0};
    bytes.append(reinterpret_cast<const char*>(words), sizeof(words));
  }
  if (!payload.empty()) {
    ++frames_;
    const Frame frame{static_cast<uint32_t>(payload.size()),
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
  const Frame frame{0, Crc32c(&frames_, sizeof(frames_))};
  bytes.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
  bytes.append(reinterpret_cast<const char*>(&frames_), sizeof(frames_));
  PULSE_RETURN_IF_ERROR(file_->WriteAt(bytes, size_));
  size_ += bytes.size();
  return file_->Sync();
}

absl::Status ReadCheckpoint(std::string_view bytes, const std::string& path,
                            const std::function<absl::Status(std::string_view)>& apply) {
  const auto damaged = [&path](size_t at) {
    return absl::DataLossError(cypher::Concat("the checkpoint ", path, " is damaged at byte ", at));
  };
  if (bytes.size() < kHeader || !bytes.starts_with(kMagic)) return damaged(0);
  uint32_t words[2];
  std::memcpy(words, bytes.data() + kMagic.size(), sizeof(words));
  if (words[0] == 0 || words[1] != 0) return damaged(kMagic.size());
  if (words[0] != kVersion) return NewerFormat(path, words[0], kVersion);
  uint64_t frames = 0;
  for (size_t at = kHeader;;) {
    Frame frame;
    if (bytes.size() - at < sizeof(frame)) return damaged(at);
    std::memcpy(&frame, bytes.data() + at, sizeof(frame));
    const size_t length = frame.length == 0 ? sizeof(uint64_t) : frame.length;
    const std::string_view rest = bytes.substr(at + sizeof(frame));
    if (rest.size() < length || Crc32c(rest.data(), length) != frame.crc) return damaged(at);
    if (frame.length == 0) {
      uint64_t written;
      std::memcpy(&written, rest.data(), sizeof(written));
      return written == frames && rest.size() == length ? absl::OkStatus() : damaged(at);
    }
    PULSE_RETURN_IF_ERROR(apply(rest.substr(0, length)));
    ++frames;
    at += sizeof(frame) + length;
  }
}

namespace {

// The frame at a place; false: there is none that is whole. length 0: the end.
bool FrameAt(std::string_view bytes, size_t at, Frame* frame, std::string_view* payload) {
  if (at > bytes.size() || bytes.size() - at < sizeof(*frame)) return false;
  std::memcpy(frame, bytes.data() + at, sizeof(*frame));
  const size_t length = frame->length == 0 ? sizeof(uint64_t) : frame->length;
  const std::string_view rest = bytes.substr(at + sizeof(*frame));
  if (rest.size() < length) return false;
  // Of an operation; what is searched for frames byte by byte has few such places.
  constexpr char kLastKind = static_cast<char>(Operation::Kind::kCounters);
  if (frame->length != 0 && (rest[0] < 1 || rest[0] > kLastKind)) return false;
  if (Crc32c(rest.data(), length) != frame->crc) return false;
  *payload = rest.substr(0, length);
  return true;
}

// Where the first whole frame behind a damaged one at `at` begins, or the end of the bytes.
size_t NextFrame(std::string_view bytes, size_t at) {
  Frame frame;
  std::string_view payload;
  if (bytes.size() - at >= sizeof(frame)) {
    // Its length is mostly good.
    std::memcpy(&frame, bytes.data() + at, sizeof(frame));
    const size_t next = at + sizeof(frame) + frame.length;
    if (frame.length != 0 && FrameAt(bytes, next, &frame, &payload)) return next;
  }
  for (++at; at < bytes.size(); ++at) {
    if (FrameAt(bytes, at, &frame, &payload)) return at;
  }
  return bytes.size();
}

}  // namespace

bool ReadDamagedCheckpoint(std::string_view bytes,
                           const std::function<void(std::string_view)>& apply,
                           const std::function<void(size_t, size_t)>& damaged) {
  bool whole = bytes.size() >= kHeader && bytes.starts_with(kMagic);
  if (!whole) damaged(0, std::min(bytes.size(), kHeader));
  Frame frame;
  std::string_view payload;
  for (size_t at = kHeader;;) {
    if (at >= bytes.size()) {
      // The end is missing, too.
      damaged(bytes.size(), bytes.size());
      return false;
    }
    if (FrameAt(bytes, at, &frame, &payload)) {
      at += sizeof(frame) + payload.size();
      if (frame.length != 0) {
        apply(payload);
        continue;
      }
      if (at != bytes.size()) damaged(at, bytes.size());
      return whole && at == bytes.size();
    }
    const size_t next = NextFrame(bytes, at);
    damaged(at, next);
    if (next == bytes.size()) return false;
    whole = false;
    at = next;
  }
}

absl::Status ReadCheckpointNames(Files* files, const std::string& path,
                                 const std::function<absl::Status(std::string_view)>& apply) {
  const auto damaged = [&path](uint64_t at) {
    return absl::DataLossError(cypher::Concat("the checkpoint ", path, " is damaged at byte ", at));
  };
  Frame frame;
  for (uint64_t at = kHeader;; at += sizeof(frame) + frame.length) {
    PULSE_ASSIGN_OR_RETURN(std::string bytes, files->ReadPart(path, at, sizeof(frame) + 1));
    if (bytes.size() <= sizeof(frame)) return damaged(at);
    std::memcpy(&frame, bytes.data(), sizeof(frame));
    if (frame.length == 0) return absl::OkStatus();
    if (bytes[sizeof(frame)] != static_cast<char>(Operation::Kind::kName)) continue;
    PULSE_ASSIGN_OR_RETURN(bytes, files->ReadPart(path, at + sizeof(frame), frame.length));
    if (bytes.size() != frame.length || Crc32c(bytes.data(), bytes.size()) != frame.crc) {
      return damaged(at);
    }
    PULSE_RETURN_IF_ERROR(apply(bytes));
  }
}

}  // namespace pulse::graph
