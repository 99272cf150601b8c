// LCS: the longest common subsequence of two values, its length, or where its parts are.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// Of one value's bytes with the other's: a command's time and memory (a bit for each) are bounded.
constexpr uint64_t kMostPairs = uint64_t{32} << 20;

struct LcsOptions {
  bool length = false;
  bool indexes = false;
  bool match_lengths = false;
  int64_t least_match = 0;
};

// False after an error reply.
bool ReadOptions(Call& call, LcsOptions* options) {
  for (size_t i = 3; i < call.args.size(); ++i) {
    const std::string_view word = call.args[i];
    if (EqualsIgnoringCase(word, "idx")) {
      options->indexes = true;
    } else if (EqualsIgnoringCase(word, "len")) {
      options->length = true;
    } else if (EqualsIgnoringCase(word, "withmatchlen")) {
      options->match_lengths = true;
    } else if (EqualsIgnoringCase(word, "minmatchlen") && i + 1 < call.args.size()) {
      if (!ReadInteger(call, call.args[++i], &options->least_match)) return false;
    } else {
      return Refuse(call, kSyntaxError);
    }
  }
  if (!options->length || !options->indexes) return true;
  return Refuse(call, "ERR If you want both the length and indexes, please just use IDX.");
}

// Lengths for all pairs of prefixes take two rows at a time, of the shorter value. The way back
// needs a bit of each pair: whether it is the one that drops a byte of the longer value. Of two
// ways that are as good, that which drops one of `b` counts.
class LcsTable {
 public:
  LcsTable(std::string_view a, std::string_view b, bool with_way)
      : long_is_b_(b.size() > a.size()),
        long_(long_is_b_ ? b : a),
        short_(long_is_b_ ? a : b),
        row_(short_.size() + 1) {
    if (short_.empty()) return;
    if (with_way) drop_long_.resize(long_.size() * short_.size());
    for (size_t i = 0; i < long_.size(); ++i) {
      uint32_t diagonal = 0;  // of the row above, one to the left
      for (size_t j = 0; j < short_.size(); ++j) {
        const uint32_t above = row_[j + 1];
        const uint32_t left = row_[j];
        if (long_[i] == short_[j]) {
          row_[j + 1] = diagonal + 1;
        } else if (above > left || (above == left && long_is_b_)) {
          if (with_way) drop_long_[i * short_.size() + j] = true;
        } else {
          row_[j + 1] = left;
        }
        diagonal = above;
      }
    }
  }

  uint32_t length() const { return row_.back(); }

  // Calls `use` with the place in each value of each byte of the sequence, from the last one on.
  template <typename Use>
  void WalkBack(Use use) const {
    size_t i = long_.size();
    size_t j = short_.size();
    while (i > 0 && j > 0) {
      if (long_[i - 1] == short_[j - 1]) {
        --i;
        --j;
        long_is_b_ ? use(j, i) : use(i, j);
      } else {
        --(drop_long_[(i - 1) * short_.size() + j - 1] ? i : j);
      }
    }
  }

 private:
  const bool long_is_b_;
  const std::string_view long_;
  const std::string_view short_;
  std::vector<uint32_t> row_;
  std::vector<bool> drop_long_;
};

// `size` bytes of both values that are the same.
struct Match {
  size_t a;
  size_t b;
  size_t size;
};

void ReplyRange(Call& call, size_t begin, size_t size) {
  call.reply.Array(2);
  call.reply.Integer(static_cast<int64_t>(begin));
  call.reply.Integer(static_cast<int64_t>(begin + size - 1));
}

void ReplyMatches(Call& call, const LcsTable& table, const LcsOptions& options) {
  std::vector<Match> matches;
  table.WalkBack([&](size_t a, size_t b) {
    if (!matches.empty() && matches.back().a == a + 1 && matches.back().b == b + 1) {
      matches.back() = {a, b, matches.back().size + 1};
    } else {
      matches.push_back({a, b, 1});
    }
  });
  std::erase_if(matches, [&](const Match& match) {
    return static_cast<int64_t>(match.size) < options.least_match;
  });
  call.reply.Map(2);
  call.reply.Bulk("matches");
  call.reply.Array(matches.size());
  for (const Match& match : matches) {
    call.reply.Array(options.match_lengths ? 3 : 2);
    ReplyRange(call, match.a, match.size);
    ReplyRange(call, match.b, match.size);
    if (options.match_lengths) call.reply.Integer(static_cast<int64_t>(match.size));
  }
  call.reply.Bulk("len");
  call.reply.Integer(table.length());
}

void Lcs(Call& call) {
  Found found[2];
  std::string_view values[2];
  for (size_t i = 0; i < 2; ++i) {
    if (!call.view.Get(call.args[i + 1], &found[i])) return;
    if (found[i].exists) values[i] = found[i].value.data;
  }
  LcsOptions options;
  if (!ReadOptions(call, &options)) return;
  const std::string_view a = values[0];
  const std::string_view b = values[1];
  if (!a.empty() && b.size() > kMostPairs / a.size()) {
    return call.reply.Error(absl::StrCat("ERR Insufficient memory: values of ", a.size(), " and ",
                                         b.size(), " bytes; their product may be ", kMostPairs));
  }
  const LcsTable table(a, b, !options.length);
  if (options.length) return call.reply.Integer(table.length());
  if (options.indexes) return ReplyMatches(call, table, options);
  std::string sequence(table.length(), '\0');
  size_t left = sequence.size();
  table.WalkBack([&](size_t at, size_t) { sequence[--left] = a[at]; });
  call.reply.Bulk(sequence);
}

constexpr Handling kHandlings[] = {{Command::kLcs, Lcs}};

}  // namespace

absl::Span<const Handling> SequenceCommands() { return kHandlings; }

}  // namespace pulse::redis
