// One client's connection: see offload_resp.h for what is answered here, and in which order.
#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "commands.h"
#include "offload_shared.h"
#include "value.h"

namespace pulse::resp {
namespace {

using director::Ticket;
using Slot = DirtyTable::Slot;
using Found = ReadView::Found;

constexpr size_t kMostKeys = 512;     // of a read here
constexpr size_t kMostWaiting = 256;  // reads of one connection

bool AnsweredHere(Command command) {
  switch (command) {
    case Command::kGet:
    case Command::kMget:
    case Command::kExists:
    case Command::kTouch:
    case Command::kStrlen:
    case Command::kTtl:
    case Command::kPttl:
    case Command::kExpiretime:
    case Command::kPexpiretime:
    case Command::kType:
      return true;
    default:
      return false;
  }
}

bool IsError(std::string_view reply) { return reply.empty() || reply[0] == '-'; }

// What a read was checked with.
struct Check {
  int64_t now_ms = 0;
  uint64_t validity = 0;
  uint64_t everything = 0;
  std::vector<Slot> slots;
  std::vector<uint64_t> words;
};

enum class Outcome { kAnswered, kDirty, kChanged, kNoView, kNotInMemory, kHostsClock };

// One read: checked, read, checked again, and written as the host would write it.
class Reader {
 public:
  explicit Reader(const OffloadShared* shared) : shared_(shared) {}

  // kAnswered: may be read.
  Outcome Begin(const std::vector<std::string_view>& keys) {
    const DirtyTable& table = shared_->table;
    check_.slots.clear();
    check_.words.clear();
    check_.validity = shared_->view->Validity();
    if (check_.validity == 0) return Outcome::kNoView;
    const auto everything = table.Check(table.everything());
    if (!everything) return Outcome::kDirty;
    check_.everything = *everything;
    for (const std::string_view key : keys) {
      const Slot slot = table.SlotOf(key);
      const auto word = table.Check(slot);
      if (!word) return Outcome::kDirty;
      check_.slots.push_back(slot);
      check_.words.push_back(*word);
    }
    check_.now_ms = WallMillis();
    return Outcome::kAnswered;
  }
  // Waits for the device; any thread.
  void Read(const std::vector<std::string_view>& keys) {
    shared_->view->Read(keys, &values_, &found_);
  }
  // Whether files were read.
  bool ReadNow(const std::vector<std::string_view>& keys) {
    return shared_->view->ReadNow(keys, &values_, &found_);
  }
  Outcome End(Command command, int protocol, std::string* reply) {
    if (std::count(found_.begin(), found_.end(), Found::kUnknown) > 0) {
      return Outcome::kNotInMemory;
    }
    if (!Unchanged()) return Outcome::kChanged;
    entries_.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      entries_[i] = Entry();
      if (found_[i] != Found::kYes) continue;
      // Not ours: the host says what is wrong.
      if (!DecodeValue(values_[i], &entries_[i].value)) return Outcome::kNoView;
      const int64_t expires = entries_[i].value.expires_ms;
      if (expires != kNever && shared_->options.skew_ms > 0 &&
          std::abs(expires - check_.now_ms) <= shared_->options.skew_ms) {
        return Outcome::kHostsClock;
      }
      entries_[i].exists = !entries_[i].value.ExpiredAt(check_.now_ms);
    }
    ReplyWriter writer(reply, protocol);
    Write(command, &writer);
    return Outcome::kAnswered;
  }

 private:
  struct Entry {
    bool exists = false;
    Value value;
  };

  bool Unchanged() const {
    const DirtyTable& table = shared_->table;
    for (size_t i = 0; i < check_.slots.size(); ++i) {
      if (!table.Unchanged(check_.slots[i], check_.words[i])) return false;
    }
    return table.Unchanged(table.everything(), check_.everything) &&
           shared_->view->Validity() == check_.validity;
  }

  void Write(Command command, ReplyWriter* reply) const {
    const Entry& first = entries_[0];
    switch (command) {
      case Command::kMget:
        reply->Array(entries_.size());
        [[fallthrough]];
      case Command::kGet:
        for (const Entry& entry : entries_) {
          if (entry.exists) {
            reply->Bulk(entry.value.data);
          } else {
            reply->Null();
          }
        }
        break;
      case Command::kExists:
      case Command::kTouch:
        reply->Integer(std::count_if(entries_.begin(), entries_.end(),
                                     [](const Entry& entry) { return entry.exists; }));
        break;
      case Command::kStrlen:
        reply->Integer(first.exists ? static_cast<int64_t>(first.value.data.size()) : 0);
        break;
      case Command::kType:
        reply->Simple(first.exists ? "string" : "none");
        break;
      default:
        reply->Integer(Time(command, first));
    }
  }

  int64_t Time(Command command, const Entry& entry) const {
    if (!entry.exists) return -2;
    if (entry.value.expires_ms == kNever) return -1;
    const bool left = command == Command::kTtl || command == Command::kPttl;
    const int64_t ms = entry.value.expires_ms - (left ? check_.now_ms : 0);
    const bool seconds = command == Command::kTtl || command == Command::kExpiretime;
    return seconds ? (ms + 500) / 1000 : ms;
  }

  const OffloadShared* const shared_;
  Check check_;
  std::vector<std::string> values_;
  std::vector<Found> found_;
  std::vector<Entry> entries_;
};

class OffloadFlow final : public director::Flow {
 public:
  OffloadFlow(std::shared_ptr<OffloadShared> shared, director::Connection* connection)
      : shared_(std::move(shared)),
        connection_(connection),
        requests_(shared_->options.limits),
        replies_(shared_->options.limits),
        permitted_(!shared_->options.needs_auth),
        reader_(shared_.get()) {
    requests_.set_authenticated(permitted_);
  }
  ~OffloadFlow() override {
    for (Forwarded& command : forwarded_) Lose(&command, host_known_);
    Fence();
  }

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    return requests_.Next(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    return replies_.Next(bytes);
  }
  std::string ErrorReply(const absl::Status& error) override { return ErrorLine(error); }

  void OnRequest(Ticket ticket, std::string_view bytes) override;
  void OnRequestsEnd() override { Submit(); }
  void OnHostReply(Ticket ticket, std::string_view bytes, bool last, std::string* out) override;
  std::string OnHostLost(Ticket ticket, bool sent) override;
  Preface HostPreface() override;
  absl::Status OnPreface(std::string_view bytes) override;
  void OnHostClosed() override;

 private:
  // What the host has to be told of the client on each connection.
  struct Said {
    std::string bytes;
    int what = 0;
  };
  static constexpr int kProtocol = 1, kUser = 2, kName = 4;
  struct Forwarded {
    Ticket ticket = 0;
    const CommandInfo* command = nullptr;
    std::vector<Slot> slots;  // marked
    Said said;                // what it says of the connection, if accepted
    int protocol = 0;         // that HELLO asks for; 0: none
    bool append_info = false;
  };
  struct Waiting {
    Ticket ticket = 0;
    std::string bytes;
    const CommandInfo* command = nullptr;
    uint64_t batch = 0;   // the one that reads it; 0: none yet
    bool missed = false;  // not in memory: for the next batch
  };
  struct BatchRead {
    Ticket ticket;
    Command command;
    std::vector<std::string> keys;
    Reader reader;
  };
  struct Batch {
    uint64_t id = 0;
    std::vector<BatchRead> reads;
  };

  Outcome TryNow(const CommandInfo& command, const Request& request, std::string* reply);
  void CountReason(Outcome outcome);
  bool MayAnswer(const CommandInfo* command);
  void Pump();
  void Submit();
  void BatchDone(Batch* batch);
  void ForwardWaiting(size_t count);
  void ForwardRead(Ticket ticket, std::string_view bytes, const CommandInfo* command);
  void ForwardCommand(Ticket ticket, std::string_view bytes, const CommandInfo* command);
  void ForwardRenamed(Ticket ticket);
  void NoteState(std::string_view bytes, Forwarded* forwarded);
  void Accepted(const Forwarded& command, std::string_view reply);
  void Remember(const Said& said);
  bool SlotsOf(const CommandInfo* command, std::vector<Slot>* slots);
  bool MarkAll(const std::vector<Slot>& slots);
  void Settle(const std::vector<Slot>& slots);
  void Lose(Forwarded* command, bool sent);
  void Fence();
  void PumpSoon();

  const std::shared_ptr<OffloadShared> shared_;
  director::Connection* const connection_;
  RequestSplitter requests_;
  ReplySplitter replies_;
  Request request_;
  bool permitted_;
  int protocol_ = 2;
  bool multi_ = false;
  bool watching_ = false;
  std::vector<Slot> queued_slots_;  // of writes that EXEC will carry out
  Reader reader_;
  std::vector<std::string_view> keys_;
  std::string reply_;

  std::deque<Forwarded> forwarded_;  // not answered, in order
  std::deque<Waiting> waiting_;      // reads, in order
  uint64_t last_batch_ = 0;

  // The host's connection.
  std::string host_id_;
  bool host_known_ = false;  // the host has it by that id; nothing was sent before
  std::vector<Slot> lost_;
  std::vector<Said> said_;  // and was accepted, in its order
};

bool OffloadFlow::MayAnswer(const CommandInfo* command) {
  if (command == nullptr || !AnsweredHere(command->id) || multi_) return false;
  if (!command->ArityFits(request_.size()) || request_.size() > kMostKeys) return false;
  if (permitted_) return true;
  shared_->Count(&shared_->counters.not_permitted);
  return false;
}

Outcome OffloadFlow::TryNow(const CommandInfo& command, const Request& request,
                            std::string* reply) {
  keys_.clear();
  ForEachKey(command, request.arguments(), [&](std::string_view key) { keys_.push_back(key); });
  Outcome outcome = reader_.Begin(keys_);
  if (outcome != Outcome::kAnswered) return outcome;
  const bool from_page_cache = reader_.ReadNow(keys_);
  reply->clear();
  outcome = reader_.End(command.id, protocol_, reply);
  if (outcome == Outcome::kAnswered) {
    shared_->Count(&shared_->counters.offloaded);
    if (from_page_cache) shared_->Count(&shared_->counters.from_page_cache);
  }
  return outcome;
}

void OffloadFlow::CountReason(Outcome outcome) {
  OffloadCounters& counters = shared_->counters;
  shared_->Count(outcome == Outcome::kDirty     ? &counters.dirty
                 : outcome == Outcome::kChanged ? &counters.changed
                                                : &counters.no_view);
}

void OffloadFlow::OnRequest(Ticket ticket, std::string_view bytes) {
  if (const absl::Status status = request_.Parse(bytes); !status.ok()) {
    connection_->Close(ErrorLine(status));
    return;
  }
  if (request_.empty()) {
    connection_->Reply(ticket, std::string_view());
    return;
  }
  const CommandInfo* command = FindCommand(request_[0]);
  if (command != nullptr && (command->flags & kPrivate) != 0) {
    ForwardRenamed(ticket);
    return;
  }
  if (command != nullptr && command->id == Command::kQuit) {
    // In its place: what is before it is answered first.
    connection_->Close("+OK\r\n");
    return;
  }
  if (!MayAnswer(command)) {
    ForwardWaiting(waiting_.size());
    ForwardCommand(ticket, bytes, command);
    return;
  }
  if (!forwarded_.empty() || !waiting_.empty()) {
    waiting_.push_back({ticket, std::string(bytes), command});
    if (waiting_.size() > kMostWaiting) {
      shared_->Count(&shared_->counters.full, waiting_.size());
      ForwardWaiting(waiting_.size());
    } else if (forwarded_.empty()) {
      Pump();
    }
    return;
  }
  const Outcome outcome = TryNow(*command, request_, &reply_);
  if (outcome == Outcome::kAnswered) {
    connection_->Reply(ticket, reply_);
  } else if (outcome == Outcome::kNotInMemory) {
    waiting_.push_back({ticket, std::string(bytes), command});
    waiting_.back().missed = true;
  } else {
    CountReason(outcome);
    ForwardRead(ticket, bytes, command);
  }
}

// The host has answered everything: reads that have waited for that.
void OffloadFlow::Pump() {
  for (size_t i = 0; i < waiting_.size() && forwarded_.empty();) {
    Waiting& read = waiting_[i];
    // Nothing overtakes a read that the host may still have to answer.
    if (read.batch != 0) return;
    if (i > 0) read.missed = true;
    if (read.missed) {
      ++i;
      continue;
    }
    // As of when it came; what it waited for may have changed the user.
    if (!permitted_) {
      shared_->Count(&shared_->counters.not_permitted);
      ForwardWaiting(i + 1);
      return;
    }
    Request request;
    request.Parse(read.bytes).IgnoreError();  // as it was before
    const Outcome outcome = TryNow(*read.command, request, &reply_);
    if (outcome == Outcome::kAnswered) {
      connection_->Reply(read.ticket, reply_);
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
    } else if (outcome == Outcome::kNotInMemory) {
      read.missed = true;
      ++i;
    } else {
      CountReason(outcome);
      ForwardWaiting(i + 1);
    }
  }
}

void OffloadFlow::PumpSoon() {
  if (waiting_.empty() || !forwarded_.empty()) return;
  connection_->remote()->Post([this] {
    if (!forwarded_.empty()) return;
    Pump();
    Submit();
  });
}

// What was not in memory, all in one batch, to a thread that may wait.
void OffloadFlow::Submit() {
  std::shared_ptr<Batch> batch;
  for (Waiting& read : waiting_) {
    if (!read.missed || read.batch != 0) continue;
    Request request;
    request.Parse(read.bytes).IgnoreError();
    std::vector<std::string> keys;
    ForEachKey(*read.command, request.arguments(),
               [&](std::string_view key) { keys.emplace_back(key); });
    Reader reader(shared_.get());
    const std::vector<std::string_view> views(keys.begin(), keys.end());
    if (const Outcome outcome = reader.Begin(views); outcome != Outcome::kAnswered) {
      continue;  // it stays, and goes to the host below
    }
    if (batch == nullptr) {
      batch = std::make_shared<Batch>();
      batch->id = ++last_batch_;
    }
    read.batch = batch->id;
    batch->reads.push_back({read.ticket, read.command->id, std::move(keys), std::move(reader)});
  }
  size_t forward = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].missed && waiting_[i].batch == 0) forward = i + 1;
  }
  if (forward > 0) {
    shared_->Count(&shared_->counters.dirty);
    ForwardWaiting(forward);
  }
  if (batch == nullptr || waiting_.empty()) return;
  if (shared_->queued.fetch_add(1) >= shared_->options.queue) {
    shared_->queued.fetch_sub(1);
    shared_->Count(&shared_->counters.full, batch->reads.size());
    ForwardWaiting(waiting_.size());
    return;
  }
  shared_->pool->Post([shared = shared_, batch, this, remote = connection_->remote()] {
    shared->queued.fetch_sub(1);
    std::vector<std::string_view> keys;
    for (BatchRead& read : batch->reads) {
      keys.assign(read.keys.begin(), read.keys.end());
      read.reader.Read(keys);
    }
    remote->Post([this, batch] { BatchDone(batch.get()); });
  });
}

void OffloadFlow::BatchDone(Batch* batch) {
  for (BatchRead& done : batch->reads) {
    const auto read = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& candidate) {
      return candidate.ticket == done.ticket && candidate.batch == batch->id;
    });
    if (read == waiting_.end()) continue;  // the host has it
    if (read != waiting_.begin()) {
      read->batch = 0;
      read->missed = false;
      continue;
    }
    reply_.clear();
    const Outcome outcome = done.reader.End(done.command, protocol_, &reply_);
    if (outcome == Outcome::kAnswered) {
      shared_->Count(&shared_->counters.offloaded);
      shared_->Count(&shared_->counters.from_device);
      connection_->Reply(done.ticket, reply_);
      waiting_.erase(read);
      continue;
    }
    CountReason(outcome);
    ForwardWaiting(static_cast<size_t>(read - waiting_.begin()) + 1);
  }
  if (forwarded_.empty()) {
    Pump();
    Submit();
  }
}

// The first `count` reads that wait go to the host; the device's answers for others are dropped, as
// they are to come later than these.
void OffloadFlow::ForwardWaiting(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const Waiting read = std::move(waiting_.front());
    waiting_.pop_front();
    if (i + 1 < count || count > 1) shared_->Count(&shared_->counters.order);
    ForwardRead(read.ticket, read.bytes, read.command);
  }
  if (count == 0) return;
  for (Waiting& read : waiting_) {
    read.batch = 0;
    read.missed = false;
  }
}

void OffloadFlow::ForwardRead(Ticket ticket, std::string_view bytes, const CommandInfo* command) {
  shared_->Count(&shared_->counters.forwarded);
  forwarded_.push_back({});
  forwarded_.back().ticket = ticket;
  forwarded_.back().command = command;
  connection_->Forward(ticket, bytes);
}

// What may be written by the request in request_. False when it cannot be told.
bool OffloadFlow::SlotsOf(const CommandInfo* command, std::vector<Slot>* slots) {
  if (command == nullptr) return false;
  if (command->id == Command::kExec) {
    if (request_.size() == 1) *slots = std::move(queued_slots_);
    return true;
  }
  if (!command->writes()) return true;
  if (command->first_key == 0 || !command->ArityFits(request_.size())) return false;
  ForEachKey(*command, request_.arguments(),
             [&](std::string_view key) { slots->push_back(shared_->table.SlotOf(key)); });
  return true;
}

bool OffloadFlow::MarkAll(const std::vector<Slot>& slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (shared_->table.Mark(slots[i])) continue;
    for (size_t done = 0; done < i; ++done) shared_->table.Settle(slots[done]);
    return false;
  }
  return true;
}

void OffloadFlow::ForwardCommand(Ticket ticket, std::string_view bytes,
                                 const CommandInfo* command) {
  Forwarded forwarded;
  forwarded.ticket = ticket;
  forwarded.command = command;
  if (!SlotsOf(command, &forwarded.slots)) forwarded.slots = {shared_->table.everything()};
  std::sort(forwarded.slots.begin(), forwarded.slots.end());
  forwarded.slots.erase(std::unique(forwarded.slots.begin(), forwarded.slots.end()),
                        forwarded.slots.end());
  if (!MarkAll(forwarded.slots)) {
    // Ended, since a transaction's commands cannot be left out.
    connection_->Close("-ERR too many writes of one key are under way; try again\r\n");
    return;
  }
  NoteState(bytes, &forwarded);
  // Kept until EXEC; marked by it once more, since queueing them has an answer of its own.
  if (multi_ && command != nullptr && command->id != Command::kMulti) {
    queued_slots_.insert(queued_slots_.end(), forwarded.slots.begin(), forwarded.slots.end());
    std::sort(queued_slots_.begin(), queued_slots_.end());
    queued_slots_.erase(std::unique(queued_slots_.begin(), queued_slots_.end()),
                        queued_slots_.end());
  }
  shared_->Count(&shared_->counters.forwarded);
  forwarded_.push_back(std::move(forwarded));
  connection_->Forward(ticket, bytes);
}

// The agent's own commands are unknown to clients, whose host connection would obey them: the host
// is given another name, which it does not know, and so fails a transaction, too.
void OffloadFlow::ForwardRenamed(Ticket ticket) {
  std::string name(request_[0]);
  std::replace(name.begin(), name.end(), '.', '-');
  std::vector<std::string_view> arguments = request_.arguments();
  arguments[0] = name;
  std::string bytes;
  AppendRequest(arguments, &bytes);
  ForwardWaiting(waiting_.size());
  ForwardCommand(ticket, bytes, nullptr);
}

// Of a HELLO: whether it says who the client is.
bool HelloNamesUser(const Request& request) {
  for (size_t i = 2; i < request.size(); i += 2) {  // SETNAME and its word
    if (EqualsIgnoringCase(request[i], "auth")) return true;
  }
  return false;
}

// What a request in request_ does to the connection's state.
void OffloadFlow::NoteState(std::string_view bytes, Forwarded* forwarded) {
  if (forwarded->command == nullptr) return;
  const size_t size = request_.size();
  int64_t version = 0;
  switch (forwarded->command->id) {
    case Command::kMulti:
      multi_ = multi_ || size == 1;
      break;
    case Command::kExec:
    case Command::kDiscard:
    case Command::kReset:
      if (size != 1) break;
      multi_ = watching_ = false;
      queued_slots_.clear();
      break;
    case Command::kWatch:
      watching_ = true;
      break;
    case Command::kUnwatch:
      watching_ = false;
      break;
    case Command::kHello:
      if (size > 1 && ParseInteger(request_[1], &version)) {
        forwarded->protocol = static_cast<int>(version);
        forwarded->said = {std::string(bytes), kProtocol | (HelloNamesUser(request_) ? kUser : 0)};
      }
      break;
    case Command::kAuth:
      forwarded->said = {std::string(bytes), kUser};
      break;
    case Command::kClient:
      if (size == 3 && EqualsIgnoringCase(request_[1], "setname")) {
        forwarded->said = {std::string(bytes), kName};
      }
      break;
    case Command::kInfo:
      forwarded->append_info =
          !multi_ && (size == 1 || (size == 2 && (EqualsIgnoringCase(request_[1], "all") ||
                                                  EqualsIgnoringCase(request_[1], "everything") ||
                                                  EqualsIgnoringCase(request_[1], "default") ||
                                                  EqualsIgnoringCase(request_[1], "offload"))));
      break;
    default:
      break;
  }
}

// With one more section; as it is, if it is no text.
void AppendInfo(std::string_view reply, const std::string& section, std::string* out) {
  const size_t line = reply.find("\r\n");
  if (reply.size() < 2 || (reply[0] != '$' && reply[0] != '=') || line == reply.npos ||
      reply.size() < line + 4) {
    out->append(reply);
    return;
  }
  const std::string_view text = reply.substr(line + 2, reply.size() - line - 4);
  const std::string_view blank = text.size() > 4 ? "\r\n" : "";
  absl::StrAppend(out, reply.substr(0, 1) == "$" ? "$" : "=",
                  text.size() + blank.size() + section.size(), "\r\n");
  out->append(text);
  out->append(blank);
  out->append(section);
  out->append("\r\n");
}

void OffloadFlow::Accepted(const Forwarded& command, std::string_view reply) {
  if (command.command == nullptr || IsError(reply)) return;
  Remember(command.said);
  switch (command.command->id) {
    case Command::kHello:
      if (command.protocol != 0) protocol_ = command.protocol;
      break;
    case Command::kReset:
      protocol_ = 2;
      said_.clear();
      permitted_ = !shared_->options.needs_auth;
      break;
    default:
      // The host has let it read: it knows who it is.
      if (!multi_ && AnsweredHere(command.command->id) && reply[0] != '+') permitted_ = true;
      break;
  }
  requests_.set_authenticated(permitted_ || !said_.empty());
}

// Instead of what says the same and no more.
void OffloadFlow::Remember(const Said& said) {
  if (said.what == 0) return;
  for (Said& before : said_) before.what &= ~said.what;
  said_.erase(std::remove_if(said_.begin(), said_.end(),
                             [](const Said& before) { return before.what == 0; }),
              said_.end());
  said_.push_back(said);
  // Whether this user may read is not known.
  if ((said.what & kUser) != 0) permitted_ = false;
}

void OffloadFlow::Settle(const std::vector<Slot>& slots) {
  if (slots.empty()) return;
  for (const Slot slot : slots) shared_->table.Settle(slot);
  shared_->view->Wake();
}

void OffloadFlow::OnHostReply(Ticket ticket, std::string_view bytes, bool last, std::string* out) {
  if (forwarded_.empty() || forwarded_.front().ticket != ticket) {
    out->append(bytes);
    return;
  }
  Forwarded& command = forwarded_.front();
  if (command.append_info && !IsError(bytes)) {
    AppendInfo(bytes, shared_->Info(), out);
  } else {
    out->append(bytes);
  }
  if (!last) return;
  Accepted(command, bytes);
  Settle(command.slots);
  forwarded_.pop_front();
  PumpSoon();
}

// Its keys are settled, or stay as they are for the fence.
void OffloadFlow::Lose(Forwarded* command, bool sent) {
  if (!sent) {
    Settle(command->slots);
    return;
  }
  if (!command->slots.empty()) shared_->Count(&shared_->counters.lost);
  lost_.insert(lost_.end(), command->slots.begin(), command->slots.end());
}

void OffloadFlow::Fence() { shared_->fencer->Add(host_id_, std::exchange(lost_, {})); }

std::string OffloadFlow::OnHostLost(Ticket ticket, bool sent) {
  if (!forwarded_.empty() && forwarded_.front().ticket == ticket) {
    Lose(&forwarded_.front(), sent);
    forwarded_.pop_front();
    PumpSoon();
  }
  return sent ? "-ERR the host was lost before it answered; whether this was carried out is not "
                "known\r\n"
              : "-ERR the host is not reachable; this was not carried out, try again\r\n";
}

OffloadFlow::Preface OffloadFlow::HostPreface() {
  Fence();
  host_id_ = absl::StrCat(shared_->agent_id, shared_->last_connection.fetch_add(1) + 1);
  host_known_ = false;
  Preface preface;
  AppendRequest({"PULSE.HELLO", host_id_}, &preface.bytes);
  preface.replies = 1;
  for (const Said& said : said_) {
    preface.bytes += said.bytes;
    ++preface.replies;
  }
  return preface;
}

absl::Status OffloadFlow::OnPreface(std::string_view bytes) {
  if (IsError(bytes)) {
    return absl::UnavailableError(
        absl::StrCat("the host refuses the agent: ", std::string(bytes.substr(0, 200))));
  }
  host_known_ = true;
  return absl::OkStatus();
}

void OffloadFlow::OnHostClosed() {
  Fence();
  host_known_ = false;
  // What was queued or watched is lost; the rest of it must not run on its own.
  if (multi_ || watching_) connection_->Close("-ERR the host was lost during a transaction\r\n");
}

}  // namespace

std::unique_ptr<director::Flow> NewOffloadFlow(std::shared_ptr<OffloadShared> shared,
                                               director::Connection* connection) {
  return std::make_unique<OffloadFlow>(std::move(shared), connection);
}

}  // namespace pulse::resp
