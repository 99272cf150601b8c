#include "services/ops/filter/matcher.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pulse::filter {
namespace {

// Scanned at a time: the bytes are in the nearer caches when a line is looked at again.
constexpr size_t kPart = size_t{128} << 10;
// One record of so many bytes is a sample, which is decided for so many rules.
constexpr uint64_t kSampleEvery = uint64_t{256} << 10;
constexpr size_t kRulesOfSample = 8;
constexpr size_t kLongestSample = size_t{64} << 10;
constexpr size_t kLengthBytes = 4;
constexpr size_t kAskedBeforeAll = 64;

size_t FindFolded(absl::string_view text, absl::string_view piece, size_t from) {
  for (size_t at = from; at + piece.size() <= text.size(); ++at) {
    size_t i = 0;
    while (i < piece.size() &&
           absl::ascii_tolower(static_cast<unsigned char>(text[at + i])) == piece[i]) {
      ++i;
    }
    if (i == piece.size()) return at;
  }
  return absl::string_view::npos;
}

size_t OffsetIn(absl::string_view block, const void* at) {
  return static_cast<size_t>(static_cast<const char*>(at) - block.data());
}

// Whether a chain matches a line: each piece is taken where it first can be, which leaves the most
// room for the next. `readable`: how many bytes from the line's begin may be read.
bool ChainMatches(const Chain& chain, absl::string_view line, size_t readable) {
  const auto find = [&](absl::string_view piece, size_t from) {
    if (from + piece.size() > line.size()) return absl::string_view::npos;
    if (chain.ignore_case) return FindFolded(line, piece, from);
    const char* const found =
        FindText(line.data() + from, line.data() + line.size(), line.data() + readable, piece);
    return found == nullptr ? absl::string_view::npos : static_cast<size_t>(found - line.data());
  };
  const auto stands = [&](absl::string_view piece, size_t at) {
    const absl::string_view there = line.substr(at, piece.size());
    return chain.ignore_case ? FindFolded(there, piece, 0) == 0 : there == piece;
  };
  size_t from = 0;
  const size_t count = chain.pieces.size();
  for (size_t i = 0; i < count; ++i) {
    const absl::string_view piece = chain.pieces[i].bytes;
    from += chain.pieces[i].gap;
    if (from + piece.size() > line.size()) return false;
    const bool first = i == 0 && chain.from_start;
    const bool last = i + 1 == count && chain.to_end;
    size_t at = first ? 0 : last ? line.size() - piece.size() : find(piece, from);
    if (at == absl::string_view::npos || at < from) return false;
    if ((first || last) && !stands(piece, at)) return false;
    from = at + piece.size();
    if (last && from != line.size()) return false;
  }
  return line.size() - from >= chain.last_gap;
}

}  // namespace

bool IsAscii(absl::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  constexpr uint64_t kHigh = 0x8080808080808080;
  for (; end - at >= 64; at += 64) {
    uint64_t words[8];
    std::memcpy(words, at, sizeof(words));
    if (((words[0] | words[1] | words[2] | words[3] | words[4] | words[5] | words[6] | words[7]) &
         kHigh) != 0) {
      return false;
    }
  }
  for (; end - at >= 8; at += 8) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    if ((word & kHigh) != 0) return false;
  }
  for (; at < end; ++at) {
    if (static_cast<signed char>(*at) < 0) return false;
  }
  return true;
}

// The line of the last candidate, and what is known of it.
class Matcher::Line {
 public:
  Line(const RuleSet& rules, absl::string_view data, bool mixed)
      : rules_(rules), data_(data), mixed_(mixed) {}

  size_t begin() const { return begin_; }
  size_t end() const { return end_; }
  bool hit() const { return hit_; }
  void set_hit() { hit_ = true; }

  // Makes the line in which a match ends at `at` the current one. False if there is none: `at` lies
  // behind the last newline.
  bool MoveTo(size_t at) {
    if (at >= begin_ && at <= end_) return true;
    if (at == data_.size() && data_.back() == '\n') return false;
    // A line that ends before `at` need not be searched for its end again.
    const size_t from = begin_ <= end_ && at > end_ ? end_ + 1 : 0;
    const void* before = memrchr(data_.data() + from, '\n', at - from);
    const void* after = memchr(data_.data() + at, '\n', data_.size() - at);
    begin_ = before == nullptr ? from : OffsetOf(before) + 1;
    end_ = after == nullptr ? data_.size() : OffsetOf(after);
    hit_ = false;
    ascii_ = kUnknown;
    refuted_.clear();
    return true;
  }

  // Whether a candidate in this line is a match.
  bool Accepts(const Candidate& candidate) {
    const RuleSet::Compiled& rule = rules_.rules()[candidate.rule];
    const bool one_piece = candidate.chain != nullptr && candidate.chain->pieces.size() == 1;
    if (one_piece && !StandsRight(*candidate.chain, candidate.piece_end)) return false;
    const bool asks = rule.confirm ||
                      (rule.confirm_others && (mixed_ ? rule.confirm_mixed || !Ascii() : !Ascii()));
    if ((candidate.chain == nullptr || one_piece) && !asks) return true;
    const void* key =
        candidate.chain != nullptr ? static_cast<const void*>(candidate.chain) : &rule;
    if (std::find(refuted_.begin(), refuted_.end(), key) != refuted_.end()) return false;
    const absl::string_view line = data_.substr(begin_, end_ - begin_);
    if ((candidate.chain == nullptr || one_piece ||
         ChainMatches(*candidate.chain, line, data_.size() - begin_)) &&
        (!asks || rules_.Re2Accepts(candidate.rule, line))) {
      return true;
    }
    refuted_.push_back(key);
    return false;
  }

 private:
  enum Ascii : uint8_t { kUnknown, kYes, kNo };

  size_t OffsetOf(const void* at) const {
    return static_cast<size_t>(static_cast<const char*>(at) - data_.data());
  }
  bool Ascii() {
    // Where many lines are asked about, the whole of the data is.
    if (data_ascii_ == kUnknown && ++asked_ > kAskedBeforeAll) {
      data_ascii_ = IsAscii(data_) ? kYes : kNo;
    }
    if (data_ascii_ == kYes) return true;
    if (ascii_ == kUnknown) {
      ascii_ = IsAscii(data_.substr(begin_, end_ - begin_)) ? kYes : kNo;
    }
    return ascii_ == kYes;
  }
  // Of a chain of one piece: whether the one that ends at `piece_end` is where it has to be.
  bool StandsRight(const Chain& chain, size_t piece_end) const {
    const Piece& piece = chain.pieces.front();
    const size_t before = piece_end - piece.bytes.size() - begin_;
    const size_t behind = end_ - piece_end;
    return before >= piece.gap && behind >= chain.last_gap && (!chain.from_start || before == 0) &&
           (!chain.to_end || behind == 0);
  }

  const RuleSet& rules_;
  const absl::string_view data_;
  const bool mixed_;  // scanned with what suits all records, and there is something for ASCII
  size_t begin_ = SIZE_MAX;
  size_t end_ = 0;
  bool hit_ = false;
  enum Ascii ascii_ = kUnknown;
  enum Ascii data_ascii_ = kUnknown;
  size_t asked_ = 0;
  std::vector<const void*> refuted_;  // chains and rules that do not match this line
};

absl::StatusOr<std::unique_ptr<Matcher>> Matcher::Make(const RuleSet* rules, uint64_t seed) {
  std::unique_ptr<Matcher> matcher(new Matcher(rules, seed));
  PULSE_ASSIGN_OR_RETURN(matcher->ascii_scratch_, rules->ascii_scanner().MakeScratch());
  if (!rules->one_scanner()) {
    PULSE_ASSIGN_OR_RETURN(matcher->any_scratch_, rules->scanner().MakeScratch());
  }
  return matcher;
}

const Scanner& Matcher::ScannerFor(absl::string_view bytes, hs_scratch_t** scratch) const {
  const bool any = !rules_->one_scanner() && !IsAscii(bytes);
  *scratch = any ? any_scratch_.get() : ascii_scratch_.get();
  return any ? rules_->scanner() : rules_->ascii_scanner();
}

absl::Status Matcher::Match(absl::string_view block, std::vector<Hit>* hits) {
  hits->clear();
  if (rules_->records() == Records::kPrefixed) return MatchPrefixed(block, hits);
  for (size_t begin = 0; begin < block.size();) {
    size_t end = block.size();
    if (end - begin > kPart) {
      const size_t newline = block.rfind('\n', begin + kPart - 1);
      // A line that is longer than a part is a part of its own.
      const bool fits = newline != absl::string_view::npos && newline >= begin;
      const size_t last = fits ? newline : block.find('\n', begin + kPart);
      if (last != absl::string_view::npos) end = last + 1;
    }
    PULSE_RETURN_IF_ERROR(MatchLines(block, begin, end, hits));
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status Matcher::MatchLines(absl::string_view block, size_t begin, size_t end,
                                 std::vector<Hit>* hits) {
  const size_t first = hits->size();
  if (rules_->accepts_all()) {
    while (begin < end) {
      const size_t newline = block.find('\n', begin);
      const size_t line_end = std::min(newline, end);
      hits->push_back({begin, line_end, kNoRule});
      begin = line_end + 1;
    }
    return absl::OkStatus();
  }
  do {
    hits->resize(first);
    PULSE_RETURN_IF_ERROR(ScanLines(block.substr(begin, end - begin), begin, hits));
    if (rules_->AnyRe2Rule()) AddRe2Hits(block, begin, end, first, hits);
  } while (!SampleAgrees(block, begin, end, *hits, first));
  return absl::OkStatus();
}

absl::Status Matcher::ScanLines(absl::string_view part, size_t offset, std::vector<Hit>* hits) {
  hs_scratch_t* scratch = nullptr;
  const Scanner& scanner = ScannerFor(part, &scratch);
  if (scanner.empty() || part.empty()) return absl::OkStatus();
  const size_t first = hits->size();
  bool ordered = true;
  Line line(*rules_, part, !rules_->one_scanner());
  PULSE_RETURN_IF_ERROR(scanner.Scan(part, scratch, [&](const Candidate& candidate) {
    if (!line.MoveTo(candidate.piece_end)) return Scanner::kGoOn;
    if (line.hit()) return line.end() + 1;
    if (rules_->IsQuarantined(candidate.rule) || !line.Accepts(candidate)) return Scanner::kGoOn;
    line.set_hit();
    const size_t begin = offset + line.begin();
    ordered = ordered && (hits->size() == first || hits->back().begin < begin);
    hits->push_back({begin, offset + line.end(), candidate.rule});
    return line.end() + 1;
  }));
  if (!ordered) {
    const auto from = hits->begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(from, hits->end(), [](const Hit& a, const Hit& b) {
      return std::pair(a.begin, a.rule) < std::pair(b.begin, b.rule);
    });
    const auto same = [](const Hit& a, const Hit& b) { return a.begin == b.begin; };
    hits->erase(std::unique(from, hits->end(), same), hits->end());
  }
  return absl::OkStatus();
}

// Asks RE2 about the lines that no scanner has found.
void Matcher::AddRe2Hits(absl::string_view block, size_t begin, size_t end, size_t first,
                         std::vector<Hit>* hits) const {
  const size_t found = hits->size();
  size_t next = first;
  if (const TextFinder* finder = rules_->re2_finder(); finder != nullptr) {
    const absl::string_view part = block.substr(begin, end - begin);
    finder->Find(part, [&](size_t text, size_t text_end) {
      const size_t at = begin + text_end - 1;  // in the text, which has no newline
      const void* const before = memrchr(block.data() + begin, '\n', at - begin);
      const size_t line = before == nullptr ? begin : OffsetIn(block, before) + 1;
      const void* const behind = memchr(block.data() + at, '\n', end - at);
      const size_t line_end = behind == nullptr ? end : OffsetIn(block, behind);
      if (!rules_->Re2MayAccept(text, block.substr(line, line_end - line)))
        return TextFinder::kGoOn;
      while (next < found && (*hits)[next].begin < line) ++next;
      const bool is_hit = next < found && (*hits)[next].begin == line;
      if (!is_hit && rules_->Re2RulesAccept(block.substr(line, line_end - line))) {
        hits->push_back({line, line_end, kNoRule});
      }
      return line_end + 1 - begin;
    });
    begin = end;
  }
  while (begin < end) {
    if (next < found && (*hits)[next].begin == begin) {
      begin = (*hits)[next++].end + 1;
      continue;
    }
    const size_t line_end = std::min(block.find('\n', begin), end);
    if (rules_->Re2RulesAccept(block.substr(begin, line_end - begin))) {
      hits->push_back({begin, line_end, kNoRule});
    }
    begin = line_end + 1;
  }
  const auto from = hits->begin() + static_cast<std::ptrdiff_t>(first);
  std::inplace_merge(from, hits->begin() + static_cast<std::ptrdiff_t>(found), hits->end(),
                     [](const Hit& a, const Hit& b) { return a.begin < b.begin; });
}

absl::Status Matcher::MatchPrefixed(absl::string_view block, std::vector<Hit>* hits) {
  for (size_t at = 0; at < block.size();) {
    uint32_t length = 0;
    if (block.size() - at >= kLengthBytes) {
      for (size_t i = 0; i < kLengthBytes; ++i) {
        length |= uint32_t{static_cast<unsigned char>(block[at + i])} << (8 * i);
      }
    }
    if (block.size() - at < kLengthBytes || block.size() - at - kLengthBytes < length) {
      return absl::DataLossError(absl::StrCat("a record is cut off at byte ", at));
    }
    const size_t begin = at + kLengthBytes;
    at = begin + length;
    bool matches = rules_->accepts_all();
    uint32_t rule = kNoRule;
    if (!matches) {
      PULSE_ASSIGN_OR_RETURN(rule, MatchRecord(block.substr(begin, length), &matches));
    }
    if (matches) hits->push_back({begin, at, rule});
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> Matcher::MatchRecord(absl::string_view record, bool* matches) {
  const uint64_t cost = record.size() + kLengthBytes;
  const bool sample = until_sample_ <= cost;
  until_sample_ = sample ? kSampleEvery : until_sample_ - cost;
  while (true) {
    uint32_t rule = kNoRule;
    *matches = false;
    if (record.empty()) {  // of which Vectorscan says nothing
      *matches = rules_->accepts_empty();
      return rule;
    }
    hs_scratch_t* scratch = nullptr;
    const Scanner& scanner = ScannerFor(record, &scratch);
    std::vector<uint32_t> refuted;
    PULSE_RETURN_IF_ERROR(scanner.Scan(record, scratch, [&](const Candidate& candidate) {
      const RuleSet::Compiled& compiled = rules_->rules()[candidate.rule];
      if (rules_->IsQuarantined(candidate.rule)) return Scanner::kGoOn;
      if (compiled.confirm || (compiled.confirm_others && !IsAscii(record))) {
        if (std::find(refuted.begin(), refuted.end(), candidate.rule) != refuted.end()) {
          return Scanner::kGoOn;
        }
        if (!rules_->Re2Accepts(candidate.rule, record)) {
          refuted.push_back(candidate.rule);
          return Scanner::kGoOn;
        }
      }
      rule = candidate.rule;
      *matches = true;
      return Scanner::kStop;
    }));
    if (!*matches && rules_->AnyRe2Rule()) *matches = rules_->Re2RulesAccept(record);
    if (!sample || RecordAgrees(record, *matches, rule)) return rule;
  }
}

bool Matcher::SampleAgrees(absl::string_view block, size_t begin, size_t end,
                           const std::vector<Hit>& hits, size_t first) {
  const uint64_t cost = end - begin;
  if (until_sample_ > cost) {
    until_sample_ -= cost;
    return true;
  }
  until_sample_ = kSampleEvery / 2 + random_() % kSampleEvery;
  if (begin == end) return true;
  const size_t at = begin + static_cast<size_t>(random_() % cost);
  const size_t before = at == begin ? absl::string_view::npos : block.rfind('\n', at - 1);
  const size_t line_begin =
      before == absl::string_view::npos || before < begin ? begin : before + 1;
  const size_t line_end = std::min(block.find('\n', line_begin), end);
  const auto hit =
      std::lower_bound(hits.begin() + static_cast<std::ptrdiff_t>(first), hits.end(), line_begin,
                       [](const Hit& a, size_t line) { return a.begin < line; });
  const bool is_hit = hit != hits.end() && hit->begin == line_begin;
  if (RecordAgrees(block.substr(line_begin, line_end - line_begin), is_hit,
                   is_hit ? hit->rule : kNoRule)) {
    return true;
  }
  until_sample_ = 0;  // the same part has to show now that nothing else is wrong with it
  return false;
}

bool Matcher::RecordAgrees(absl::string_view record, bool hit, uint32_t rule) {
  if (record.size() > kLongestSample) return true;
  if (hit) {
    if (rule == kNoRule || rules_->IsQuarantined(rule) || rules_->Re2Accepts(rule, record)) {
      return true;
    }
    rules_->Quarantine(rule, record, true);
    return false;
  }
  const size_t count = rules_->rules().size();
  for (size_t i = 0; i < std::min(count, kRulesOfSample); ++i) {
    next_rule_ = (next_rule_ + 1) % count;
    if (!rules_->Re2Accepts(next_rule_, record)) continue;
    rules_->Quarantine(static_cast<uint32_t>(next_rule_), record, false);
    return false;
  }
  return true;
}

absl::Status Matcher::MatchAllRules(
    const Scanner& scanner, absl::string_view block,
    const std::function<void(size_t begin, uint32_t rule)>& on_match) {
  if (scanner.empty()) return absl::OkStatus();
  if (block.empty()) {
    for (size_t i = 0; i < rules_->rules().size(); ++i) {
      if (rules_->Re2Accepts(i, block)) on_match(0, static_cast<uint32_t>(i));
    }
    return absl::OkStatus();
  }
  hs_scratch_t* scratch =
      &scanner == &rules_->ascii_scanner() ? ascii_scratch_.get() : any_scratch_.get();
  const bool mixed = !rules_->one_scanner() && &scanner == &rules_->scanner();
  if (rules_->records() == Records::kLines) {
    Line line(*rules_, block, mixed);
    return scanner.Scan(block, scratch, [&](const Candidate& candidate) {
      if (line.MoveTo(candidate.piece_end) && line.Accepts(candidate)) {
        on_match(line.begin(), candidate.rule);
      }
      return Scanner::kGoOn;
    });
  }
  // One record, without its length.
  return scanner.Scan(block, scratch, [&](const Candidate& candidate) {
    const RuleSet::Compiled& rule = rules_->rules()[candidate.rule];
    const bool asks = rule.confirm || (rule.confirm_others && (!IsAscii(block) || mixed));
    if (!asks || rules_->Re2Accepts(candidate.rule, block)) on_match(0, candidate.rule);
    return Scanner::kGoOn;
  });
}

}  // namespace pulse::filter
