// Executor: carries out the requests of connections, one batch after the other. A batch is what one
// connection sent together; it stops where it would have to wait, and goes on from there on a
// thread that may.
//
// One for all connections of a server; thread-safe. A batch and a session belong to one thread at a
// time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "services/redis/acl/acl_log.h"
#include "services/redis/command_stats.h"
#include "services/redis/commands/error_stats.h"
#include "services/redis/commands/keyspace.h"
#include "services/redis/message_batch.h"
#include "services/redis/pause.h"
#include "services/redis/rate_window.h"
#include "services/redis/session.h"
#include "services/redis/slow_log.h"

namespace pulse::redis {

// Bytes through the server's sockets, taken when they are asked for.
class Traffic {
 public:
  struct Bytes {
    uint64_t received = 0;
    uint64_t sent = 0;
    uint64_t refused = 0;  // connections
  };
  // How they are taken; null: the sockets are gone. Waits for who is at it.
  void Set(std::function<Bytes()> take) {
    const std::lock_guard<std::mutex> lock(mu_);
    take_ = std::move(take);
  }
  // Since the last Forget.
  Bytes Take() const {
    const std::lock_guard<std::mutex> lock(mu_);
    const Bytes all = take_ == nullptr ? Bytes() : take_();
    return {all.received - forgotten_.received, all.sent - forgotten_.sent,
            all.refused - forgotten_.refused};
  }
  void Forget() {
    const std::lock_guard<std::mutex> lock(mu_);
    if (take_ != nullptr) forgotten_ = take_();
  }

 private:
  mutable std::mutex mu_;
  std::function<Bytes()> take_;
  Bytes forgotten_;
};

// What INFO tells, beyond what the store knows.
struct ServerFacts {
  std::string run_id;     // 40 hexadecimal digits, of this run alone
  std::string directory;  // DirectoryIdentity() of the database's, if it has one
  uint16_t port = 0;
  int64_t started_ms = 0;
  AclUsers users;
  uint32_t max_clients = 0;
  uint32_t idle_seconds = 0;  // after which a client is cut off; 0: never
  uint64_t max_bulk = 0;
  Clients clients;
  Fences fences;
  TransactionMemory transactions;
  Tracking tracking;
  Pause pause;
  AclLog acl_log;
  std::atomic<uint64_t> connections{0};
  std::atomic<uint64_t> commands{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> waited{0};
  std::atomic<uint64_t> rejected{0};  // passwords
  std::atomic<uint64_t> ended{0};     // connections that others have ended
  RateWindow command_rate;
  RateWindow others_rate;
  // Of clients of other protocols, ever; null: there are none.
  std::function<CommandCounts()> others;
  Traffic traffic;
  SlowLog slow_log;
  CommandStats command_stats;
  ErrorStats error_stats;

  void Add(const CommandCounts& counts);
  // Of clients of other protocols, since ResetCounters.
  CommandCounts Others() const;
  void ResetCounters();

 private:
  mutable std::mutex others_mu_;
  CommandCounts others_before_;  // at the last reset
};

struct RequestBatch : MessageBatch {
  std::vector<Request> requests;  // of entries, as far as they were read
  size_t parsed = 0;
  CommandCounts counts;
  const CommandInfo* command = nullptr;  // that was carried out last; null: none was

  void Clear();
  size_t MemoryHeld() const { return bytes.capacity() + out.capacity(); }
};

class Executor {
 public:
  // `node`: of the cluster, in that mode; then the keyspace is that node's.
  Executor(Keyspace* store, ServerFacts* facts, const ClusterNode& node = {})
      : store_(store), facts_(facts), node_(node) {}

  enum class Stop {
    kEnd,         // all is done
    kWouldBlock,  // the next one needs a thread that may wait
    kFull,        // deliver what there is, then go on; not before `lacks` bytes have room
    kPause,       // the next one waits for the end of CLIENT PAUSE
    kFence,       // the next one is PULSE.FENCE; its caller waits, and answers it
    kClose,       // the connection ends after the last reply
  };
  Stop Run(Session* session, RequestBatch* batch, bool may_block);
  // The connections are gone: what is left of their batches is not carried out. Thread-safe.
  void End() { ended_.store(true, std::memory_order_relaxed); }

  // Whether the batch is one SET without options, of a user who may do that: such batches of
  // several connections can go together.
  bool IsPlainSet(const Session& session, RequestBatch* batch);
  // Carries them out by one write, on a thread that may not wait. False: nothing was done, as they
  // would have had to.
  struct Member {
    Session* session;
    RequestBatch* batch;
  };
  bool RunSetsTogether(absl::Span<const Member> members);

  // Reads all of its requests, so that whoever runs it need not.
  void Parse(RequestBatch* batch);

  // plain_requests.cc. Where all that is left of a batch that was read are GETs and SETs without
  // options, of a user who may do that, adds them to `plain`. Returns how many; 0: the batch is to
  // be run by itself.
  size_t AddPlain(const Session& session, RequestBatch* batch, PlainBatch* plain);
  // Carries out the first of them, on a thread that may not wait; none if what their clients may do
  // has changed since.
  void RunPlain(PlainBatch* plain);
  // Adds one request that was not read from a batch; false: it is to be run by itself.
  bool AddPlain(const Session& session, bool is_set, std::string_view key, std::string_view value,
                PlainBatch* plain);
  // Where the session is: `count` entries from `first` on were its own, and were carried out.
  void NotePlain(const Session& session, const PlainBatch& plain, size_t first, size_t count);

  // Answers the PULSE.FENCE that a batch has stopped at.
  void AnswerFence(Session* session, RequestBatch* batch);
  // Its id.
  static std::string FenceId(const RequestBatch& batch);

 private:
  Stop RunOne(Session* session, RequestBatch* batch, bool may_block);
  // What was carried out from the request `first` on, whose replies begin at `begin`, took so long.
  void Note(const Session& session, const RequestBatch& batch, size_t first, size_t begin,
            uint64_t cycles);
  void AnswerSet(std::string_view error, Session* session, RequestBatch* batch,
                 CommandCounts* counts);
  // Whether the client's GETs or SETs may go together with others; and whether it is such a one.
  bool MayBatch(const Session& session, Command command) const;
  bool IsBatchable(const Request& request, Command command) const;
  bool MayJoin(const Session& session, const PlainBatch& plain) const;
  // Whether its clients may do what they might when the first of it was added.
  bool IsCurrent(const PlainBatch& plain) const;
  // How many requests from the next on are of `command`, plain, and can go together.
  size_t CountBatchable(const Session& session, RequestBatch* batch, Command command);
  const Request* RequestAt(RequestBatch* batch, size_t index, ReplyWriter* reply);
  // admission.cc. False after an error reply.
  bool Admit(Session* session, const Request& request, const CommandInfo* command,
             ReplyWriter* reply);
  // What the user may do has changed. False: there is no such user any more.
  bool RefreshUser(Session* session);
  bool KnowsUser(Session* session) {
    return session->users_version == facts_->users.version() || RefreshUser(session);
  }
  // False after an error reply.
  bool MayRun(const Session& session, const CommandInfo& command, const Arguments& args,
              ReplyWriter* reply);
  // The same of a command of a transaction, in its turn.
  bool MayStillRun(Session* session, const CommandInfo& command, const Arguments& args,
                   ReplyWriter* reply);
  // Notes what is denied.
  AclUser::Verdict CheckUser(const Session& session, const CommandInfo& command,
                             const Arguments& args);
  // In cluster mode: refuses keys of another node, or of several slots.
  struct SlotOfKeys {
    void Add(const CommandInfo& command, const Arguments& args);
    int slot = -1;  // of the last key
    bool several = false;
  };
  bool HasSlots(const SlotOfKeys& keys, ReplyWriter* reply) const;
  void Queue(Session* session, std::string_view bytes, bool split, const CommandInfo* command,
             ReplyWriter* reply);
  Stop Transact(Session* session, const CommandInfo& command, bool may_block, ReplyWriter* reply,
                CommandCounts* counts);
  // room.cc: whether the values that it reads, or what it asks for by its arguments, may be more
  // than kSmallReply.
  bool MayBeLarge(const Session& session, const CommandInfo& command, const Arguments& args) const;
  // What it may need whatever values there are: for a list in its reply, or for the value that it
  // makes.
  uint64_t AskedFor(const CommandInfo& command, const Arguments& args) const;
  uint64_t AskedForInExec(const CommandInfo& command, const Arguments& args) const;
  // Whether its reply fits into what all connections may hold: kEnd; else kFull. Or
  // kWouldBlock.
  Stop CheckRoom(const Session& session, const CommandInfo& command, const Arguments& args,
                 bool may_block, RequestBatch* batch);
  // Whether CLIENT PAUSE makes a command wait.
  bool IsHeld(const Session& session, const CommandInfo& command) const;
  // Whether the client wants to be told of what a command reads now. Of broadcasts it is anyway.
  static bool IsTracked(const Session& session, const CommandInfo& command);
  // Of a client that tracks: the keys that a command is about to read. False: it would block.
  bool RememberReads(Session* session, const CommandInfo& command, const Arguments& args,
                     bool may_block);
  // Of keys that a transaction has read while nothing would tell of later writes. With NOLOOP,
  // behind its own writes of them: these took away what was to tell. And where the right to read
  // them, tracking or CLIENT CACHING YES came with the transaction itself.
  void TellOfUnknownReads(const Session& session);
  // The replies from `first` on, which begin at `begin`, are not sent if CLIENT REPLY says so.
  static void DropReplies(Session* session, int skipped_before, RequestBatch* batch, size_t first,
                          size_t begin);
  Stop Watch(Session* session, const Arguments& args, bool may_block, ReplyWriter* reply);

  // connection_commands.cc
  Stop RunConnectionCommand(Session* session, const CommandInfo& command, const Arguments& args,
                            ReplyWriter* reply);
  void Auth(Session* session, const Arguments& args, ReplyWriter* reply);
  void Hello(Session* session, const Arguments& args, ReplyWriter* reply);
  // What a client was refused, for ACL LOG.
  void NoteDenied(const Session& session, AclLog::Reason reason, std::string_view object,
                  std::string_view user);
  bool Authenticate(Session* session, std::string_view name, std::string_view password,
                    ReplyWriter* reply);
  void Reset(Session* session);
  void Subscribe(Session* session, bool begins, const Arguments& args, ReplyWriter* reply);
  void Config(const Arguments& args, ReplyWriter* reply);
  void SetConfig(const Arguments& args, ReplyWriter* reply);
  // One setting: an error, or empty. `check_only`: it is not set.
  std::string Configure(std::string_view name, std::string_view value, bool check_only);
  // client_commands.cc
  Stop Client(Session* session, const Arguments& args, ReplyWriter* reply);
  void ClientList(const Arguments& args, ReplyWriter* reply);
  void ClientTracking(Session* session, const Arguments& args, ReplyWriter* reply);
  void ClientPause(const Session& session, const Arguments& args, ReplyWriter* reply);
  Stop ClientKill(Session* session, const Arguments& args, ReplyWriter* reply);
  // acl_commands.cc
  Stop Acl(Session* session, const Arguments& args, ReplyWriter* reply);
  Stop DeleteUsers(const Session& session, const Arguments& args, ReplyWriter* reply);
  // Ends the connections of users that are no more, and those that have subscribed and whose users
  // may not hear what they have subscribed to, but the caller's own. True: that is one, too.
  bool EndForbiddenConnections(const Session& session);
  // server_info.cc
  std::string Info(const Arguments& args);
  void MemoryReport(const Arguments& args, ReplyWriter* reply);
  void CommandCommand(const Arguments& args, ReplyWriter* reply);
  void Slowlog(const Arguments& args, ReplyWriter* reply);
  uint16_t port() const { return node_ ? node_.self().port : facts_->port; }

  Keyspace* store_;
  ServerFacts* facts_;
  const ClusterNode node_;
  std::atomic<bool> ended_{false};
};

}  // namespace pulse::redis
