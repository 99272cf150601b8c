#include "services/ops/filter/char_set.h"

#include <re2/re2.h>

#include <map>
#include <mutex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace pulse::filter {
namespace {

constexpr uint32_t kEnd = 0x110000;
constexpr uint32_t kFewOthers = 0x1000;

// Code points from the first one beyond ASCII up to `end`, one after another: RE2 finds those that
// a class accepts by one search.
std::string OthersUpTo(uint32_t end) {
  std::string all;
  all.reserve(size_t{4} * end);
  for (uint32_t c = kAsciiSize; c < end; ++c) AppendUtf8(c, &all);
  return all;
}

// The code point whose form stands at `offset` of these.
uint32_t OtherAt(size_t offset) {
  constexpr size_t kTwo = size_t{0x800 - 0x80} * 2;
  constexpr size_t kThree = kTwo + size_t{0x10000 - 0x800} * 3;
  if (offset < kTwo) return static_cast<uint32_t>(0x80 + offset / 2);
  if (offset < kThree) return static_cast<uint32_t>(0x800 + (offset - kTwo) / 3);
  return static_cast<uint32_t>(0x10000 + (offset - kThree) / 4);
}

// Whether a token can accept something beyond ASCII; when in doubt, yes.
bool MayHaveOthers(absl::string_view token, absl::string_view flags) {
  if (flags.find('i') != absl::string_view::npos) return true;
  for (size_t i = 0; i < token.size(); ++i) {
    const char c = token[i];
    if (!absl::ascii_isascii(static_cast<unsigned char>(c)) || c == '^' || c == '.') return true;
    if (c != '\\' || i + 1 == token.size()) continue;
    ++i;
    if (absl::string_view("pPxDWSC01234567").find(token[i]) != absl::string_view::npos) return true;
  }
  return false;
}

// Those of `text`, which begins with the first one, that `whole` accepts.
void AddOthers(const RE2& whole, const std::string& text, CharSet* set) {
  set->others.clear();
  re2::StringPiece found;
  for (size_t from = 0; from < text.size();) {
    if (!whole.Match(text, from, text.size(), RE2::UNANCHORED, &found, 1)) return;
    if (set->others.size() == CharSet::kListed) {
      set->others.clear();
      set->many_others = true;
      return;
    }
    const auto at = static_cast<size_t>(found.data() - text.data());
    set->others.push_back(OtherAt(at));
    from = at + found.size();
  }
}

CharSet Ask(absl::string_view token, absl::string_view flags) {
  RE2::Options options;
  options.set_log_errors(false);
  const std::string one =
      flags.empty() ? absl::StrCat("(?:", token, ")") : absl::StrCat("(?", flags, ":", token, ")");
  CharSet set;
  const RE2 whole(one, options);
  if (!whole.ok()) return set;
  for (int c = 0; c < kAsciiSize; ++c) {
    const char byte = static_cast<char>(c);
    set.ascii[static_cast<size_t>(c)] = RE2::FullMatch(re2::StringPiece(&byte, 1), whole);
  }
  if (!MayHaveOthers(token, flags)) return set;
  // Few are enough for those that accept many, and all of them are a few MiB.
  static const auto* const few = new std::string(OthersUpTo(kFewOthers));
  AddOthers(whole, *few, &set);
  if (set.many_others) return set;
  static const auto* const all = new std::string(OthersUpTo(kEnd));
  AddOthers(whole, *all, &set);
  return set;
}

}  // namespace

void AppendUtf8(uint32_t c, std::string* out) {
  const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

bool CharSet::IsDot() const {
  if (!many_others || any_byte) return false;
  std::bitset<kAsciiSize> missing = ~ascii;
  missing['\n'] = false;
  return missing.none();
}

CharSet CharSet::Of(uint32_t code_point) {
  CharSet set;
  if (code_point < kAsciiSize) {
    set.ascii[code_point] = true;
  } else {
    set.others.push_back(code_point);
  }
  return set;
}

CharSet CharSet::AnyByte() {
  CharSet set;
  set.ascii.set();
  set.any_byte = true;
  return set;
}

CharSet AskRe2(absl::string_view token, absl::string_view flags) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, CharSet>;
  const std::string key = absl::StrCat(flags, ":", token);
  const std::lock_guard<std::mutex> lock(mutex);
  const auto [it, added] = known->try_emplace(key);
  if (added) it->second = Ask(token, flags);
  return it->second;
}

}  // namespace pulse::filter
