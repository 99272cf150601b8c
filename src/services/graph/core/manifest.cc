#include "services/graph/core/manifest.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/newer_format.h"
#include "services/graph/model/text.h"
#include "services/graph/model/value_codec.h"

namespace pulse::graph {
namespace {

using cypher::AppendVarint;
using cypher::ReadVarint;

// Magic, format, CRC-32C of what follows, and then varints.
constexpr std::string_view kMagic = "PULSEGRA";
constexpr size_t kHeader = 16;

bool ReadText(std::string_view* in, std::string* text) {
  uint64_t length;
  std::string_view bytes;
  if (!ReadVarint(in, &length) || !cypher::ReadBytes(in, length, &bytes)) return false;
  *text = bytes;
  return true;
}

bool ReadBody(std::string_view in, Manifest* m) {
  uint64_t count;
  if (!ReadText(&in, &m->checkpoint) || !ReadVarint(&in, &m->checkpoint_sequence) ||
      !ReadVarint(&in, &m->flushed) || !ReadVarint(&in, &m->first_segment) ||
      !ReadVarint(&in, &m->next_file) || !ReadVarint(&in, &m->next_edge) ||
      !ReadVarint(&in, &count) || count > in.size() ||
      std::max({m->checkpoint_sequence, m->flushed, m->first_segment, m->next_file}) >
          kMaxStoredSequence) {
    return false;
  }
  m->next_edge = std::min(m->next_edge, kLocalEdgeIds);
  m->runs.resize(count);
  for (ManifestRun& run : m->runs) {
    uint64_t side, level;
    if (!ReadText(&in, &run.file) || !ReadVarint(&in, &side) || side > 1 ||
        !ReadVarint(&in, &level) || level > 64) {
      return false;
    }
    run.side = static_cast<Side>(side);
    run.level = static_cast<int>(level);
  }
  if (!ReadVarint(&in, &count) || count > in.size()) return false;
  m->edge_counts.resize(count);
  for (auto& [type, edges] : m->edge_counts) {
    uint64_t token, number;
    if (!ReadVarint(&in, &token) || token >= kNoToken || !ReadVarint(&in, &number)) return false;
    type = static_cast<Token>(token);
    edges = static_cast<int64_t>(number);
  }
  return in.empty();
}

}  // namespace

std::string Manifest::Encode() const {
  std::string body;
  const auto text = [&body](const std::string& s) {
    AppendVarint(s.size(), &body);
    body += s;
  };
  text(checkpoint);
  for (const uint64_t number :
       {checkpoint_sequence, flushed, first_segment, next_file, next_edge}) {
    AppendVarint(number, &body);
  }
  AppendVarint(runs.size(), &body);
  for (const ManifestRun& run : runs) {
    text(run.file);
    AppendVarint(static_cast<uint64_t>(run.side), &body);
    AppendVarint(static_cast<uint64_t>(run.level), &body);
  }
  AppendVarint(edge_counts.size(), &body);
  for (const auto& [type, edges] : edge_counts) {
    AppendVarint(type, &body);
    AppendVarint(static_cast<uint64_t>(edges), &body);
  }
  const uint32_t words[2] = {format, Crc32c(body.data(), body.size())};
  std::string out(kMagic);
  out.append(reinterpret_cast<const char*>(words), sizeof(words));
  return out + body;
}

absl::StatusOr<Manifest> Manifest::Decode(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kHeader || !bytes.starts_with(kMagic)) {
    return absl::DataLossError(cypher::Concat(path, " is no manifest of a graph database"));
  }
  uint32_t words[2];
  std::memcpy(words, bytes.data() + kMagic.size(), sizeof(words));
  // The checksum is in the same place in all formats, and tells damage from a format that is newer.
  if (words[0] > kStoreFormat && ChecksumFits(bytes)) {
    return NewerFormat(path, words[0], kStoreFormat);
  }
  if (words[0] == 0 || words[0] > kStoreFormat) {
    return absl::DataLossError(
        cypher::Concat(path, " is damaged: it has format ", words[0], ", which there is not"));
  }
  PULSE_ASSIGN_OR_RETURN(Manifest manifest, DecodeBody(bytes, path));
  manifest.format = words[0];
  return manifest;
}

bool Manifest::ChecksumFits(std::string_view bytes) {
  if (bytes.size() < kHeader) return false;
  uint32_t words[2];
  std::memcpy(words, bytes.data() + kMagic.size(), sizeof(words));
  return words[1] == Crc32c(bytes.data() + kHeader, bytes.size() - kHeader);
}

absl::StatusOr<Manifest> Manifest::DecodeBody(std::string_view bytes, const std::string& path) {
  if (bytes.size() < kHeader) {
    return absl::DataLossError(cypher::Concat(path, " is no manifest of a graph database"));
  }
  Manifest manifest;
  if (!ChecksumFits(bytes) || !ReadBody(bytes.substr(kHeader), &manifest)) {
    return absl::DataLossError(cypher::Concat(path, " is damaged"));
  }
  return manifest;
}

}  // namespace pulse::graph
