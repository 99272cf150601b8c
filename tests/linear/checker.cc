#include "checker.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "absl/strings/str_cat.h"

namespace pulse::linear {
namespace {

struct State {
  std::optional<std::string> value;
  int64_t expires_ms = 0;
};
// Of a group of keys.
using States = std::vector<State>;

// What tells states apart, and what a reader is shown.
std::string TextOf(const State& state) {
  return absl::StrCat(state.expires_ms, state.value ? "+" : "-", state.value.value_or(""));
}
std::string TextOf(const States& states) {
  std::string text;
  for (const State& state : states) absl::StrAppend(&text, TextOf(state), " ");
  return text;
}

// Without a value: it is no number.
std::optional<int64_t> Number(const std::optional<std::string>& text) {
  if (!text) return 0;
  int64_t number = 0;
  const char* end = text->data() + text->size();
  const auto parsed = std::from_chars(text->data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

// The state after `op` in `state`, a state without an expiry that may have passed; none when it
// would not have returned what it did, if that is `known`.
std::optional<State> Apply(const State& state, const Operation& op, bool known) {
  const auto returned = [&](const std::optional<std::string>& result) {
    return !known || op.result == result;
  };
  switch (op.kind) {
    case Kind::kGet:
      if (!returned(state.value)) return std::nullopt;
      return state;
    case Kind::kSet:
      return State{op.argument, op.expires_ms};
    case Kind::kDel:
      if (!returned(state.value ? "1" : "0")) return std::nullopt;
      return State{};
    case Kind::kIncr: {
      const auto number = Number(state.value);
      if (!number) return returned(std::nullopt) ? std::optional(state) : std::nullopt;
      std::string next = std::to_string(*number + 1);
      if (!returned(next)) return std::nullopt;
      return State{std::move(next), state.value ? state.expires_ms : 0};
    }
    case Kind::kAppend: {
      std::string next = state.value.value_or("") + op.argument;
      if (!returned(std::to_string(next.size()))) return std::nullopt;
      return State{std::move(next), state.value ? state.expires_ms : 0};
    }
    case Kind::kExpire:
      if (!returned(state.value ? "1" : "0")) return std::nullopt;
      return state.value ? State{state.value, op.expires_ms} : state;
  }
  return std::nullopt;
}

int64_t Millis(int64_t nanos) { return nanos == kNever ? kNever : nanos / 1'000'000; }

// All states that may be after `op`. It may have seen a value before or after its expiry, if that
// time is within the operation's.
void Step(const State& state, const Operation& op, std::vector<State>* next) {
  next->clear();
  const bool expires = state.value && state.expires_ms != 0;
  if (!expires || Millis(op.begin) < state.expires_ms) {
    if (auto after = Apply(state, op, op.known())) next->push_back(*std::move(after));
  }
  if (expires && Millis(op.end) >= state.expires_ms) {
    if (auto after = Apply(State{}, op, op.known())) next->push_back(*std::move(after));
  }
}

template <class Operation>
std::string TimesOf(const Operation& op) {
  return absl::StrCat("client ", op.client, " [", op.begin / 1000, ", ",
                      op.known() ? absl::StrCat(op.end / 1000) : "?", "] us: ");
}

std::string EffectOf(const Operation& op, bool known) {
  static constexpr const char* kNames[] = {"GET", "SET", "DEL", "INCR", "APPEND", "EXPIRE"};
  std::string text = kNames[static_cast<size_t>(op.kind)];
  if (!op.argument.empty()) absl::StrAppend(&text, " ", op.argument);
  if (op.expires_ms != 0) absl::StrAppend(&text, " until ", op.expires_ms, " ms");
  if (known && op.kind != Kind::kSet) absl::StrAppend(&text, " -> ", op.result.value_or("(none)"));
  return text;
}

void Step(const States& states, const Transaction& transaction, std::vector<States>* next) {
  next->clear();
  States after = states;
  for (const Transaction::Part& part : transaction.parts) {
    auto state = Apply(after[part.key], part.operation, transaction.known());
    if (!state) return;
    after[part.key] = *std::move(state);
  }
  next->push_back(std::move(after));
}

// The search, of operations on a state. They are ordered by their beginning; an order that is tried
// is a set of them and a state.
template <class State, class Operation>
class Search {
 public:
  Search(const std::vector<Operation>& operations, uint64_t max_steps, State initial = {})
      : ops_(operations),
        max_steps_(max_steps),
        done_(ops_.size()),
        state_(initial),
        longest_state_(std::move(initial)) {
    std::stable_sort(ops_.begin(), ops_.end(),
                     [](const Operation& a, const Operation& b) { return a.begin < b.begin; });
    for (const Operation& op : ops_) known_left_ += op.known();
  }

  Verdict Run(const std::string& key);

 private:
  struct Choice {
    size_t op = 0;
    State before;
    std::vector<State> after;  // those that were not tried
    size_t first = 0;          // first_ before it
  };

  bool Done() const { return known_left_ == 0; }
  // The next operation at or after `from` that may come first of those left, in `state`.
  bool Choose(size_t from, Choice* choice);
  bool Overtakes(size_t op) const;
  // Something that began after its latest time has come before it: it comes no more.
  bool IsOver(size_t op) const {
    return last_ > 0 && !ops_[op].known() && ops_[op].latest < ops_[last_ - 1].begin;
  }
  bool Enter(Choice* choice);
  bool Seen(const State& state);
  void Set(size_t op, bool done);
  std::string Report() const;

  std::vector<Operation> ops_;
  const uint64_t max_steps_;
  uint64_t steps_ = 0;
  std::vector<bool> done_;
  size_t first_ = 0;  // all before it are done
  size_t last_ = 0;   // none from it on is
  size_t known_left_ = 0;
  State state_;
  std::unordered_set<std::string> seen_;
  std::vector<Choice> path_;
  std::vector<size_t> longest_;
  State longest_state_;
};

template <class State, class Operation>
void Search<State, Operation>::Set(size_t op, bool done) {
  done_[op] = done;
  if (done) last_ = std::max(last_, op + 1);
  while (last_ > 0 && !done_[last_ - 1]) --last_;
  if (ops_[op].known()) known_left_ += done ? -1 : 1;
}

template <class State, class Operation>
bool Search<State, Operation>::Choose(size_t from, Choice* choice) {
  // What began after the end of one that is left cannot come before it.
  int64_t end = kNever;
  for (size_t i = first_; i < ops_.size() && ops_[i].begin <= end; ++i) {
    if (done_[i]) continue;
    end = std::min(end, ops_[i].end);
  }
  for (size_t i = std::max(from, first_); i < ops_.size() && ops_[i].begin <= end; ++i) {
    if (done_[i] || IsOver(i) || Overtakes(i)) continue;
    Step(state_, ops_[i], &choice->after);
    if (choice->after.empty()) continue;
    choice->op = i;
    choice->before = state_;
    choice->first = first_;
    return true;
  }
  return false;
}

// An earlier one of the same client is left, though it is known to have been answered.
template <class State, class Operation>
bool Search<State, Operation>::Overtakes(size_t op) const {
  if (!ops_[op].known()) return false;
  for (size_t i = first_; i < op; ++i) {
    if (!done_[i] && ops_[i].client == ops_[op].client && ops_[i].known() &&
        ops_[i].begin < ops_[op].begin) {
      return true;
    }
  }
  return false;
}

// Whether this set of operations and this state have been reached before.
template <class State, class Operation>
bool Search<State, Operation>::Seen(const State& state) {
  std::string memory = absl::StrCat(first_, " ", TextOf(state), " ");
  // The set: all before first_, and these.
  for (size_t i = first_; i < last_; i += 8) {
    char byte = 0;
    for (size_t bit = 0; bit < 8 && i + bit < last_; ++bit) {
      byte = static_cast<char>(byte | (done_[i + bit] ? 1 << bit : 0));
    }
    memory.push_back(byte);
  }
  return !seen_.insert(std::move(memory)).second;
}

// Takes the first of the choice's states that is new. False, and all is as before, if none is.
template <class State, class Operation>
bool Search<State, Operation>::Enter(Choice* choice) {
  Set(choice->op, true);
  while (first_ < ops_.size() && (done_[first_] || IsOver(first_))) ++first_;
  while (!choice->after.empty()) {
    ++steps_;
    State next = std::move(choice->after.back());
    choice->after.pop_back();
    if (Seen(next)) continue;
    state_ = std::move(next);
    return true;
  }
  Set(choice->op, false);
  first_ = choice->first;
  state_ = choice->before;
  return false;
}

template <class State, class Operation>
Verdict Search<State, Operation>::Run(const std::string& key) {
  size_t from = 0;
  Verdict verdict;
  verdict.key = key;
  while (!Done()) {
    if (steps_ > max_steps_) {
      verdict.outcome = Verdict::Outcome::kTooLong;
      verdict.report = absl::StrCat("key ", key, ": no answer after ", max_steps_, " steps");
      return verdict;
    }
    Choice choice;
    if (Choose(from, &choice)) {
      if (!Enter(&choice)) {
        from = choice.op + 1;
        continue;
      }
      path_.push_back(std::move(choice));
      from = 0;
      if (path_.size() > longest_.size()) {
        longest_.clear();
        for (const Choice& c : path_) longest_.push_back(c.op);
        longest_state_ = state_;
      }
      continue;
    }
    if (path_.empty()) {
      verdict.outcome = Verdict::Outcome::kViolation;
      verdict.report = absl::StrCat("key ", key, " is not linearizable\n", Report());
      return verdict;
    }
    // Back: another state of the last choice, or another operation instead.
    Choice last = std::move(path_.back());
    path_.pop_back();
    Set(last.op, false);
    first_ = last.first;
    state_ = last.before;
    if (Enter(&last)) {
      path_.push_back(std::move(last));
      from = 0;
    } else {
      from = last.op + 1;
    }
  }
  return verdict;
}

template <class State, class Operation>
std::string Search<State, Operation>::Report() const {
  std::string text = absl::StrCat("the longest order has ", longest_.size(), " of ", ops_.size(),
                                  " operations; its last:\n");
  const size_t shown = std::min<size_t>(longest_.size(), 8);
  for (size_t i = longest_.size() - shown; i < longest_.size(); ++i) {
    absl::StrAppend(&text, "  ", Describe(ops_[longest_[i]]), "\n");
  }
  absl::StrAppend(&text, "then there is ", TextOf(longest_state_),
                  " (expiry, + or - for none, value), and none of these can follow:\n");
  std::vector<bool> done(ops_.size());
  for (const size_t op : longest_) done[op] = true;
  size_t left = 8;
  for (size_t i = 0; i < ops_.size() && left > 0; ++i) {
    if (done[i]) continue;
    absl::StrAppend(&text, "  ", Describe(ops_[i]), "\n");
    --left;
  }
  return text;
}

}  // namespace

std::string Describe(const Operation& op) {
  return absl::StrCat(TimesOf(op), EffectOf(op, op.known()));
}

std::string Describe(const Transaction& transaction) {
  std::string text = TimesOf(transaction);
  for (const Transaction::Part& part : transaction.parts) {
    absl::StrAppend(&text, "[", part.key, "] ", EffectOf(part.operation, transaction.known()),
                    "; ");
  }
  return text;
}

Verdict CheckKey(const std::string& key, const std::vector<Operation>& operations,
                 uint64_t max_steps) {
  return Search<State, Operation>(operations, max_steps).Run(key);
}

Verdict CheckTransactions(const std::string& group, size_t keys,
                          const std::vector<Transaction>& transactions, uint64_t max_steps) {
  return Search<States, Transaction>(transactions, max_steps, States(keys)).Run(group);
}

Verdict Check(const History& history, uint64_t max_steps) {
  for (const auto& [key, operations] : history) {
    Verdict verdict = CheckKey(key, operations, max_steps);
    if (!verdict.ok()) return verdict;
  }
  return {};
}

}  // namespace pulse::linear
