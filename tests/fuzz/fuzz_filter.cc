// Filters: rules and records that anybody may have written. What a set of rules selects from a
// block is what RE2 selects record by record; whatever a source reads, its chunks are whole records
// that make up the input, or an error.
#include <re2/re2.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "fuzz_input.h"
#include "services/ops/filter/matcher.h"
#include "services/ops/filter/record_source.h"
#include "services/ops/filter/rule_set.h"

namespace pulse::filter {
namespace {

// Rules that are longer take Vectorscan seconds to compile, and are made of the same parts.
constexpr size_t kLongestRule = 40;

std::string UpTo(std::string* text, char end, size_t most) {
  const std::string part = text->substr(0, std::min(text->find(end), most));
  text->erase(0, std::min(text->size(), part.size() + 1));
  return part;
}

void CheckRules(bool ignore_case, bool prefixed, bool try_rules, std::string text) {
  RuleSetOptions options;
  options.ignore_case = ignore_case;
  options.records = prefixed ? Records::kPrefixed : Records::kLines;
  options.try_rules = try_rules;
  std::vector<Rule> rules;
  for (int i = 0; i < 2; ++i) rules.push_back({UpTo(&text, '\0', kLongestRule), "rule"});
  auto set = RuleSet::Compile(rules, options);
  RE2::Options re2_options;
  re2_options.set_log_errors(false);
  re2_options.set_case_sensitive(!ignore_case);
  const RE2 first(rules[0].text, re2_options);
  const RE2 second(rules[1].text, re2_options);
  FUZZ_CHECK(set.ok() || !first.ok() || !second.ok() ||
             set.status().code() != absl::StatusCode::kInvalidArgument);
  if (!set.ok() || !first.ok() || !second.ok()) return;
  auto matcher = Matcher::Make(set->get());
  FUZZ_CHECK(matcher.ok());
  std::vector<Hit> hits;
  const absl::Status status = (*matcher)->Match(text, &hits);
  FUZZ_CHECK(status.ok() || prefixed);
  if (!status.ok()) return;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    size_t end = std::min(text.find('\n', at), text.size());
    if (prefixed) {
      uint32_t length = 0;
      std::memcpy(&length, text.data() + at, 4);
      begin = at + 4;
      end = begin + length;
    }
    at = prefixed ? end : end + 1;
    const re2::StringPiece record(text.data() + begin, end - begin);
    const bool matches = RE2::PartialMatch(record, first) || RE2::PartialMatch(record, second);
    const bool hit = next < hits.size() && hits[next].begin == begin && hits[next].end == end;
    FUZZ_CHECK(hit == matches);
    if (hit) ++next;
  }
  FUZZ_CHECK(next == hits.size());
}

void CheckSource(bool prefixed, uint64_t chunk_bytes, uint64_t max_record,
                 const std::string& text) {
  const pulse::UniqueFd fd(memfd_create("records", MFD_CLOEXEC));
  FUZZ_CHECK(write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  FUZZ_CHECK(lseek(fd.get(), 0, SEEK_SET) == 0);
  SourceOptions options;
  options.records = prefixed ? Records::kPrefixed : Records::kLines;
  options.chunk_bytes = 1 + chunk_bytes;
  options.max_record = 1 + max_record;
  auto source = RecordSource::Make(fd.get(), options);
  FUZZ_CHECK(source.ok());
  std::string all;
  while (true) {
    pulse::ops::Chunk chunk;
    const auto more = (*source)->Next(chunk);
    if (!more.ok()) return;
    if (!*more) break;
    FUZZ_CHECK((*source)->Load(chunk).ok());
    FUZZ_CHECK(chunk.offset == all.size() && chunk.size() > 0);
    all.append(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    FUZZ_CHECK(prefixed || all.back() == '\n' || all.size() == text.size());
  }
  FUZZ_CHECK(all == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  const uint64_t kind = in.Below(3);
  const bool prefixed = in.Below(2) == 1;
  const bool ignore_case = in.Below(2) == 1;
  const bool try_rules = in.Below(2) == 1;
  if (kind == 0) {
    const uint64_t chunk_bytes = in.Number<uint16_t>() % 300;
    const uint64_t max_record = in.Number<uint16_t>();
    CheckSource(prefixed, chunk_bytes, max_record, in.Rest());
  } else {
    CheckRules(ignore_case, prefixed, try_rules, in.Rest());
  }
  return 0;
}

}  // namespace pulse::filter
