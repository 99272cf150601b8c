#include "apps/pulse/graph/shell.h"

#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "apps/pulse/graph/result_output.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/lexer.h"

namespace pulse {
namespace {

using cypher::Concat;

constexpr char kHelp[] =
    "A statement ends with a semicolon, a command with its line.\n"
    "  :begin  :commit  :rollback   a transaction of several statements\n"
    "  :param NAME => EXPRESSION    sets $NAME; :params lists them\n"
    "  :param {NAME: EXPRESSION}    sets several\n"
    "  :explain STATEMENT;          shows the plan\n"
    "  :quit                        or the end of the input\n"
    "Control-C ends a statement that runs, and gives up one that is being typed.\n"
    "Control-D leaves.\n";

sigset_t Interrupts() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

bool IsTerminal() { return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

// Ends what runs when the user presses Control-C.
class InterruptWatch {
 public:
  explicit InterruptWatch(cypher::GraphService* service) : service_(service) {
    const sigset_t signals = Interrupts();
    fd_.reset(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    thread_ = std::thread([this] { Watch(); });
  }
  ~InterruptWatch() {
    stop_.store(true);
    thread_.join();
  }

 private:
  void Watch() {
    constexpr int kLookMillis = 100;
    while (!stop_.load()) {
      pollfd entry = {fd_.get(), POLLIN, 0};
      if (poll(&entry, 1, kLookMillis) <= 0) continue;
      signalfd_siginfo info;
      while (read(fd_.get(), &info, sizeof(info)) > 0) {
      }
      for (const auto& facts : service_->running()->List(cypher::Caller())) {
        if (!facts.query.empty()) service_->running()->Terminate(facts.id, cypher::Caller());
      }
    }
  }
  cypher::GraphService* const service_;
  UniqueFd fd_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

enum class Input { kLine, kGivenUp, kEnd, kFailed };  // the last one with an errno

class Lines {
 public:
  virtual ~Lines() = default;
  virtual Input Next(bool first, std::string* line) = 0;
  virtual void Remember(const std::string&) {}
};

class PlainLines : public Lines {
 public:
  Input Next(bool, std::string* line) override {
    const bool more = !std::getline(std::cin, *line).fail();
    // What was read of a line before that may be half a statement.
    if (std::ferror(stdin) != 0) return Input::kFailed;
    return more ? Input::kLine : Input::kEnd;
  }
};

// A terminal, with libedit.
class EditedLines : public Lines {
 public:
  EditedLines() : edit_(el_init("pulse", stdin, stdout, stderr)), history_(history_init()) {
    HistEvent event;
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    const char* home = getenv("HOME");
    if (home != nullptr) {
      file_ = Concat(home, "/.pulse_graph_history");
      history(history_, &event, H_LOAD, file_.c_str());
    }
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &EditedLines::Prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_BIND, "^I", "ed-insert", nullptr);  // a tab is text, also in what is pasted
    el_set(edit_, EL_HIST, history, history_);
    el_source(edit_, nullptr);
    // At the prompt Control-C is a key, as a signal would not end el_gets(); and so is Control-Z.
    el_set(edit_, EL_SETTY, "-d", "-isig", nullptr);
    el_set(edit_, EL_ADDFN, "pulse-give-up", "Gives up what was typed", &EditedLines::GiveUp);
    el_set(edit_, EL_ADDFN, "pulse-stop", "Stops the shell, as a job", &EditedLines::Stop);
    el_set(edit_, EL_BIND, "^C", "pulse-give-up", nullptr);
    el_set(edit_, EL_BIND, "^Z", "pulse-stop", nullptr);
  }
  ~EditedLines() override {
    HistEvent event;
    if (!file_.empty()) history(history_, &event, H_SAVE, file_.c_str());
    history_end(history_);
    el_end(edit_);
  }
  Input Next(bool first, std::string* line) override {
    first_ = first;
    given_up_ = false;
    int count = 0;
    const char* text = el_gets(edit_, &count);
    if (given_up_) {
      std::printf("^C\n");
      return Input::kGivenUp;
    }
    if (text == nullptr || count <= 0) {
      std::printf("\n");
      return Input::kEnd;
    }
    line->assign(text, static_cast<size_t>(count));
    while (!line->empty() && (line->back() == '\n' || line->back() == '\r')) line->pop_back();
    return Input::kLine;
  }
  void Remember(const std::string& text) override {
    HistEvent event;
    history(history_, &event, H_ENTER, text.c_str());
  }

 private:
  static char* Prompt(EditLine* edit) {
    static char first[] = "graph> ", more[] = "  ...> ";
    EditedLines* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return self->first_ ? first : more;
  }
  // Ends el_gets() without a line.
  static unsigned char GiveUp(EditLine* edit, int) {
    EditedLines* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    self->given_up_ = true;
    return CC_EOF;
  }
  static unsigned char Stop(EditLine* edit, int) {
    el_set(edit, EL_PREP_TERM, 0);
    raise(SIGTSTP);
    el_set(edit, EL_PREP_TERM, 1);
    return CC_REDISPLAY;
  }
  EditLine* const edit_;
  History* const history_;
  std::string file_;
  bool first_ = true, given_up_ = false;
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// Cuts lines into statements: at each semicolon that is in no string, quoted name or comment. What
// begins with a colon is a command, and ends at the latest with its line, whatever quote is open
// there (`:help don't`).
class StatementCutter {
 public:
  void Add(std::string_view line) { text_ += Concat(line, "\n"); }
  void Clear() { *this = StatementCutter(); }
  // Whether the lines so far end within a statement or a comment.
  bool within() const { return begin_ != kNone || inside_ == '*'; }

  // The next whole one with its semicolon, without comments before it.
  std::optional<std::string> Next() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool command = begin_ != kNone && text_[begin_] == ':';
      const bool line_ends =
          c == '\n' && (inside_ == 0 || inside_ == '/' || (command && inside_ != '*'));
      if (line_ends) inside_ = 0;
      if (inside_ == '*' || inside_ == '/') {
        if (inside_ == '*' && text_.compare(at_, 2, "*/") == 0) {
          inside_ = 0;
          ++at_;
        }
      } else if (inside_ != 0) {
        if (c == '\\' && inside_ != '`') {
          if (!command || text_[at_ + 1] != '\n') ++at_;
        } else if (c == inside_) {
          inside_ = 0;
        }
      } else if (c == '/' && (text_[at_ + 1] == '/' || text_[at_ + 1] == '*')) {
        inside_ = text_[++at_];
      } else if (c == ';' || (line_ends && command)) {
        if (begin_ != kNone) return Cut();
      } else if (!std::isspace(static_cast<unsigned char>(c))) {
        if (begin_ == kNone) begin_ = at_;
        if (c == '\'' || c == '"' || c == '`') inside_ = c;
      }
    }
    const size_t done = std::min(begin_, text_.size());
    text_.erase(0, done);
    at_ -= done;
    if (begin_ != kNone) begin_ = 0;
    return std::nullopt;
  }

 private:
  static constexpr size_t kNone = std::string::npos;
  std::string Cut() {
    std::string statement = text_.substr(begin_, ++at_ - begin_);
    begin_ = kNone;
    return statement;
  }
  std::string text_;
  size_t at_ = 0;
  size_t begin_ = kNone;  // of the statement that at_ is in
  char inside_ = 0;       // a quote, or the second character of what began a comment
};

class Shell {
 public:
  Shell(cypher::GraphService* service, bool json) : service_(service), json_(json) {}

  absl::Status Run() {
    const bool terminal = IsTerminal();
    std::unique_ptr<Lines> lines;
    if (terminal) {
      lines = std::make_unique<EditedLines>();
      std::printf("`:help` says what there is.\n");
    } else {
      lines = std::make_unique<PlainLines>();
    }
    StatementCutter cutter;
    std::string line;
    while (!quit_) {
      const Input input = lines->Next(!cutter.within(), &line);
      if (input == Input::kFailed) return ErrnoError(errno, "reading", "standard input");
      if (input == Input::kEnd) break;
      if (input == Input::kGivenUp) {
        cutter.Clear();
        continue;
      }
      cutter.Add(line);
      while (auto statement = quit_ ? std::nullopt : cutter.Next()) {
        const std::string_view text = Trimmed(*statement);
        lines->Remember(std::string(text));
        if (absl::Status status = One(text); !status.ok()) {
          if (!terminal) return status;
          std::printf("%s\n", CleanLines(status.message()).c_str());
        }
        std::fflush(stdout);
        // Nobody reads what would come; FinishOutput knows whether that is an error.
        if (std::ferror(stdout) != 0) quit_ = true;
      }
    }
    if (!quit_ && cutter.within()) {
      return absl::InvalidArgumentError(
          "the last statement does not end with a semicolon, outside of strings and comments");
    }
    if (transaction_ != nullptr) {
      return absl::FailedPreconditionError(
          "the end came within a transaction, which is rolled back: nothing since :begin was "
          "written; :commit writes it");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status One(std::string_view text) {
    if (text.front() != ':') return Execute(std::string(text));
    if (text.back() == ';') text = Trimmed(text.substr(0, text.size() - 1));
    const size_t space = std::min(text.find_first_of(" \t\n"), text.size());
    const std::string_view word = text.substr(0, space);
    const std::string_view rest = Trimmed(text.substr(space));
    if (word == ":explain") return Execute(Concat("EXPLAIN ", rest));
    if (word == ":param") return SetParameter(rest);
    if (word == ":begin") return Begin();
    if (word == ":commit") return Commit();
    if (word == ":quit" || word == ":exit") {
      quit_ = true;
    } else if (word == ":rollback") {
      if (transaction_ == nullptr) return NoTransaction();
      transaction_.reset();
    } else if (word == ":params") {
      PULSE_ASSIGN_OR_RETURN(const auto view, service_->database()->Snapshot());
      for (const auto& [name, value] : parameters_) {
        const std::string line = CleanText(Concat(name, ": ", JsonText(value, *view)));
        std::printf("%s\n", line.c_str());
      }
    } else if (word == ":help") {
      std::printf("%s", kHelp);
    } else {
      return absl::InvalidArgumentError(Concat("`", word, "` is no command; :help lists them"));
    }
    return absl::OkStatus();
  }

  absl::Status Execute(const std::string& text) {
    return RunGraphStatement(service_, transaction_.get(), text, parameters_, json_);
  }
  static absl::Status NoTransaction() {
    return absl::FailedPreconditionError("there is no transaction; :begin begins one");
  }
  absl::Status Begin() {
    if (transaction_ != nullptr) {
      return absl::FailedPreconditionError("there is a transaction already");
    }
    PULSE_ASSIGN_OR_RETURN(transaction_, service_->Begin(cypher::Caller(), {}));
    return absl::OkStatus();
  }
  absl::Status Commit() {
    if (transaction_ == nullptr) return NoTransaction();
    uint64_t sequence = 0;
    absl::Status status = transaction_->Commit(&sequence);
    transaction_.reset();
    return status;
  }
  // NAME => EXPRESSION, NAME: EXPRESSION, NAME EXPRESSION, or a map of several.
  absl::Status SetParameter(std::string_view text) {
    if (!text.empty() && text.front() == '{') {
      PULSE_ASSIGN_OR_RETURN(const cypher::Value map, ReadCypherValue(service_, std::string(text)));
      if (map.type() != cypher::Type::kMap) {
        return absl::InvalidArgumentError("expected a map, as :param {NAME: EXPRESSION}");
      }
      for (const auto& [name, value] : map.as_map()) SetOne(name, value);
      return absl::OkStatus();
    }
    // The name is what may come behind a dollar sign.
    const std::string reference = Concat("$", text);
    PULSE_ASSIGN_OR_RETURN(const auto words, cypher::Lex(reference));
    size_t end = words[0].end;
    if (words[1].text == ":") {
      end = words[1].end;
    } else if (words[1].text == "=" && words[2].text == ">" && words[2].begin == words[1].end) {
      end = words[2].end;
    } else if (words[0].kind != cypher::Lexeme::Kind::kParameter || words[1].begin == end) {
      return absl::InvalidArgumentError("expected :param NAME => EXPRESSION");
    }
    PULSE_ASSIGN_OR_RETURN(cypher::Value value, ReadCypherValue(service_, reference.substr(end)));
    SetOne(words[0].text, std::move(value));
    return absl::OkStatus();
  }
  void SetOne(const std::string& name, cypher::Value value) {
    std::erase_if(parameters_, [&](const auto& entry) { return entry.first == name; });
    parameters_.emplace_back(name, std::move(value));
    std::sort(parameters_.begin(), parameters_.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }

  cypher::GraphService* const service_;
  const bool json_;
  bool quit_ = false;
  cypher::ValueMap parameters_;
  std::unique_ptr<cypher::Transaction> transaction_;
};

// The one value of a result.
class OneValue : public cypher::RowSink {
 public:
  bool OnRows(const cypher::GraphView&, const cypher::Value* rows, size_t, size_t,
              std::span<const cypher::Slot> columns) override {
    value = rows[columns[0]];
    return true;
  }
  bool Restart() override { return true; }
  cypher::Value value;
};

}  // namespace

absl::StatusOr<cypher::Value> ReadCypherValue(cypher::GraphService* service,
                                              const std::string& text) {
  PULSE_ASSIGN_OR_RETURN(const auto statement, service->Prepare(Concat("RETURN ", text)));
  if (statement->columns().size() != 1 || statement->writes()) {
    return absl::InvalidArgumentError("expected one expression");
  }
  OneValue sink;
  cypher::Outcome outcome;
  PULSE_RETURN_IF_ERROR(service->Run(*statement, cypher::Caller(), {}, &sink, &outcome));
  return sink.value;
}

absl::Status RunGraphStatement(cypher::GraphService* service, cypher::Transaction* transaction,
                               const std::string& text, const cypher::ValueMap& parameters,
                               bool json) {
  cypher::RunOptions options;
  options.parameters = &parameters;
  options.began_nanos = NowNanos();
  PULSE_ASSIGN_OR_RETURN(const auto statement,
                         transaction != nullptr
                             ? transaction->Prepare(text)
                             : service->Prepare(text, cypher::Caller(), options));
  ResultOutput output(stdout, json, statement->writes(), statement->columns());
  cypher::Outcome outcome;
  if (transaction != nullptr) {
    PULSE_RETURN_IF_ERROR(transaction->Run(*statement, &parameters, &output, &outcome));
  } else {
    PULSE_RETURN_IF_ERROR(service->Run(*statement, cypher::Caller(), options, &output, &outcome));
  }
  const int error = output.Finish(outcome);
  // A reader that wants no more ends no command.
  if (error == 0 || error == EPIPE) return absl::OkStatus();
  const absl::Status status = ErrnoError(error, "writing", "the result");
  if (transaction != nullptr || !statement->writes()) return status;
  return {status.code(), Concat(std::string(status.message()),
                                ". What the statement wrote is committed: do not run it again")};
}

void PrepareTerminal() {
  if (!IsTerminal()) return;
  // Cypher is UTF-8, whatever the locale; libedit drops what its locale has no characters for.
  setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") setlocale(LC_CTYPE, "C.UTF-8");
  const sigset_t signals = Interrupts();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::Status RunGraphShell(cypher::GraphService* service, bool json) {
  std::optional<InterruptWatch> watch;
  if (IsTerminal()) watch.emplace(service);
  return Shell(service, json).Run();
}

}  // namespace pulse
