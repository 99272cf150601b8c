#include "services/ops/filter/filter_engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::filter {

absl::StatusOr<std::unique_ptr<FilterEngine>> FilterEngine::Make(const RuleSet* rules,
                                                                 Selection selection,
                                                                 ops::EngineTraits traits) {
  const int lanes = traits.lanes;
  std::unique_ptr<FilterEngine> engine(new FilterEngine(rules, selection, std::move(traits)));
  for (int i = 0; i < lanes; ++i) {
    Lane lane;
    PULSE_ASSIGN_OR_RETURN(lane.matcher, Matcher::Make(rules, static_cast<uint64_t>(i) + 1));
    engine->lanes_.push_back(std::move(lane));
  }
  return engine;
}

absl::Status FilterEngine::Process(int lane_number, const ops::Chunk& chunk, ops::Result& result) {
  Lane& lane = lanes_[static_cast<size_t>(lane_number)];
  const absl::string_view block(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  if (const absl::Status status = lane.matcher->Match(block, &lane.hits); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(status.message(), " of the records at byte ",
                                                    chunk.offset, " of the input"));
  }
  result.count = lane.hits.size();
  if (selection_.invert) result.count = CountRecords(block) - result.count;
  switch (selection_.select) {
    case Select::kCount:
      break;
    case Select::kRecords:
      result.bytes.Reserve(std::bit_ceil(BytesOf(block, lane.hits)));
      if (selection_.invert) {
        TakeOthers(block, lane.hits, &result.bytes);
      } else {
        TakeRecords(block, lane.hits, &result.bytes);
      }
      // Of a last line without newline.
      if (rules_->records() == Records::kLines && result.bytes.size() > 0 &&
          result.bytes.view().back() != '\n') {
        result.bytes.Append("\n");
      }
      break;
    case Select::kCaptures:
      TakeCaptures(block, &lane, &result.bytes);
      break;
  }
  return absl::OkStatus();
}

// How much of the block is taken, with a newline behind it.
size_t FilterEngine::BytesOf(absl::string_view block, const std::vector<Hit>& hits) const {
  size_t bytes = 0;
  for (const Hit& hit : hits) bytes += hit.end + Behind() - (hit.begin - Before());
  return selection_.invert ? block.size() + 1 - bytes : bytes + 1;
}

// Records that follow each other are copied together.
void FilterEngine::TakeRecords(absl::string_view block, const std::vector<Hit>& hits,
                               ops::Buffer* out) const {
  for (size_t i = 0; i < hits.size();) {
    const size_t begin = hits[i].begin - Before();
    size_t end = hits[i].end + Behind();
    for (++i; i < hits.size() && hits[i].begin - Before() == end; ++i) end = hits[i].end + Behind();
    out->Append(block.substr(begin, end - begin));
  }
}

void FilterEngine::TakeOthers(absl::string_view block, const std::vector<Hit>& hits,
                              ops::Buffer* out) const {
  size_t begin = 0;
  for (const Hit& hit : hits) {
    const size_t end = hit.begin - Before();
    if (end > begin) out->Append(block.substr(begin, end - begin));
    begin = hit.end + Behind();
  }
  if (begin < block.size()) out->Append(block.substr(begin));
}

void FilterEngine::TakeCaptures(absl::string_view block, Lane* lane, ops::Buffer* out) const {
  for (const Hit& hit : lane->hits) {
    const re2::StringPiece record(block.data() + hit.begin, hit.end - hit.begin);
    const size_t start = out->size();
    if (rules_->records() == Records::kPrefixed) out->Append("\0\0\0\0", 4);
    for (const RuleSet::Compiled& rule : rules_->rules()) {
      const int groups = rule.re2->NumberOfCapturingGroups();
      lane->captures.resize(static_cast<size_t>(groups) + 1);
      if (!rule.re2->Match(record, 0, record.size(), RE2::UNANCHORED, lane->captures.data(),
                           groups + 1)) {
        continue;
      }
      for (size_t i = groups == 0 ? 0 : 1; i < lane->captures.size(); ++i) {
        if (i > 1) out->Append("\t");
        out->Append(lane->captures[i].data(), lane->captures[i].size());
      }
      break;
    }
    if (rules_->records() == Records::kLines) {
      out->Append("\n");
      continue;
    }
    const size_t size = out->size() - start - 4;
    for (size_t i = 0; i < 4; ++i) out->data()[start + i] = static_cast<uint8_t>(size >> (8 * i));
  }
}

uint64_t FilterEngine::CountRecords(absl::string_view block) const {
  uint64_t count = 0;
  if (rules_->records() == Records::kLines) {
    count = static_cast<uint64_t>(std::count(block.begin(), block.end(), '\n'));
    return count + (block.empty() || block.back() == '\n' ? 0 : 1);
  }
  for (size_t at = 0; at < block.size(); ++count) {
    uint32_t length = 0;
    for (size_t i = 0; i < 4; ++i) {
      length |= uint32_t{static_cast<unsigned char>(block[at + i])} << (8 * i);
    }
    at += size_t{4} + length;
  }
  return count;
}

}  // namespace pulse::filter
