#include "services/redis/acl/acl_user.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kSyntax = "Syntax error";
constexpr std::string_view kUnknown = "Unknown command or category name in ACL";
constexpr std::string_view kFirstArgument = "Allowing first-arg of a subcommand is not supported";
constexpr std::string_view kBadHash =
    "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
    "characters";
constexpr std::string_view kSanitize = "sanitize-payload";
constexpr std::string_view kSkipSanitize = "skip-sanitize-payload";
// Of one user: each request may be compared with all of them.
constexpr size_t kMostPatterns = 1024;
constexpr size_t kMostSelectors = 64;
constexpr size_t kMostHashes = 64;
constexpr std::string_view kTooMany = "There are too many of these";

std::string AfterAll(std::string_view what, std::string_view option) {
  return absl::StrCat("Adding a pattern after the * pattern (or the 'all", AbslOf(what),
                      "' flag) is not valid and does not have any effect. Try 'reset", AbslOf(what),
                      "' to start with an empty list of ", AbslOf(option));
}

bool HasBlank(std::string_view text) {
  return text.find_first_of(std::string_view(" \t\r\n\0", 5)) != std::string_view::npos;
}

// What a line of a file gives where it does not say +@all or -@all.
constexpr std::string_view kForAll[] = {"+@connection", "-@dangerous", "+@transaction",
                                        "+info",        "+time",       "+waitaof",
                                        "+acl|whoami",  "+acl|cat",    "+acl|genpass"};

// "config|get|appendonly".
bool IsArgumentOfSubcommand(std::string_view what) {
  const size_t bar = what.rfind('|');
  if (bar == std::string_view::npos || bar == 0) return false;
  const std::string_view sub = what.substr(0, bar);
  return sub.find('|') != std::string_view::npos && AclUnitsNamed(sub).any();
}

// Those that are not of a selector in brackets.
std::vector<std::string_view> RootWords(const std::vector<std::string>& words) {
  std::vector<std::string_view> root;
  bool inside = false;
  for (const std::string& word : words) {
    inside = inside || word.starts_with("(");
    if (!inside) root.push_back(word);
    inside = inside && !word.ends_with(")");
  }
  return root;
}

// What the last word that names this category says.
bool IsGranted(const std::vector<std::string_view>& words, std::string_view category) {
  bool granted = false;
  for (const std::string_view word : words) {
    if (EqualsIgnoringCase(word.substr(1), category)) granted = word[0] == '+';
  }
  return granted;
}

// SET and BITFIELD need less or more by their options.
KeyNeed NeedOf(const AclUnit& unit, bool is_first, const std::vector<std::string_view>& arguments) {
  if (unit.command->id == Command::kSet) {
    KeyNeed need{false, true};
    for (size_t i = 3; i < arguments.size(); ++i) {
      need.read |= EqualsIgnoringCase(arguments[i], "get");
    }
    return need;
  }
  if (unit.command->id == Command::kBitfield) {
    KeyNeed need{true, false};
    for (size_t i = 2; i < arguments.size(); ++i) {
      need.write |=
          EqualsIgnoringCase(arguments[i], "set") || EqualsIgnoringCase(arguments[i], "incrby");
    }
    return need;
  }
  return is_first ? unit.first : unit.rest;
}

}  // namespace

std::string AclSelector::Pattern::Describe() const {
  if (read && write) return absl::StrCat("~", text);
  return absl::StrCat(read ? "%R~" : "%W~", text);
}

std::string AclSelector::Apply(std::string_view word) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(word, name); };
  if (is("allkeys")) return ApplyKeys("~*");
  if (is("resetkeys")) {
    all_keys_ = false;
    patterns_.clear();
  } else if (is("allchannels")) {
    return ApplyChannel("*");
  } else if (is("resetchannels")) {
    all_channels_ = false;
    channels_.clear();
  } else if (is("allcommands")) {
    return ApplyCommands("+@all");
  } else if (is("nocommands")) {
    return ApplyCommands("-@all");
  } else if (!word.empty() && (word[0] == '~' || word[0] == '%')) {
    return ApplyKeys(word);
  } else if (!word.empty() && word[0] == '&') {
    return ApplyChannel(word.substr(1));
  } else if (!word.empty() && (word[0] == '+' || word[0] == '-')) {
    return ApplyCommands(word);
  } else {
    return std::string(kSyntax);
  }
  return "";
}

std::string AclSelector::ApplyKeys(std::string_view word) {
  if (all_keys_ && word != "~*") return AfterAll("keys", "patterns");
  Pattern pattern;
  pattern.read = pattern.write = word[0] == '~';
  if (word[0] == '%') {
    const size_t tilde = word.find('~');
    if (tilde == std::string_view::npos || tilde == 1) return std::string(kSyntax);
    for (const char c : word.substr(1, tilde - 1)) {
      if (c != 'R' && c != 'r' && c != 'W' && c != 'w') return std::string(kSyntax);
      (c == 'R' || c == 'r' ? pattern.read : pattern.write) = true;
    }
    word.remove_prefix(tilde);
  }
  pattern.text = word.substr(1);
  if (HasBlank(pattern.text)) return std::string(kSyntax);
  const bool both = pattern.read && pattern.write;
  if (both && pattern.text == "*") {
    all_keys_ = true;
    patterns_.clear();
    return "";
  }
  const auto known = std::find_if(patterns_.begin(), patterns_.end(),
                                  [&](const Pattern& p) { return p.text == pattern.text; });
  if (known != patterns_.end()) {
    known->read |= pattern.read;
    known->write |= pattern.write;
    return "";
  }
  if (patterns_.size() >= kMostPatterns) return std::string(kTooMany);
  patterns_.push_back(std::move(pattern));
  return "";
}

std::string AclSelector::ApplyChannel(std::string_view pattern) {
  if (HasBlank(pattern)) return std::string(kSyntax);
  if (pattern == "*") {
    all_channels_ = true;
    channels_.clear();
    return "";
  }
  if (all_channels_) return AfterAll("channels", "channels");
  if (std::find(channels_.begin(), channels_.end(), pattern) != channels_.end()) return "";
  if (channels_.size() >= kMostPatterns) return std::string(kTooMany);
  channels_.emplace_back(pattern);
  return "";
}

std::string AclSelector::ApplyCommands(std::string_view word) {
  const bool grants = word[0] == '+';
  const std::string_view what = word.substr(1);
  if (grants && IsArgumentOfSubcommand(what)) return std::string(kFirstArgument);
  if (what.empty() || what.back() == '|') return std::string(kSyntax);
  const AclUnitSet units =
      what[0] == '@' ? AclUnitsOfCategory(what.substr(1)) : AclUnitsNamed(what);
  const bool is_category =
      what[0] == '@' &&
      std::any_of(AclCategories().begin(), AclCategories().end(), [&](std::string_view category) {
        return EqualsIgnoringCase(what.substr(1), category);
      });
  if (units.none() && !is_category) return std::string(kUnknown);
  if (grants) {
    units_ |= units;
  } else {
    units_ &= ~units;
  }
  AddRule(word);
  return "";
}

// Without those before that it makes meaningless.
void AclSelector::AddRule(std::string_view word) {
  std::string lower(word);
  for (char& c : lower) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  if (lower.substr(1) == "@all") {
    begins_with_all_ = lower[0] == '+';
    rules_.clear();
    return;
  }
  const std::string_view what = std::string_view(lower).substr(1);
  std::erase_if(rules_, [&](const std::string& rule) {
    const std::string_view other = std::string_view(rule).substr(1);
    return other == what ||
           (other.starts_with(what) && other.size() > what.size() && other[what.size()] == '|');
  });
  rules_.push_back(std::move(lower));
  if (begins_with_all_ ? all_units() : units_.none()) rules_.clear();
}

bool AclSelector::MayKey(std::string_view key, KeyNeed need) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
    return (pattern.read || !need.read) && (pattern.write || !need.write) &&
           MatchesPattern(pattern.text, key);
  });
}

bool AclSelector::MayHear(std::string_view channel) const {
  return all_channels_ ||
         std::any_of(channels_.begin(), channels_.end(),
                     [&](const std::string& pattern) { return MatchesPattern(pattern, channel); });
}

AclSelector::Verdict AclSelector::Check(int unit, const CommandInfo& command,
                                        const std::vector<std::string_view>& arguments,
                                        std::string_view* object, size_t* place) const {
  *place = 0;
  // As in Redis, nobody is denied these.
  if ((command.flags & kNoAuth) == 0 && !allows(unit)) return Verdict::kCommand;
  if (!all_keys_) {
    const AclUnit& facts = AclUnits()[static_cast<size_t>(unit)];
    bool allowed = true;
    ForEachKey(command, arguments, [&](std::string_view key) {
      if (!allowed) return;
      allowed = MayKey(key, NeedOf(facts, *place == 0, arguments));
      if (allowed) {
        ++*place;
      } else {
        *object = key;
      }
    });
    if (!allowed) return Verdict::kKey;
  }
  if (!all_channels_ && command.id == Command::kSubscribe) {
    for (size_t i = 1; i < arguments.size(); ++i) {
      if (MayHear(arguments[i])) continue;
      *object = arguments[i];
      *place = i;
      return Verdict::kChannel;
    }
  }
  return Verdict::kAllowed;
}

std::string AclSelector::commands() const {
  std::string text = begins_with_all_ ? "+@all" : "-@all";
  for (const std::string& rule : rules_) absl::StrAppend(&text, " ", rule);
  return text;
}

std::string AclSelector::keys() const {
  if (all_keys_) return "~*";
  return absl::StrJoin(patterns_, " ", [](std::string* out, const Pattern& pattern) {
    out->append(pattern.Describe());
  });
}

std::string AclSelector::channels() const {
  if (all_channels_) return "&*";
  return absl::StrJoin(channels_, " ", [](std::string* out, const std::string& channel) {
    absl::StrAppend(out, "&", channel);
  });
}

std::string AclSelector::Describe() const {
  std::string text = keys();
  if (!text.empty()) text += ' ';
  if (all_channels_) {
    text += "&* ";
  } else {
    absl::StrAppend(&text, "resetchannels ", channels(), channels_.empty() ? "" : " ");
  }
  return text + commands();
}

std::string AclUser::Apply(const std::vector<std::string_view>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string whole(words[i]);
    // A selector may be several words.
    if (whole.starts_with("(")) {
      size_t end = i;
      while (!whole.ends_with(")") && ++end < words.size()) {
        absl::StrAppend(&whole, " ", AbslOf(words[end]));
      }
      if (!whole.ends_with(")")) {
        return absl::StrCat("Unmatched parenthesis in acl selector starting at '", AbslOf(words[i]),
                            "'.");
      }
      i = end;
    }
    if (const std::string error = ApplyWord(whole); !error.empty()) {
      // Passwords are told nobody.
      const bool secret = whole.starts_with(">");
      return absl::StrCat("Error in ACL SETUSER modifier '", secret ? ">" : whole, "': ", error);
    }
  }
  Settle();
  return "";
}

std::string AclUser::ApplyWord(std::string_view word) {
  if (word.empty()) return "";
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(word, name); };
  if (is("on") || is("off")) {
    enabled_ = is("on");
  } else if (is("nopass") || is("resetpass")) {
    no_password_ = is("nopass");
    hashes_.clear();
  } else if (is(kSanitize) || is(kSkipSanitize)) {
    sanitizes_ = is(kSanitize) ? kSanitize : kSkipSanitize;
  } else if (is("reset")) {
    Reset();
  } else if (is("clearselectors")) {
    selectors_.resize(1);
  } else if (word[0] == '(') {
    return ApplySelector(word.substr(1, word.size() - 2));
  } else if (std::string_view("><#!").find(word[0]) != std::string_view::npos) {
    return ApplyPassword(word);
  } else {
    return selectors_[0].Apply(word);
  }
  return "";
}

std::string AclUser::ApplyPassword(std::string_view word) {
  const bool is_hash = word[0] == '#' || word[0] == '!';
  if (is_hash && !net::IsSha256(word.substr(1))) return std::string(kBadHash);
  std::string hash = is_hash ? std::string(word.substr(1)) : net::Sha256(word.substr(1));
  const auto known = std::find(hashes_.begin(), hashes_.end(), hash);
  if (word[0] == '<' || word[0] == '!') {
    if (known == hashes_.end()) {
      return "The password you are trying to remove from the user does not exist";
    }
    hashes_.erase(known);
    return "";
  }
  if (known == hashes_.end() && hashes_.size() >= kMostHashes) return std::string(kTooMany);
  if (known == hashes_.end()) hashes_.push_back(std::move(hash));
  no_password_ = false;
  return "";
}

std::string AclUser::ApplySelector(std::string_view words) {
  AclSelector selector;
  for (const absl::string_view word : absl::StrSplit(AbslOf(words), ' ', absl::SkipEmpty())) {
    const std::string error = selector.Apply({word.data(), word.size()});
    if (!error.empty()) return error;
  }
  if (selectors_.size() > kMostSelectors) return std::string(kTooMany);
  selectors_.push_back(std::move(selector));
  return "";
}

void AclUser::Reset() {
  std::string name = std::move(name_);
  *this = AclUser(name);
  sanitizes_ = kSanitize;
}

void AclUser::Settle() {
  const AclSelector& root = selectors_[0];
  unrestricted_ = root.all_units() && root.all_keys() && root.all_channels();
  const auto allows = [&](Command command) {
    const auto& info = *AllCommands()[static_cast<size_t>(command)];
    const int unit = AclUnitOf(info, {info.name});
    return std::any_of(selectors_.begin(), selectors_.end(), [&](const AclSelector& selector) {
      return selector.all_keys() && selector.allows(unit);
    });
  };
  may_get_all_ = allows(Command::kGet);
  may_set_all_ = allows(Command::kSet);
  const AclUnitSet reads = AclUnitsOfCategory("read");
  const AclUnitSet writes = AclUnitsOfCategory("write");
  has_all_data_ = root.all_keys() && root.allows_all(reads | writes);
  reads_all_or_nothing_ =
      (root.all_keys() && root.allows_all(reads)) ||
      std::none_of(selectors_.begin(), selectors_.end(),
                   [&](const AclSelector& selector) { return selector.allows_any(reads); });
}

bool AclUser::MayHear(std::string_view channel) const {
  return std::any_of(selectors_.begin(), selectors_.end(),
                     [&](const AclSelector& selector) { return selector.MayHear(channel); });
}

AclUser::Verdict AclUser::CheckSelectors(const CommandInfo& command,
                                         const std::vector<std::string_view>& arguments,
                                         std::string_view* object) const {
  const int unit = AclUnitOf(command, arguments);
  if (unit < 0) return Verdict::kAllowed;  // of agents
  Verdict worst = Verdict::kCommand;
  size_t worst_place = 0;
  for (const AclSelector& selector : selectors_) {
    std::string_view denied;
    size_t place = 0;
    const Verdict verdict = selector.Check(unit, command, arguments, &denied, &place);
    if (verdict == Verdict::kAllowed) return verdict;
    // What is told is of the selector that comes furthest.
    if (verdict < worst || (verdict == worst && place <= worst_place)) continue;
    worst = verdict;
    worst_place = place;
    *object = denied;
  }
  return worst;
}

std::vector<std::string_view> AclUser::flags() const {
  std::vector<std::string_view> flags = {enabled_ ? "on" : "off"};
  if (no_password_) flags.push_back("nopass");
  if (!sanitizes_.empty()) flags.push_back(sanitizes_);
  return flags;
}

std::string AclUser::Describe(bool for_file) const {
  std::string text = absl::StrCat("user ", name_);
  for (const std::string_view flag : flags()) absl::StrAppend(&text, " ", AbslOf(flag));
  for (const std::string& hash : hashes_) absl::StrAppend(&text, " #", hash);
  if (for_file && selectors_[0].keys().empty()) text += " resetkeys";
  absl::StrAppend(&text, " ", selectors_[0].Describe());
  for (size_t i = 1; i < selectors_.size(); ++i) {
    absl::StrAppend(&text, " (", selectors_[i].Describe(), ")");
  }
  return text;
}

std::string AclUser::Make(const net::User& of_file, AclUser* user) {
  const std::vector<std::string_view> root = RootWords(of_file.words);
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(root.begin(), root.end(), [&](std::string_view word) {
      return std::any_of(words.begin(), words.end(),
                         [&](std::string_view other) { return EqualsIgnoringCase(word, other); });
    });
  };
  const auto begins = [&](std::string_view letters) {
    return std::any_of(root.begin(), root.end(), [&](std::string_view word) {
      return letters.find(word[0]) != std::string_view::npos;
    });
  };
  const bool says_all = has({"+@all", "-@all", "allcommands", "nocommands", "reset"});
  const bool reads = IsGranted(root, "@read");
  const bool writes = IsGranted(root, "@write");
  const std::string_view all_keys = !says_all && writes && !reads ? "%W~*" : "~*";
  std::vector<std::string_view> words;
  if (!says_all) {
    words.assign(std::begin(kForAll), std::end(kForAll));
    if (reads || writes) words.push_back("+cluster");
  }
  bool inside = false;  // a selector
  for (const std::string_view word : of_file.words) {
    inside = inside || word[0] == '(';
    const bool all = EqualsIgnoringCase(word, "~*") || EqualsIgnoringCase(word, "allkeys");
    words.push_back(all && !inside ? all_keys : word);
    inside = inside && word.back() != ')';
  }
  if (!begins("~%") && !has({"allkeys", "resetkeys"})) words.push_back(all_keys);
  if (!begins("&") && !has({"allchannels", "resetchannels"})) words.push_back("&*");
  return user->Apply(words);
}

}  // namespace pulse::redis
