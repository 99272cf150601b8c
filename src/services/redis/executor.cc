#include "services/redis/executor.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_profile.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/http_guard.h"

namespace pulse::redis {
namespace {

// Together: what one read, or one write, of RocksDB carries.
constexpr size_t kMostBatched = 64;
using RequestList = absl::InlinedVector<const Request*, kMostBatched>;
// Of a SET that goes with those of other connections.
constexpr size_t kLargestTogether = size_t{64} << 10;
// Of one transaction.
constexpr size_t kMostQueued = size_t{64} << 20;
constexpr size_t kMostQueuedCommands = 100'000;
// Of one connection; to end them takes a loop as long as this many take.
constexpr size_t kMostWatches = 10'000;
constexpr std::string_view kCrossSlot = "CROSSSLOT Keys in request don't hash to the same slot";
constexpr std::string_view kSlotIsDown = "CLUSTERDOWN Hash slot not served";
constexpr std::string_view kTooMuchKept =
    "ERR the transactions of all clients hold too many bytes; try again later";

// Of those on the connection: what asks the keyspace, which others may be at work on, and what
// writes the file of users, or waits for who does.
bool MayWait(Command command, const Arguments& args) {
  if (command == Command::kAcl && args.size() > 1) {
    for (const char* sub : {"save", "load", "setuser", "deluser"}) {
      if (EqualsIgnoringCase(args[1], sub)) return true;
    }
  }
  return command == Command::kInfo || command == Command::kConfig || command == Command::kMemory;
}

void AppendError(const absl::Status& error, ReplyWriter* reply) {
  const std::string line = ErrorLine(error);
  reply->Error(std::string_view(line).substr(1, line.size() - 3));
}

}  // namespace

void ServerFacts::Add(const CommandCounts& counts) {
  const uint64_t before = commands.fetch_add(counts.commands, std::memory_order_relaxed);
  // A sample now and then, so that few commands ask for the time.
  constexpr uint64_t kBetweenSamples = 256;
  const uint64_t now = before + counts.commands;
  if (before / kBetweenSamples != now / kBetweenSamples) command_rate.Sample(NowNanos(), now);
  if (counts.hits > 0) hits.fetch_add(counts.hits, std::memory_order_relaxed);
  if (counts.misses > 0) misses.fetch_add(counts.misses, std::memory_order_relaxed);
  if (counts.waited > 0) waited.fetch_add(counts.waited, std::memory_order_relaxed);
}

CommandCounts ServerFacts::Others() const {
  const std::lock_guard<std::mutex> lock(others_mu_);
  CommandCounts all = others != nullptr ? others() : CommandCounts();
  // Where a server is about to stop, they may be fewer.
  all.commands -= std::min(all.commands, others_before_.commands);
  all.hits -= std::min(all.hits, others_before_.hits);
  all.misses -= std::min(all.misses, others_before_.misses);
  return all;
}

void ServerFacts::ResetCounters() {
  {
    const std::lock_guard<std::mutex> lock(others_mu_);
    others_before_ = others != nullptr ? others() : CommandCounts();
  }
  others_rate.Reset(NowNanos());
  for (auto* counter : {&connections, &commands, &hits, &misses, &waited, &rejected}) {
    counter->store(0, std::memory_order_relaxed);
  }
  command_stats.Reset();
  error_stats.Reset();
  command_rate.Reset(NowNanos());
  traffic.Forget();
}

void RequestBatch::Clear() {
  bytes.clear();
  entries.clear();
  next = delivered = parsed = 0;
  out.clear();
  ends.clear();
  counts = {};
  lacks = 0;
  may_exceed = false;
}

// Null, after an error reply, when it cannot be read.
const Request* Executor::RequestAt(RequestBatch* batch, size_t index, ReplyWriter* reply) {
  if (index < batch->parsed) return &batch->requests[index];
  const CpuScope scope(CpuComponent::kParse);
  // At once: requests hold views of themselves.
  if (batch->requests.size() < batch->entries.size()) batch->requests.resize(batch->entries.size());
  while (batch->parsed <= index) {
    Request& request = batch->requests[batch->parsed];
    const std::string_view bytes = batch->At(batch->parsed);
    const auto status =
        batch->entries[batch->parsed].split ? request.ParseSplit(bytes) : request.Parse(bytes);
    if (!status.ok()) {
      if (index != batch->parsed) return nullptr;
      AppendError(status, reply);
      return nullptr;
    }
    ++batch->parsed;
  }
  return &batch->requests[index];
}

void Executor::Parse(RequestBatch* batch) {
  std::string ignored;
  ReplyWriter nowhere(&ignored, 2);
  if (!batch->entries.empty()) RequestAt(batch, batch->entries.size() - 1, &nowhere);
}

bool Executor::MayBatch(const Session& session, Command command) const {
  if (session.in_multi || session.user == nullptr) return false;
  if (session.told != nullptr || session.replies_off || session.skip_replies > 0) return false;
  if (session.users_version != facts_->users.version()) return false;
  const bool is_get = command == Command::kGet;
  return (is_get ? session.user->may_get_all() : session.user->may_set_all()) &&
         !facts_->pause.Holds(!is_get);
}

bool Executor::IsBatchable(const Request& request, Command command) const {
  return request.size() == (command == Command::kGet ? 2 : 3) &&
         EqualsIgnoringCase(request[0], AllCommands()[static_cast<size_t>(command)]->name) &&
         (!node_ || node_.Has(request[1]));
}

size_t Executor::CountBatchable(const Session& session, RequestBatch* batch, Command command) {
  if (!MayBatch(session, command)) return 0;
  size_t length = 0;
  std::string ignored;
  ReplyWriter nowhere(&ignored, 2);
  while (length < kMostBatched && batch->next + length < batch->entries.size()) {
    const Request* request = RequestAt(batch, batch->next + length, &nowhere);
    if (request == nullptr || !IsBatchable(*request, command)) break;
    ++length;
  }
  return length;
}

void Executor::AnswerSet(std::string_view error, Session* session, RequestBatch* batch,
                         CommandCounts* counts) {
  ReplyWriter reply(&batch->out, session->protocol, &facts_->error_stats);
  if (error.empty()) {
    reply.Ok();
  } else {
    reply.Error(error);
  }
  ++counts->commands;
  ++batch->next;
  batch->ends.push_back(batch->out.size());
}

bool Executor::IsPlainSet(const Session& session, RequestBatch* batch) {
  return batch->entries.size() == 1 && batch->bytes.size() <= kLargestTogether &&
         CountBatchable(session, batch, Command::kSet) == 1;
}

bool Executor::RunSetsTogether(absl::Span<const Member> members) {
  // Since a member's SET was read, its user may have lost the right to it; each is looked at by
  // itself then.
  for (const Member& m : members) {
    if (m.session->users_version != facts_->users.version()) return false;
  }
  RequestList sets;
  for (const Member& m : members) sets.push_back(&m.batch->requests[0]);
  std::array<std::string, kMostBatched> errors;
  const CpuScope scope(CpuComponent::kStore);
  const uint64_t since = Cycles();
  if (store_->RunSets(sets, false, absl::MakeSpan(errors.data(), sets.size())) !=
      Keyspace::RunResult::kDone) {
    return false;
  }
  facts_->command_stats.Add(Command::kSet, members.size(), Cycles() - since, false);
  CommandCounts counts;
  for (size_t i = 0; i < members.size(); ++i) {
    AnswerSet(errors[i], members[i].session, members[i].batch, &counts);
  }
  facts_->Add(counts);
  return true;
}

Executor::Stop Executor::Run(Session* session, RequestBatch* batch, bool may_block) {
  const Tracking::Writing writing(session->facts.id);
  Stop stop = Stop::kEnd;
  uint64_t since = Cycles();
  while (stop == Stop::kEnd && batch->next < batch->entries.size()) {
    if (ended_.load(std::memory_order_relaxed)) return Stop::kClose;
    if (session->ended.load(std::memory_order_relaxed)) return Stop::kClose;
    if (!KnowsUser(session)) return Stop::kClose;
    const size_t first = batch->next;
    const size_t begin = batch->out.size();
    const size_t ends = batch->ends.size();
    const int skipped = session->skip_replies;
    const bool may_exceed = batch->may_exceed;
    batch->command = nullptr;
    stop = batch->IsFull(session->buffers) ? Stop::kFull : RunOne(session, batch, may_block);
    batch->CountReplies(session->buffers);
    const uint64_t now = Cycles();
    if (batch->command != nullptr) Note(*session, *batch, first, begin, now - since);
    since = now;
    if (batch->next > first) DropReplies(session, skipped, batch, ends, begin);
    if (stop == Stop::kWouldBlock) batch->ForgetRoom(session->buffers, may_exceed);
  }
  if (stop == Stop::kWouldBlock) ++batch->counts.waited;
  facts_->Add(batch->counts);
  batch->counts = {};
  return stop;
}

void Executor::DropReplies(Session* session, int skipped_before, RequestBatch* batch, size_t first,
                           size_t begin) {
  if (session->replies_off || (skipped_before > 0 && session->skip_replies > 0)) {
    batch->out.resize(begin);
    std::fill(batch->ends.begin() + static_cast<ptrdiff_t>(first), batch->ends.end(), begin);
  }
  if (session->skip_replies > 0) --session->skip_replies;
  const bool is_client = batch->command != nullptr && batch->command->id == Command::kClient;
  if (!is_client && !session->in_multi) session->caching = Session::Caching::kUnsaid;
}

bool Executor::IsHeld(const Session& session, const CommandInfo& command) const {
  if (command.id == Command::kClient) return false;  // somebody has to end it
  bool writes = command.writes();
  if (command.id == Command::kExec) {
    writes = std::any_of(session.queue.begin(), session.queue.end(),
                         [](const auto& queued) { return queued->command->writes(); });
  }
  return facts_->pause.Holds(writes);
}

bool Executor::IsTracked(const Session& session, const CommandInfo& command) {
  if (session.told == nullptr || !command.reads() || command.writes()) return false;
  const TrackingOptions& options = session.told->options();
  return !options.broadcast && (!options.opt_in || session.caching == Session::Caching::kYes) &&
         (!options.opt_out || session.caching != Session::Caching::kNo);
}

bool Executor::RememberReads(Session* session, const CommandInfo& command, const Arguments& args,
                             bool may_block) {
  if (!IsTracked(*session, command)) return true;
  bool done = true;
  ForEachKey(command, args, [&](std::string_view key) {
    if (!done) return;
    facts_->tracking.Remember(session->told, key);
    WatchTable::Set watch(store_->watch_table());  // which learns when it expires
    std::string error;
    done = store_->Watch(&key, 1, may_block, &watch, &error);
    if (done) facts_->tracking.NoteExpiry(key, watch.first_expiry_ms());
  });
  return done;
}

// An ACL command whose arguments are of users, perhaps passwords.
static bool NamesUsers(const std::vector<std::string_view>& arguments) {
  return arguments.size() > 2 && EqualsIgnoringCase(arguments[0], "acl") &&
         (EqualsIgnoringCase(arguments[1], "setuser") ||
          EqualsIgnoringCase(arguments[1], "deluser") ||
          EqualsIgnoringCase(arguments[1], "getuser"));
}

void Executor::Note(const Session& session, const RequestBatch& batch, size_t first, size_t begin,
                    uint64_t cycles) {
  const size_t last = std::min(batch.next, batch.parsed);
  if (first >= last) return;
  const bool failed = begin < batch.out.size() && batch.out[begin] == '-';
  facts_->command_stats.Add(batch.command->id, last - first, cycles, failed);
  const uint64_t each = cycles / (last - first);
  if (!facts_->slow_log.IsSlow(each)) return;
  for (size_t i = first; i < last; ++i) {
    const Request& request = batch.requests[i];
    if (request.empty()) continue;
    // Passwords are kept nowhere.
    if (EqualsIgnoringCase(request[0], "auth") || EqualsIgnoringCase(request[0], "hello")) continue;
    std::vector<std::string_view> arguments = request.arguments();
    if (NamesUsers(arguments)) {
      std::fill(arguments.begin() + 2, arguments.end(), std::string_view("(redacted)"));
    }
    facts_->slow_log.Add(arguments, each, session.facts.peer, session.facts.name);
  }
}

Executor::Stop Executor::RunOne(Session* session, RequestBatch* batch, bool may_block) {
  ReplyWriter reply(&batch->out, session->protocol, &facts_->error_stats);
  const auto answered = [&](size_t count) {
    batch->next += count;
    while (batch->ends.size() < batch->next - batch->delivered)
      batch->ends.push_back(batch->out.size());
    return Stop::kEnd;
  };
  const Request* request = RequestAt(batch, batch->next, &reply);
  if (request == nullptr) {
    answered(1);
    return Stop::kClose;
  }
  if (request->empty()) return answered(1);
  const CommandInfo* command = FindCommand((*request)[0]);
  if (command != nullptr && (command->flags & kPrivate) != 0 && !session->private_listener) {
    command = nullptr;
  }
  if (command == nullptr && IsOfHttp((*request)[0])) {
    NoteHttp(session->facts.peer);
    answered(1);
    return Stop::kClose;
  }
  if (!Admit(session, *request, command, &reply)) {
    if (command != nullptr) facts_->command_stats.AddRejected(command->id);
    return answered(1);
  }
  if (session->in_multi && (command->flags & kNoQueue) == 0) {
    Queue(session, batch->At(batch->next), batch->entries[batch->next].split, command, &reply);
    return answered(1);
  }
  if (IsHeld(*session, *command)) return Stop::kPause;
  const bool is_tight = session->buffers != nullptr && session->buffers->IsTight();
  // Of several threads, all at once would find that there is room: each takes it first.
  const bool may_be_large =
      session->buffers != nullptr && MayBeLarge(*session, *command, request->arguments());
  if (is_tight || may_be_large) {
    const Stop stop = CheckRoom(*session, *command, request->arguments(), may_block, batch);
    if (stop != Stop::kEnd) return stop;
  }
  batch->command = command;
  session->facts.command->store(command, std::memory_order_relaxed);
  if (session->told != nullptr &&
      !RememberReads(session, *command, request->arguments(), may_block)) {
    return Stop::kWouldBlock;
  }
  const bool plain_get = command->id == Command::kGet;
  if (plain_get || (command->id == Command::kSet && request->size() == 3)) {
    const size_t length = CountBatchable(*session, batch, command->id);
    const CpuScope scope(CpuComponent::kStore);
    if (length > 0 && plain_get) {
      const size_t before = batch->ends.size();
      // Of several GETs, the size of the first one's reply is known; others are left out that would
      // be too much with it.
      const bool few = may_block && may_be_large;
      const uint64_t most = is_tight ? batch->SmallLeft(*session->buffers)
                            : few    ? net::ByteBudget::kMostSmall
                                     : kFullBytes;
      const auto ran =
          store_->RunGets(request, length, most, may_block, &reply, &batch->ends, &batch->counts);
      if (ran == Keyspace::RunResult::kWouldBlock) return Stop::kWouldBlock;
      return answered(batch->ends.size() - before);
    }
    if (length > 1) {
      RequestList sets;
      for (size_t i = 0; i < length; ++i) sets.push_back(request + i);
      std::array<std::string, kMostBatched> errors;
      if (store_->RunSets(sets, may_block, absl::MakeSpan(errors.data(), length)) !=
          Keyspace::RunResult::kDone) {
        return Stop::kWouldBlock;
      }
      for (size_t i = 0; i < length; ++i) AnswerSet(errors[i], session, batch, &batch->counts);
      return Stop::kEnd;
    }
  }
  const Arguments& args = request->arguments();
  Stop stop = Stop::kEnd;
  if (command->id == Command::kWatch) {
    stop = Watch(session, args, may_block, &reply);
  } else if ((command->reads() || command->writes()) && !ConcernsNoKey(*command, args)) {
    const CpuScope scope(CpuComponent::kStore);
    const auto ran = store_->Run(*command, args, may_block, &reply, &batch->counts);
    if (ran == Keyspace::RunResult::kWouldBlock) return Stop::kWouldBlock;
    return answered(1);
  } else if (command->id == Command::kMulti || command->id == Command::kExec ||
             command->id == Command::kDiscard) {
    stop = Transact(session, *command, may_block, &reply, &batch->counts);
  } else if (!may_block && MayWait(command->id, args)) {
    stop = Stop::kWouldBlock;
  } else {
    stop = RunConnectionCommand(session, *command, args, &reply);
  }
  if (stop == Stop::kWouldBlock || stop == Stop::kFence) return stop;
  ++batch->counts.commands;
  answered(1);
  return stop;
}

void Executor::SlotOfKeys::Add(const CommandInfo& command, const Arguments& args) {
  ForEachKey(command, args, [this](std::string_view key) {
    const int of_key = SlotOf(key);
    several |= slot >= 0 && of_key != slot;
    slot = of_key;
  });
}

bool Executor::HasSlots(const SlotOfKeys& keys, ReplyWriter* reply) const {
  if (!keys.several && (keys.slot < 0 || node_.HasSlot(keys.slot))) return true;
  const std::string owner = keys.several ? "" : node_.cluster->OwnerOf(keys.slot);
  reply->Error(keys.several    ? kCrossSlot
               : owner.empty() ? kSlotIsDown
                               : absl::StrCat("MOVED ", keys.slot, " ", owner));
  return false;
}

void Executor::Queue(Session* session, std::string_view bytes, bool split,
                     const CommandInfo* command, ReplyWriter* reply) {
  // Nothing of it will be carried out.
  if (session->broken_multi) return reply->Simple("QUEUED");
  const auto refuse = [&](std::string_view error) {
    session->BreakMulti();
    reply->Error(error);
  };
  if (session->queued_bytes + bytes.size() > kMostQueued ||
      session->queue.size() >= kMostQueuedCommands) {
    return refuse(absl::StrCat("ERR the transaction is too large: it may have ",
                               kMostQueuedCommands, " commands and ", kMostQueued,
                               " bytes; send large values before MULTI"));
  }
  auto queued = std::make_unique<Session::Queued>();
  queued->bytes = bytes;
  queued->command = command;
  Request& request = queued->request;
  const auto status = split ? request.ParseSplit(queued->bytes) : request.Parse(queued->bytes);
  if (!status.ok()) {
    session->BreakMulti();
    AppendError(status, reply);
    return;
  }
  const size_t taken = sizeof(*queued) + bytes.size() + queued->request.MemoryHeld();
  if (session->NeverFits(taken)) {
    const std::string_view option = facts_->transactions.option();
    return refuse(absl::StrCat(
        "ERR the transaction is too large: this server keeps ", facts_->transactions.limit(),
        " bytes for transactions; send large values before MULTI",
        option.empty() ? "" : absl::StrCat(", or start the server with more ", AbslOf(option))));
  }
  if (!session->TryReserve(taken)) return refuse(kTooMuchKept);
  session->queued_bytes += taken;
  session->queue.push_back(std::move(queued));
  reply->Simple("QUEUED");
}

Executor::Stop Executor::Transact(Session* session, const CommandInfo& command, bool may_block,
                                  ReplyWriter* reply, CommandCounts* counts) {
  if (command.id == Command::kMulti) {
    if (session->in_multi) {
      reply->Error("ERR MULTI calls can not be nested");
    } else {
      session->in_multi = true;
      reply->Ok();
    }
    return Stop::kEnd;
  }
  if (!session->in_multi) {
    reply->Error(
        absl::StrCat("ERR ", command.id == Command::kExec ? "EXEC" : "DISCARD", " without MULTI"));
    return Stop::kEnd;
  }
  if (command.id == Command::kDiscard) {
    session->EndMulti();
    reply->Ok();
    return Stop::kEnd;
  }
  if (session->broken_multi) {
    session->EndMulti();
    reply->Error("EXECABORT Transaction discarded because of previous errors.");
    return Stop::kEnd;
  }
  if (node_) {
    SlotOfKeys keys;
    for (const auto& queued : session->queue) {
      keys.Add(*queued->command, queued->request.arguments());
    }
    // Slots may have gone since the commands were queued.
    if (!HasSlots(keys, reply)) {
      session->EndMulti();
      return Stop::kEnd;
    }
  }
  if (!may_block) return Stop::kWouldBlock;
  const bool is_known = KnowsUser(session);
  const std::shared_ptr<Told> told_before = session->told;
  for (const auto& queued : session->queue) {
    // What it may not read, it is not told of.
    queued->remembered = is_known && IsTracked(*session, *queued->command) &&
                         session->user->Allows(*queued->command, queued->request.arguments());
    if (!queued->remembered) continue;
    RememberReads(session, *queued->command, queued->request.arguments(), true);
  }
  std::vector<Keyspace::Queued> commands;
  for (const auto& queued : session->queue) {
    commands.push_back({queued->command, &queued->request.arguments()});
  }
  Stop stop = Stop::kEnd;
  const auto answer = [&](const Keyspace::Queued& queued, ReplyWriter* r) {
    if (!MayStillRun(session, *queued.command, *queued.args, r)) return true;
    Session::Queued& run = *session->queue[static_cast<size_t>(&queued - commands.data())];
    run.has_run = true;
    // What the client was to be told of may have been forgotten by this transaction.
    run.remembered = run.remembered && session->told == told_before;
    run.is_tracked = IsTracked(*session, *queued.command);
    const bool on_keys = queued.command->reads() || queued.command->writes();
    if (on_keys && !ConcernsNoKey(*queued.command, *queued.args)) return false;
    if (RunConnectionCommand(session, *queued.command, *queued.args, r) == Stop::kClose) {
      stop = Stop::kClose;
    }
    return true;
  };
  const CpuScope scope(CpuComponent::kStore);
  store_->RunTransaction(commands, session->watches, answer, reply, counts);
  // Their time is EXEC's.
  for (const auto& queued : session->queue) {
    if (queued->has_run) facts_->command_stats.AddWithin(queued->command->id);
  }
  if (session->told != nullptr) TellOfUnknownReads(*session);
  session->EndMulti();
  return stop;
}

void Executor::TellOfUnknownReads(const Session& session) {
  const bool no_loop = session.told->options().no_loop;
  std::set<std::string, std::less<>> written;
  for (const auto& queued : session.queue) {
    const CommandInfo& command = *queued->command;
    if (!queued->has_run || (!command.reads() && !command.writes())) continue;
    ForEachKey(command, queued->request.arguments(), [&](std::string_view key) {
      if (command.writes()) {
        written.emplace(key);
      } else if (queued->is_tracked &&
                 (!queued->remembered || (no_loop && written.contains(key)))) {
        facts_->tracking.Tell(session.told, key);
      }
    });
  }
}

Executor::Stop Executor::Watch(Session* session, const Arguments& args, bool may_block,
                               ReplyWriter* reply) {
  if (session->in_multi) {
    reply->Error("ERR WATCH inside MULTI is not allowed");
    return Stop::kEnd;
  }
  // A call that would have blocked may have added some already.
  size_t fresh = 0;
  uint64_t taken = 0;
  for (size_t i = 1; i < args.size(); ++i) {
    if (session->watches.Has(args[i])) continue;
    ++fresh;
    taken += WatchTable::Set::BytesOf(args[i]);
  }
  if (session->watches.keys().size() + fresh > kMostWatches) {
    reply->Error(absl::StrCat("ERR more than ", kMostWatches, " watched keys"));
    return Stop::kEnd;
  }
  if (!session->TryReserve(taken)) {
    reply->Error(kTooMuchKept);
    return Stop::kEnd;
  }
  std::string error;
  const bool done = store_->Watch(&args[1], args.size() - 1, may_block, &session->watches, &error);
  session->ReleaseUnused();  // where a key was named twice
  if (!done) return Stop::kWouldBlock;
  if (error.empty()) {
    reply->Ok();
  } else {
    reply->Error(error);
  }
  return Stop::kEnd;
}

std::string Executor::FenceId(const RequestBatch& batch) {
  return std::string(batch.requests[batch.next][1]);
}

void Executor::AnswerFence(Session* session, RequestBatch* batch) {
  ReplyWriter(&batch->out, session->protocol).Bulk(facts_->run_id);
  ++batch->next;
  batch->ends.push_back(batch->out.size());
}

}  // namespace pulse::redis
