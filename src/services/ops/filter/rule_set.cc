#include "services/ops/filter/rule_set.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/log.h"
#include "base/parallel_for.h"
#include "services/ops/filter/matcher.h"
#include "services/ops/filter/required_texts.h"
#include "services/ops/filter/samples.h"

namespace pulse::filter {
namespace {

constexpr char kDiffer[] = "the engines differ about it";

constexpr int64_t kRuleMemory = int64_t{16} << 20;
constexpr int64_t kSetMemory = int64_t{64} << 20;
// Samples of each rule; of very many rules fewer, so that loading them does not take minutes.
constexpr size_t kMostSamplesOfRule = 48;
constexpr size_t kLeastSamplesOfRule = 8;
constexpr size_t kSamplesOfAll = 100'000;
// Of rules that one thread works on at a time.
constexpr size_t kLeastRulePart = 16;
constexpr size_t kMostRuleParts = 64;
// Of a record in a message.
constexpr size_t kShown = 120;

size_t SamplesOfRule(size_t rules) {
  return std::clamp(kSamplesOfAll / rules, kLeastSamplesOfRule, kMostSamplesOfRule);
}

RE2::Options Re2Options(const RuleSetOptions& options) {
  RE2::Options re2;
  re2.set_log_errors(false);
  re2.set_case_sensitive(!options.ignore_case);
  re2.set_max_mem(kRuleMemory);
  return re2;
}

// RE2's words for forms that other engines know, and it never will.
std::string Explained(const RE2& rule) {
  std::string text = rule.error();
  const std::string& form = rule.error_arg();
  if (form.starts_with("(?=") || form.starts_with("(?!") || form.starts_with("(?<")) {
    absl::StrAppend(&text, " (rules look neither ahead nor behind)");
  } else if (form.size() == 2 && form[0] == '\\' && form[1] >= '1' && form[1] <= '9') {
    absl::StrAppend(&text, " (rules have no back-references)");
  } else if (rule.error_code() == RE2::ErrorRepeatOp && form.size() >= 2 && form.back() == '+') {
    absl::StrAppend(&text, " (rules have no possessive repetition)");
  }
  return text;
}

std::string Shown(absl::string_view text) {
  return CleanText(text.size() > kShown ? absl::StrCat(text.substr(0, kShown), "...")
                                        : std::string(text));
}

// Something long in which a rule finds nothing, mostly. Scanners skip such bytes by instructions of
// their own, with bugs of their own: Vectorscan 5.4.9 misses matches behind it on CPUs with
// AVX-512.
std::string Filler(std::mt19937_64& random) {
  return std::string(static_cast<size_t>(random() % 400), "~qZ0 \t"[random() % 6]);
}

absl::Status CheckStopped(const CompileLimits& limits) {
  return limits.stopped && limits.stopped() ? absl::CancelledError("nobody waits for these rules")
                                            : absl::OkStatus();
}

}  // namespace

absl::string_view NameOf(RuleEngine engine) {
  switch (engine) {
    case RuleEngine::kAll:
      return "matches all";
    case RuleEngine::kNever:
      return "matches nothing";
    case RuleEngine::kTexts:
      return "texts";
    case RuleEngine::kPattern:
      return "pattern";
    case RuleEngine::kPrefiltered:
      return "prefiltered";
    case RuleEngine::kRe2:
      return "re2";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<RuleSet>> RuleSet::Compile(std::vector<Rule> rules,
                                                          RuleSetOptions options,
                                                          const CompileLimits& limits) {
  std::unique_ptr<RuleSet> set(new RuleSet(std::move(options)));
  PULSE_RETURN_IF_ERROR(set->Parse(std::move(rules), limits));
  set->in_quarantine_ = std::vector<std::atomic<bool>>(set->rules_.size());
  PULSE_RETURN_IF_ERROR(set->ChooseEngines(limits));
  PULSE_RETURN_IF_ERROR(set->BuildAndTry(limits));
  return set;
}

absl::Status RuleSet::Parse(std::vector<Rule> rules, const CompileLimits& limits) {
  const RE2::Options re2_options = Re2Options(options_);
  std::string errors;
  int bad = 0;
  uint64_t instructions = 0;
  for (Rule& rule : rules) {
    PULSE_RETURN_IF_ERROR(CheckStopped(limits));
    if (options_.literal) rule.text = RE2::QuoteMeta(rule.text);
    auto re2 = std::make_unique<RE2>(rule.text, re2_options);
    if (re2->ok()) {
      instructions += static_cast<uint64_t>(re2->ProgramSize());
      if (instructions > limits.instructions) {
        return absl::ResourceExhaustedError(absl::StrCat("rules of more than ", limits.instructions,
                                                         " instructions, with ", rule.where));
      }
    } else {
      ++bad;
      absl::StrAppend(&errors, "\n  ", rule.where, ": '", Shown(rule.text),
                      "': ", CleanText(Explained(*re2)));
    }
    Compiled compiled;
    compiled.rule = std::move(rule);
    compiled.re2 = std::move(re2);
    rules_.push_back(std::move(compiled));
  }
  if (bad == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(bad, bad == 1 ? " rule cannot be used:" : " rules cannot be used:", errors));
}

absl::Status RuleSet::ChooseEngines(const CompileLimits& limits) {
  nodes_.resize(rules_.size());
  forms_.resize(rules_.size());
  const auto choose = [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      PULSE_RETURN_IF_ERROR(CheckStopped(limits));
      ChooseEngine(i);
    }
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(InParts(rules_.size(), choose));
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    accepts_all_ = accepts_all_ || rules_[i].engine == RuleEngine::kAll;
    accepts_empty_ = accepts_empty_ || Re2Accepts(i, "");
  }
  ChooseByNeededTexts();
  return absl::OkStatus();
}

absl::Status RuleSet::InParts(size_t n,
                              const std::function<absl::Status(uint32_t, uint32_t)>& f) const {
  // Each part has a matcher for all rules, so that there must not be many; and not all samples at
  // once.
  const size_t size = std::max(kLeastRulePart, n / kMostRuleParts);
  const size_t parts = (n + size - 1) / size;
  const auto one = [&](size_t part) {
    return f(static_cast<uint32_t>(part * size),
             static_cast<uint32_t>(std::min(n, (part + 1) * size)));
  };
  if (options_.threads > 1 && parts > 1) return ParallelFor(parts, options_.threads, one, [] {});
  for (size_t part = 0; part < parts; ++part) PULSE_RETURN_IF_ERROR(one(part));
  return absl::OkStatus();
}

void RuleSet::ChooseByNeededTexts() {
  if (options_.vectorscan != VectorscanUse::kTexts) return;
  std::vector<uint32_t> left;
  std::vector<std::vector<std::string>> needed;
  bool all = true;
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].engine != RuleEngine::kRe2) continue;
    needed.push_back(RequiredTexts(nodes_[i]));
    left.push_back(i);
    all = all && !needed.back().empty();
  }
  // A few texts that many rules share are found faster than each rule's own.
  if (all && lines() && !SharedTexts(needed, TextFinder::kMostTexts).empty()) return;
  for (size_t k = 0; k < left.size(); ++k) {
    if (needed[k].empty() || RarestText(needed[k]).starts_with('\0')) continue;
    Compiled& rule = rules_[left[k]];
    rule.engine = RuleEngine::kPrefiltered;
    rule.reason = absl::StrCat("lines with '", CleanText(RarestText(needed[k])), "'");
    rule.confirm = true;
    RuleForm form;
    form.chains.push_back(Chain{.pieces = {{RarestText(needed[k])}}});
    forms_[left[k]] = {form, form};
  }
}

void RuleSet::ChooseEngine(uint32_t number) {
  Compiled& rule = rules_[number];
  absl::StatusOr<Node> node = ParseRule(rule.rule.text, options_.ignore_case);
  if (!node.ok()) {
    rule.reason = std::string(node.status().message());
    return;
  }
  nodes_[number] = Simplify(*std::move(node), lines());
  const Node& simple = nodes_[number];
  if (AcceptsAll(simple)) {
    rule.engine = RuleEngine::kAll;
    return;
  }
  if (simple.kind == Node::Kind::kNever) {
    rule.engine = RuleEngine::kNever;
    return;
  }
  Forms& forms = forms_[number];
  forms.ascii = MakeForm(simple, Alphabet::kAscii, lines(), &forms.never_ascii);
  forms.any = MakeForm(simple, Alphabet::kAny, lines(), &forms.never_any);
  if (options_.change_form) {
    options_.change_form(number, &forms.ascii);
    options_.change_form(number, &forms.any);
  }
  const bool differ = forms.never_ascii || !(forms.ascii == forms.any);
  rule.confirm_others = !forms.any.exact;
  rule.confirm_mixed = rule.confirm_others && differ;
  if (!forms.any.chains.empty()) {
    rule.engine = RuleEngine::kTexts;
  } else if (options_.vectorscan == VectorscanUse::kAll) {
    rule.engine = RuleEngine::kPattern;
  } else {
    rule.reason = "an expression; Vectorscan, which misses some matches, is not used for these";
  }
}

absl::Status RuleSet::BuildScanners() {
  std::vector<ScannerRule> ascii;
  std::vector<ScannerRule> any;
  bool differ = false;
  re2_rules_.clear();
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    const RuleEngine engine = rules_[i].engine;
    if (engine == RuleEngine::kRe2) re2_rules_.push_back(i);
    if (engine != RuleEngine::kTexts && engine != RuleEngine::kPattern &&
        engine != RuleEngine::kPrefiltered) {
      continue;
    }
    const bool prefilter = engine == RuleEngine::kPrefiltered;
    const Forms& forms = forms_[i];
    differ = differ || forms.never_ascii || !(forms.ascii == forms.any);
    if (!forms.never_ascii) ascii.push_back({i, forms.ascii, prefilter});
    if (!forms.never_any) any.push_back({i, forms.any, prefilter});
  }
  any_.reset();
  PULSE_ASSIGN_OR_RETURN(ascii_, Scanner::Build(ascii, lines(), options_.vectorscan));
  if (differ) {
    PULSE_ASSIGN_OR_RETURN(any_, Scanner::Build(any, lines(), options_.vectorscan));
  }
  BuildRe2Finder();
  re2_set_.reset();
  if (re2_rules_.size() < 2) return absl::OkStatus();
  RE2::Options re2_options = Re2Options(options_);
  re2_options.set_max_mem(kSetMemory);
  auto re2_set = std::make_unique<RE2::Set>(re2_options, RE2::UNANCHORED);
  for (const uint32_t i : re2_rules_) re2_set->Add(rules_[i].rule.text, nullptr);
  // Too many for one automaton: they are asked one by one.
  if (re2_set->Compile()) re2_set_ = std::move(re2_set);
  return absl::OkStatus();
}

void RuleSet::BuildRe2Finder() {
  re2_finder_.reset();
  if (!lines() || re2_rules_.empty()) return;
  std::vector<std::vector<std::string>> required;
  for (const uint32_t i : re2_rules_) {
    // What was not parsed has no node, and what was parsed wrongly is not to be trusted.
    if (rules_[i].reason == kDiffer) return;
    required.push_back(RequiredTexts(nodes_[i]));
    if (required.back().empty()) return;
  }
  const std::vector<SharedText> shared = SharedTexts(required, TextFinder::kMostTexts);
  std::vector<std::string> texts;
  re2_also_.clear();
  for (const SharedText& group : shared) {
    texts.push_back(group.text);
    re2_also_.push_back(group.also);
  }
  if (!TextFinder::Fits(texts)) return;
  // As every rule is tried: what RE2 accepts has one of the texts, with what goes with it.
  std::atomic<bool> needed{true};
  const absl::Status tried = InParts(re2_rules_.size(), [&](uint32_t begin, uint32_t end) {
    for (uint32_t k = begin; k < end && options_.try_rules && needed; ++k) {
      if (!NeedsATextOf(re2_rules_[k], texts)) needed = false;
    }
    return absl::OkStatus();
  });
  if (tried.ok() && needed) re2_finder_.emplace(std::move(texts));
}

bool RuleSet::NeedsATextOf(uint32_t rule, const std::vector<std::string>& texts) const {
  std::mt19937_64 random(options_.seed + rule);
  for (size_t k = SamplesOfRule(rules_.size()); k > 0; --k) {
    const std::string record = Damage(MakeMatching(nodes_[rule], random), random);
    bool found = false;
    for (size_t t = 0; !found && t < texts.size(); ++t) {
      found = record.find(texts[t]) != std::string::npos && Re2MayAccept(t, record);
    }
    if (!found && record.find('\n') == std::string::npos && Re2Accepts(rule, record)) {
      Log(LogLevel::kWarn,
          absl::StrCat("filter: ", rules_[rule].rule.where, ": '", Shown(rules_[rule].rule.text),
                       "' does not need the text that it seems to need"));
      return false;
    }
  }
  return true;
}

absl::Status RuleSet::BuildAndTry(const CompileLimits& limits) {
  if (absl::Status status = BuildScanners(); !status.ok()) {
    // Some rule is too much for Vectorscan: which, it says only of one at a time.
    bool found = false;
    for (uint32_t i = 0; options_.vectorscan == VectorscanUse::kAll && i < rules_.size(); ++i) {
      Compiled& rule = rules_[i];
      if (rule.engine != RuleEngine::kPattern && rule.engine != RuleEngine::kTexts) continue;
      PULSE_RETURN_IF_ERROR(CheckStopped(limits));
      const auto check = [&](bool prefilter) {
        for (const RuleForm* form : {&forms_[i].ascii, &forms_[i].any}) {
          if (!form->chains.empty() || (form == &forms_[i].ascii && forms_[i].never_ascii))
            continue;
          PULSE_RETURN_IF_ERROR(Scanner::CanCompile(form->pattern, lines(), prefilter));
        }
        return absl::OkStatus();
      };
      absl::Status one = check(false);
      if (one.ok()) continue;
      found = true;
      if (check(true).ok()) {
        rule.engine = RuleEngine::kPrefiltered;
        rule.confirm = true;
        rule.reason = std::string(one.message());
      } else {
        UseRe2(i, std::string(one.message()));
      }
    }
    if (found) status = BuildScanners();
    if (!status.ok()) {
      // Together they are too much. RE2 can do without.
      Log(options_.vectorscan != VectorscanUse::kNone ? LogLevel::kWarn : LogLevel::kInfo,
          absl::StrCat("filter: these rules are not found by Vectorscan (", status.message(),
                       "); RE2 alone serves them, which is slower"));
      for (uint32_t i = 0; i < rules_.size(); ++i) {
        if (rules_[i].engine >= RuleEngine::kTexts) UseRe2(i, std::string(status.message()));
      }
      return BuildScanners();
    }
  }
  if (!options_.try_rules) return absl::OkStatus();
  while (true) {
    PULSE_ASSIGN_OR_RETURN(const std::vector<uint32_t> differ, RulesThatDiffer(limits));
    if (differ.empty()) return absl::OkStatus();
    for (const uint32_t rule : differ) {
      Log(LogLevel::kWarn,
          absl::StrCat(
              "filter: ", rules_[rule].rule.where, ": '", Shown(rules_[rule].rule.text),
              "': Vectorscan and RE2 differ about this rule; RE2 alone serves it, which is "
              "slower"));
      UseRe2(rule, kDiffer);
    }
    PULSE_RETURN_IF_ERROR(BuildScanners());
  }
}

void RuleSet::UseRe2(uint32_t rule, std::string reason) {
  rules_[rule].engine = RuleEngine::kRe2;
  rules_[rule].reason = std::move(reason);
}

absl::StatusOr<std::vector<uint32_t>> RuleSet::RulesThatDiffer(const CompileLimits& limits) const {
  std::mutex mutex;
  std::vector<uint32_t> differ;
  const auto try_some = [&](uint32_t begin, uint32_t end) {
    std::vector<uint32_t> some;
    PULSE_RETURN_IF_ERROR(TryRules(begin, end, limits, &some));
    const std::lock_guard lock(mutex);
    differ.insert(differ.end(), some.begin(), some.end());
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(InParts(rules_.size(), try_some));
  std::sort(differ.begin(), differ.end());
  differ.erase(std::unique(differ.begin(), differ.end()), differ.end());
  return differ;
}

absl::Status RuleSet::TryRules(uint32_t begin, uint32_t end, const CompileLimits& limits,
                               std::vector<uint32_t>* differ) const {
  struct Sample {
    uint32_t rule;
    std::string record;
    bool accepted = false;
  };
  std::vector<Sample> samples;
  std::mt19937_64 random(options_.seed + begin);
  for (uint32_t i = begin; i < end; ++i) {
    const RuleEngine engine = rules_[i].engine;
    if (engine != RuleEngine::kTexts && engine != RuleEngine::kPattern &&
        engine != RuleEngine::kPrefiltered) {
      continue;
    }
    PULSE_RETURN_IF_ERROR(CheckStopped(limits));
    for (size_t k = SamplesOfRule(rules_.size()); k > 0; --k) {
      Sample sample{i, Damage(MakeMatching(nodes_[i], random), random)};
      if (k % 3 == 0) sample.record = Filler(random) + sample.record;
      if (k % 3 == 1) sample.record += Filler(random);
      if (lines()) std::replace(sample.record.begin(), sample.record.end(), '\n', ' ');
      samples.push_back(std::move(sample));
    }
  }
  if (samples.empty()) return absl::OkStatus();
  PULSE_ASSIGN_OR_RETURN(const std::unique_ptr<Matcher> matcher, Matcher::Make(this));
  // Both scanners, each on all records that it is for.
  for (const bool any : {false, true}) {
    if (any && one_scanner()) break;
    const Scanner& scanner = any ? this->scanner() : ascii_scanner();
    std::string block;
    std::vector<std::pair<size_t, Sample*>> begins;
    for (Sample& sample : samples) {
      sample.accepted = false;
      if (lines() && random() % 2 == 0) absl::StrAppend(&block, Filler(random), "\n");
      if (!any && !one_scanner() && !IsAscii(sample.record)) continue;
      begins.emplace_back(block.size(), &sample);
      if (lines()) {
        absl::StrAppend(&block, sample.record, "\n");
        continue;
      }
      PULSE_RETURN_IF_ERROR(
          matcher->MatchAllRules(scanner, sample.record, [&](size_t, uint32_t rule) {
            sample.accepted = sample.accepted || rule == sample.rule;
          }));
    }
    if (lines()) {
      PULSE_RETURN_IF_ERROR(matcher->MatchAllRules(scanner, block, [&](size_t at, uint32_t rule) {
        const auto found =
            std::lower_bound(begins.begin(), begins.end(), at,
                             [](const auto& entry, size_t value) { return entry.first < value; });
        if (found == begins.end() || found->first != at) return;
        if (found->second->rule == rule) found->second->accepted = true;
      }));
    }
    for (const auto& [at, sample] : begins) {
      if (Re2Accepts(sample->rule, sample->record) != sample->accepted) {
        differ->push_back(sample->rule);
      }
    }
  }
  return absl::OkStatus();
}

bool RuleSet::Re2RulesAccept(absl::string_view record) const {
  const re2::StringPiece text(record.data(), record.size());
  bool one_by_one = re2_set_ == nullptr;
  if (!one_by_one) {
    RE2::Set::ErrorInfo error{};
    if (re2_set_->Match(text, nullptr, &error)) return true;
    one_by_one = error.kind != RE2::Set::kNoError;
  }
  for (size_t i = 0; one_by_one && i < re2_rules_.size(); ++i) {
    if (Re2Accepts(re2_rules_[i], record)) return true;
  }
  for (uint32_t i = 0; quarantined() > 0 && i < rules_.size(); ++i) {
    if (IsQuarantined(i) && Re2Accepts(i, record)) return true;
  }
  return false;
}

void RuleSet::Quarantine(uint32_t rule, absl::string_view record, bool engine_said) const {
  if (in_quarantine_[rule].exchange(true)) return;
  quarantined_.fetch_add(1, std::memory_order_release);
  Log(LogLevel::kWarn,
      absl::StrCat("filter: ", rules_[rule].rule.where, ": '", Shown(rules_[rule].rule.text),
                   "': ", NameOf(rules_[rule].engine), " said ", engine_said ? "yes" : "no",
                   " and RE2 ", engine_said ? "no" : "yes", " of the record '", Shown(record),
                   "'; from now on RE2 alone serves this rule. Please report it"));
}

std::string RuleSet::Explain() const {
  std::string text;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const Compiled& rule = rules_[i];
    const auto number = static_cast<uint32_t>(i);
    absl::StrAppend(&text, rule.rule.where, ": '", Shown(rule.rule.text),
                    "': ", IsQuarantined(number) ? "re2 (in quarantine)" : NameOf(rule.engine),
                    rule.reason.empty() ? "" : ", ", CleanText(rule.reason), "\n");
  }
  return text;
}

}  // namespace pulse::filter
