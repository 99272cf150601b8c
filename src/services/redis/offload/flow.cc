// What is forwarded, and what the connection is to the host. Reads are in offload_reads.cc.
#include "services/redis/offload/flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "net/ring.h"
#include "services/redis/commands/http_guard.h"

namespace pulse::redis {
namespace {

// Of one connection's values on their way to the host.
constexpr size_t kMostCacheableBytes = size_t{256} << 10;
// A transaction with more of them may write any key.
constexpr size_t kMostQueuedSlots = size_t{64} << 10;
constexpr size_t kFewQueuedSlots = 1024;  // are not sorted before EXEC

// Before anything was done.
bool IsRefused(std::string_view reply) {
  for (const std::string_view begin : {"-ERR unknown command", "-ERR wrong number of arguments",
                                       "-NOAUTH ", "-NOPERM ", "-EXECABORT "}) {
    if (reply.substr(0, begin.size()) == begin) return true;
  }
  return false;
}

bool IsError(std::string_view reply) { return reply.empty() || reply[0] == '-'; }

void SortOnce(std::vector<DirtyTable::Slot>* slots) {
  std::sort(slots->begin(), slots->end());
  slots->erase(std::unique(slots->begin(), slots->end()), slots->end());
}

}  // namespace

OffloadFlow::~OffloadFlow() {
  for (Forwarded& command : forwarded_) AbandonCommand(&command, host_known_);
  FenceLostWrites();
}

bool OffloadFlow::HasPendingAuth() const {
  return std::any_of(forwarded_.begin(), forwarded_.end(),
                     [](const Forwarded& command) { return (command.setup.aspects & kUser) != 0; });
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
  if (command == nullptr && IsOfHttp(request_[0])) {
    NoteHttp(connection_->peer());
    connection_->Close({});
    return;
  }
  if (command != nullptr && (command->flags & kPrivate) != 0) {
    ForwardRenamed(ticket);
    return;
  }
  if (command != nullptr && command->id == Command::kQuit) {
    // In its place: what is before it is answered first.
    connection_->Close("+OK\r\n");
    return;
  }
  const bool read = CanAnswer(command);
  if (read || CanWait(command)) {
    HandleKeyCommand(ticket, bytes, command, read);
    return;
  }
  if (!waiting_.empty()) {
    if (!ForwardAllWaiting(&shared_->counters.order)) return;
    request_.Parse(bytes).IgnoreError();  // as it was before
  }
  // Ended, since a transaction's commands cannot be left out.
  if (!ForwardCommand(ticket, bytes, command)) connection_->Close(kTooManyWrites);
}

// What may be written by the request in request_. False when it cannot be told. The host, which has
// the same table of commands or had taken nothing of us (CommandsDigest), refuses what is not in
// the table or does not fit: that marks nothing, or anyone could keep everything dirty.
bool OffloadFlow::SlotsWrittenBy(const CommandInfo* command, std::vector<Slot>* slots) {
  if (command == nullptr || !command->ArityFits(request_.size())) return true;
  if (command->id == Command::kExec) {
    SortQueued();
    if (queued_everything_) return false;
    *slots = std::move(queued_slots_);
    return true;
  }
  if (!command->writes()) return true;
  if (command->first_key == 0) return false;
  ForEachKey(*command, request_.arguments(),
             [&](std::string_view key) { slots->push_back(shared_->table.SlotOf(key)); });
  return true;
}

bool OffloadFlow::MarkAll(const std::vector<Slot>& slots, DirtyTable::Version* alone) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (shared_->table.Mark(slots[i], alone)) continue;
    for (size_t done = 0; done < i; ++done) shared_->table.Refuse(slots[done]);
    return false;
  }
  return true;
}

// A plain SET of a key that is read: what it leaves behind is known when the host has answered.
std::unique_ptr<OffloadFlow::CacheableWrite> OffloadFlow::PrepareCacheableWrite(
    const CommandInfo* command) {
  if (command == nullptr || command->id != Command::kSet || multi_ || request_.size() != 3) {
    return nullptr;
  }
  const std::string_view key = request_[1];
  const std::string_view data = request_[2];
  if (key.size() + data.size() >= ValueCache::kMostBytes ||
      cacheable_bytes_ + key.size() + data.size() > kMostCacheableBytes) {
    return nullptr;
  }
  const uint64_t hash = shared_->table.Hash(key);
  if (!shared_->values->Holds(hash, key)) return nullptr;
  auto cacheable = std::make_unique<CacheableWrite>();
  cacheable->hash = hash;
  cacheable->key = key;
  EncodeValue(data, kNever, &cacheable->stored);
  // Before the mark, as if it were part of it.
  cacheable->version.generation = shared_->view->Generation();
  return cacheable;
}

void OffloadFlow::CacheWrite(const Forwarded& command, std::string_view reply) {
  if (command.cacheable == nullptr) return;
  const CacheableWrite& write = *command.cacheable;
  cacheable_bytes_ -= write.bytes();
  if (!write.version.known() || reply != "+OK\r\n") return;
  shared_->values->Update(write.hash, write.key, write.version, write.stored);
}

bool OffloadFlow::ForwardCommand(Ticket ticket, std::string_view bytes,
                                 const CommandInfo* command) {
  Forwarded forwarded;
  forwarded.ticket = ticket;
  forwarded.command = command;
  if (!SlotsWrittenBy(command, &forwarded.slots)) forwarded.slots = {shared_->table.everything()};
  SortOnce(&forwarded.slots);
  forwarded.cacheable = PrepareCacheableWrite(command);
  if (!MarkAll(forwarded.slots, forwarded.cacheable ? &forwarded.cacheable->version : nullptr)) {
    return false;
  }
  if (forwarded.cacheable != nullptr) cacheable_bytes_ += forwarded.cacheable->bytes();
  RecordConnectionState(bytes, &forwarded);
  // Kept until EXEC; marked by it once more, since queueing them has an answer of its own.
  if (multi_ && (command == nullptr || command->id != Command::kMulti)) QueueSlots(forwarded.slots);
  shared_->Count(&shared_->counters.forwarded);
  forwarded_.push_back(std::move(forwarded));
  connection_->Forward(ticket, bytes);
  return true;
}

// Sorted when there are twice as many as were left the last time, so that each costs little.
void OffloadFlow::QueueSlots(const std::vector<Slot>& slots) {
  if (queued_everything_) return;
  queued_slots_.insert(queued_slots_.end(), slots.begin(), slots.end());
  if (queued_slots_.size() > queued_sorted_ * 2 + kFewQueuedSlots) SortQueued();
}

void OffloadFlow::SortQueued() {
  SortOnce(&queued_slots_);
  queued_sorted_ = queued_slots_.size();
  if (queued_sorted_ <= kMostQueuedSlots) return;
  DropQueued();
  queued_everything_ = true;
}

void OffloadFlow::DropQueued() {
  net::FreeBytes(&queued_slots_);
  queued_sorted_ = 0;
  queued_everything_ = false;
}

// The host has not begun a transaction; nor has this client another one under way, unless there was
// a later MULTI.
void OffloadFlow::CancelMulti(const Forwarded& command) {
  if (!command.began_multi || command.ticket != last_multi_) return;
  multi_ = false;
  DropQueued();
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
  if (!ForwardAllWaiting(&shared_->counters.order)) return;
  if (!ForwardCommand(ticket, bytes, nullptr)) connection_->Close(kTooManyWrites);
}

// Of a HELLO: whether it says who the client is.
static bool HelloNamesUser(const Request& request) {
  for (size_t i = 2; i < request.size(); i += 2) {  // SETNAME and its word
    if (EqualsIgnoringCase(request[i], "auth")) return true;
  }
  return false;
}

// What a request in request_ does to the connection's state.
void OffloadFlow::RecordConnectionState(std::string_view bytes, Forwarded* forwarded) {
  if (forwarded->command == nullptr) return;
  const size_t size = request_.size();
  int64_t version = 0;
  switch (forwarded->command->id) {
    case Command::kMulti:
      if (size != 1) break;
      forwarded->began_multi = !multi_;
      last_multi_ = forwarded->ticket;
      multi_ = true;
      break;
    case Command::kExec:
    case Command::kDiscard:
    case Command::kReset:
      if (size != 1) break;
      multi_ = watching_ = false;
      DropQueued();
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
        const bool names_user = HelloNamesUser(request_);
        forwarded->setup = {std::string(bytes), kProtocol | (names_user ? kUser : 0), names_user};
      }
      break;
    case Command::kAuth:
      forwarded->setup = {std::string(bytes), kUser, true};
      break;
    case Command::kClient:
      if (size == 3 && EqualsIgnoringCase(request_[1], "setname")) {
        forwarded->setup = {std::string(bytes), kName};
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
static void AppendInfo(std::string_view reply, const std::string& section, std::string* out) {
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

void OffloadFlow::ApplyAccepted(const Forwarded& command, std::string_view reply) {
  if (command.command == nullptr || IsError(reply)) return;
  RememberSetup(command.setup);
  if ((command.command->flags & kNoAuth) == 0) {
    accepted_ = true;
    // Without a word of who it is: the server may have been started anew.
    if (shared_->wants_password.load(kRelaxed) &&
        std::none_of(setup_commands_.begin(), setup_commands_.end(),
                     [](const SetupCommand& setup) { return (setup.aspects & kUser) != 0; })) {
      shared_->wants_password.store(false, kRelaxed);
    }
  }
  switch (command.command->id) {
    case Command::kHello:
      if (command.protocol != 0) protocol_ = command.protocol;
      break;
    case Command::kReset:
      protocol_ = 2;
      setup_commands_.clear();
      accepted_ = false;
      may_read_ = !shared_->options.needs_auth;
      break;
    default:
      // The host has let it read: it knows who it is.
      if (multi_ || !IsOffloadable(command.command->id) || reply[0] == '+') break;
      may_read_ = true;
      permitted_run_ = run_;
      break;
  }
}

// Instead of what says the same and no more.
void OffloadFlow::RememberSetup(const SetupCommand& setup) {
  if (setup.aspects == 0) return;
  for (SetupCommand& before : setup_commands_) before.aspects &= ~setup.aspects;
  setup_commands_.erase(
      std::remove_if(setup_commands_.begin(), setup_commands_.end(),
                     [](const SetupCommand& before) { return before.aspects == 0; }),
      setup_commands_.end());
  // Those that name a user first: without one the host may refuse the others.
  auto at = setup_commands_.end();
  while (setup.names_user && at != setup_commands_.begin() && !std::prev(at)->names_user) --at;
  setup_commands_.insert(at, setup);
  // Whether this user may read is not known.
  if ((setup.aspects & kUser) != 0) may_read_ = false;
}

void OffloadFlow::SettleMarks(const std::vector<Slot>& slots) {
  if (slots.empty()) return;
  for (const Slot slot : slots) shared_->table.Settle(slot);
  shared_->view->Wake();
}

void OffloadFlow::RefuseMarks(const std::vector<Slot>& slots) {
  for (const Slot slot : slots) shared_->table.Refuse(slot);
}

void OffloadFlow::OnHostReply(Ticket ticket, std::string_view bytes, bool last, std::string* out) {
  const auto at = FindForwarded(ticket);
  if (at == forwarded_.end()) {
    out->append(bytes);
    return;
  }
  Forwarded& command = *at;
  if (command.append_info && !IsError(bytes)) {
    AppendInfo(bytes, shared_->Info(), out);
  } else {
    out->append(bytes);
  }
  if (!last) return;
  if (IsError(bytes)) CancelMulti(command);
  if (bytes.substr(0, 7) == "-NOAUTH") shared_->wants_password.store(true, kRelaxed);
  ApplyAccepted(command, bytes);
  // Before others see it settled: who reads then finds it known.
  CacheWrite(command, bytes);
  if (IsRefused(bytes)) {
    RefuseMarks(command.slots);
  } else {
    SettleMarks(command.slots);
  }
  forwarded_.erase(at);
}

// The host answers in order: nearly always the first. Of a connection that has ended, what came too
// late to be sent may be lost before what was.
std::deque<OffloadFlow::Forwarded>::iterator OffloadFlow::FindForwarded(Ticket ticket) {
  return std::find_if(forwarded_.begin(), forwarded_.end(),
                      [ticket](const Forwarded& command) { return command.ticket == ticket; });
}

// Its keys are settled, or stay as they are for the fence.
void OffloadFlow::AbandonCommand(Forwarded* command, bool sent) {
  CacheWrite(*command, {});
  if (!sent) {
    RefuseMarks(command->slots);
    return;
  }
  if (!command->slots.empty()) shared_->Count(&shared_->counters.lost);
  lost_.insert(lost_.end(), command->slots.begin(), command->slots.end());
}

void OffloadFlow::FenceLostWrites() {
  shared_->fence_client->AwaitFence(host_id_, std::exchange(lost_, {}));
}

std::string OffloadFlow::OnHostLost(Ticket ticket, bool sent) {
  if (const auto at = FindForwarded(ticket); at != forwarded_.end()) {
    if (!sent) CancelMulti(*at);
    AbandonCommand(&*at, sent);
    forwarded_.erase(at);
  }
  return sent ? "-ERR the host was lost before it answered; whether this was carried out is not "
                "known\r\n"
              : "-ERR the host is not reachable; this was not carried out, try again\r\n";
}

OffloadFlow::Preface OffloadFlow::HostPreface() {
  FenceLostWrites();
  // The connection before may have ended within a reply.
  replies_ = ReplySplitter(shared_->options.limits);
  host_id_ = absl::StrCat(shared_->agent_id, shared_->last_connection.fetch_add(1) + 1);
  host_known_ = false;
  Preface preface;
  AppendRequest(
      {"PULSE.HELLO", host_id_, CommandsDigest(), connection_->peer(), shared_->directory},
      &preface.bytes);
  preface.replies = 1;
  for (const SetupCommand& setup : setup_commands_) {
    preface.bytes += setup.bytes;
    ++preface.replies;
  }
  return preface;
}

absl::Status OffloadFlow::OnPreface(std::string_view bytes) {
  // What it was is no more: it has to say anew who it is.
  if (IsError(bytes) && host_known_) connection_->Close(bytes);
  if (IsError(bytes)) {
    return absl::UnavailableError(
        absl::StrCat("the host refuses the agent: ", std::string(bytes.substr(0, 200))));
  }
  if (!std::exchange(host_known_, true)) {
    run_ = XXH3_64bits(bytes.data(), bytes.size());
    shared_->run.store(run_, kRelaxed);
  }
  return absl::OkStatus();
}

void OffloadFlow::OnHostClosed() {
  FenceLostWrites();
  host_known_ = false;
  // What was queued or watched is lost; the rest of it must not run on its own.
  if (multi_ || watching_) connection_->Close("-ERR the host was lost during a transaction\r\n");
}

std::unique_ptr<net::Flow> NewOffloadFlow(std::shared_ptr<OffloadShared> shared,
                                          net::Connection* connection) {
  return std::make_unique<OffloadFlow>(std::move(shared), connection);
}

}  // namespace pulse::redis
