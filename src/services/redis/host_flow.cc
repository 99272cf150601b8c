#include "services/redis/host_flow.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "net/ring.h"
#include "services/redis/detecting_flow.h"
#include "services/redis/group_pacer.h"
#include "services/redis/kept_batches.h"
#include "services/redis/key_locks.h"

namespace pulse::redis {

class HostFlow;

namespace {

// PlainBatches that a loop keeps for the next ones.
constexpr size_t kKeptPlain = 2;
// Of replies that a client has not taken; what it is to be told of beyond that is collected.
constexpr size_t kMostUnsent = size_t{256} << 10;

// Whose batch waits for the end of the loop's turn.
std::vector<HostFlow*>& Waiting() {
  thread_local std::vector<HostFlow*> flows;
  return flows;
}

// Of a loop: what it gives to threads of the host.
struct Groups {
  int away = 0;                    // given, and not got back
  net::EventLoop* loop = nullptr;  // set while there are such
  int64_t look_until = 0;
  GroupPacer pacer;
  std::vector<std::shared_ptr<PlainBatch>> kept;  // for the next ones
};
Groups& GroupsOfLoop() {
  thread_local Groups groups;
  return groups;
}

std::shared_ptr<PlainBatch> TakePlain() {
  auto& kept = GroupsOfLoop().kept;
  if (kept.empty()) return std::make_shared<PlainBatch>();
  std::shared_ptr<PlainBatch> plain = std::move(kept.back());
  kept.pop_back();
  return plain;
}

// By its first word alone: a request may be long.
bool MayAuthenticate(std::string_view bytes) {
  if (bytes[0] == '*') {
    for (int line = 0; line < 2; ++line) {
      const size_t end = bytes.find('\n');
      if (end == std::string_view::npos) return false;
      bytes.remove_prefix(end + 1);
    }
    return EqualsIgnoringCase(bytes.substr(0, 5), "auth\r") ||
           EqualsIgnoringCase(bytes.substr(0, 6), "hello\r");
  }
  return EqualsIgnoringCase(bytes.substr(0, 5), "auth ") ||
         EqualsIgnoringCase(bytes.substr(0, 6), "hello ");
}

}  // namespace

class HostFlow : public SplitFlow {
  // For any thread to call: has `work` done on the loop, unless the flow has ended by then. The
  // connection may go on without it, with another protocol's.
  template <typename Work>
  auto Posted(Work work) {
    return [remote = connection_->remote(), alive = std::weak_ptr<HostFlow*>(alive_),
            work = std::move(work)](auto... args) {
      remote->Post([alive, work, ... args = std::move(args)] {
        if (!alive.expired()) work(args...);
      });
    };
  }

 public:
  HostFlow(HostApplication* application, net::Connection* connection)
      : app_(application),
        executor_(application->ExecutorOf(connection)),
        connection_(connection),
        session_(std::make_shared<Session>(app_->store_->watch_table(), &app_->facts_->transactions,
                                           app_->private_)),
        splitter_(app_->limits_) {
    const uint64_t version = app_->facts_->users.version();
    session_->SetUser(app_->facts_->users.Anonymous(), version);
    session_->facts.peer = connection->peer();
    session_->facts.local = connection->local();
    session_->buffers = connection->budget();
    session_->facts.since_ms = app_->store_->now_ms();
    // Its batch may be with another thread.
    session_->end = [end = Posted([this] { End(); }), session = std::weak_ptr(session_),
                     facts = app_->facts_] {
      if (const auto ours = session.lock()) ours->ended.store(true, std::memory_order_relaxed);
      facts->ended.fetch_add(1);
      end();
    };
    session_->tracking = &app_->facts_->tracking;
    // An agent takes no message that is not a reply; and offloaded reads are not seen here.
    if (!app_->private_ && connection->Push({})) {
      session_->notify = Posted([this](std::shared_ptr<Told> told) {
        AddDue(std::move(told));
        if (due_bytes_ > RequestBatch::MostOf(session_->buffers, Told::kMostUntaken)) TellOfAll();
        if (state_ != State::kWaiting) PushChanges();
      });
    }
    // An agent would only connect again for its client.
    session_->facts.id = app_->facts_->clients.Add(
        session_->facts, app_->private_ ? nullptr : session_->end, session_->notify);
    app_->facts_->connections.fetch_add(1, std::memory_order_relaxed);
  }
  ~HostFlow() override {
    if (state_ == State::kGrouped) std::erase(Waiting(), this);
    if (pause_wait_ != 0) app_->facts_->pause.Forget(pause_wait_);
    app_->facts_->clients.Remove(session_->facts.id);
    // Others are to learn that what was theirs is not passed on.
    bool owes_others = false;
    for (size_t i = 0; i < due_.size(); ++i) owes_others |= !due_[i].own;
    app_->facts_->tracking.EndRedirection(session_->facts.id, owes_others);
  }

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    splitter_.set_authenticated(IsAuthenticated() || auth_pending_);
    return splitter_.Next(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view) override {
    return absl::InternalError("there is no host");
  }
  void OnRequest(net::Ticket ticket, std::string_view bytes) override {
    Collect(ticket, bytes, false);
    // What is under way may be a RESET.
    if (!IsAuthenticated() || state_ != State::kIdle) auth_pending_ |= MayAuthenticate(bytes);
  }
  void OnSplitRequest(net::Ticket ticket, std::string_view request) override {
    Collect(ticket, request, true);
  }
  void OnRequestsEnd() override {
    if (state_ == State::kIdle) StartBatch();
  }
  Idle WhileIdle() override {
    if (state_ != State::kIdle || incoming_ != nullptr || ends_) return {};
    return {executor_, session_.get()};
  }
  // What it has sent is still carried out, but for what waits for the end of CLIENT PAUSE.
  void OnClientEnd() override {
    ends_ = true;
    if (pause_wait_ != 0) Drop();
  }
  size_t held() const override { return incoming_bytes_ + batch_bytes_ + due_bytes_; }
  bool waits_for_room() const override { return !due_.empty(); }
  bool lacks_room() const override { return state_ == State::kFull && batch_->lacks > 0; }
  size_t expected() const override { return splitter_.expected(); }
  bool listens() const override { return session_->facts.subscribed; }
  void OnRoom() override {
    // Looked at before more is pushed: who is told of much has its turn, too.
    const bool sends_first = state_ == State::kFull && batch_->lacks == 0 &&
                             RequestBatch::MustSendFirst(*connection_, session_->buffers);
    if (state_ != State::kWaiting) PushChanges();
    if (state_ != State::kFull || sends_first) return;
    if (!batch_->MayGoOn(connection_, session_->buffers)) return;
    if (worker_ != nullptr) {
      JoinGroup();
    } else {
      RunBatch();
    }
  }
  std::string OnHostLost(net::Ticket, bool) override { return "-ERR there is no host\r\n"; }
  std::string ErrorReply(const absl::Status& error) override {
    std::string line = ErrorLine(error);
    app_->facts_->error_stats.Add(std::string_view(line).substr(1));
    return line;
  }

 private:
  friend class HostApplication;
  enum class State {
    kIdle,
    kGrouped,  // for the end of the turn
    kWaiting,  // on the pool, or for a fence
    kFull,     // for the client to take replies
    kClosed,
  };

  void Collect(net::Ticket ticket, std::string_view request, bool split) {
    if (incoming_ == nullptr) incoming_ = TakeBatch();
    incoming_->Add(ticket, request, split);
    incoming_bytes_ += request.size();
  }

  void StartBatch() {
    if (incoming_ == nullptr) return;
    batch_ = std::move(incoming_);
    batch_bytes_ = std::exchange(incoming_bytes_, 0);
    batch_->may_exceed = connection_->MayExceed();
    worker_ = WorkerOfDesign();
    if (RequestBatch::MustSendFirst(*connection_, session_->buffers)) {
      state_ = State::kFull;  // until OnRoom
    } else if (worker_ != nullptr ||
               (app_->groups_ && executor_->IsPlainSet(*session_, batch_.get()))) {
      JoinGroup();
    } else {
      RunBatch();
    }
  }

  void JoinGroup() {
    state_ = State::kGrouped;
    Waiting().push_back(this);
    if (worker_ != nullptr)
      GroupsOfLoop().pacer.Count(connection_->loop()->now(), batch_->entries.size() - batch_->next,
                                 &paced_);
  }

  WorkerPool* WorkerOfDesign() const {
    if (app_->designs_ == nullptr) return nullptr;
    net::EventLoop* loop = connection_->loop();
    if (loop == nullptr) return nullptr;
    return app_->designs_->WorkerFor(loop, batch_->entries.size());
  }

  bool IsAuthenticated() const { return session_->authenticated.load(std::memory_order_relaxed); }

  // On the loop.
  void RunBatch() { HandleStop(executor_->Run(session_.get(), batch_.get(), false)); }

  // The batch belongs to the thread that carries it out until it is back. What runs last holds the
  // session, and with it the connection's fence.
  struct Away {
    HostFlow* flow;
    std::weak_ptr<HostFlow*> alive;  // looked at on the loop
    std::shared_ptr<Session> session;
    std::shared_ptr<RequestBatch> batch;
    size_t plain_first = 0;  // its entries of the group's PlainBatch
    size_t plain_count = 0;
    Executor::Stop stop = Executor::Stop::kEnd;
    // Its plain requests were not all carried out: the others are as if they had not been plain.
    void TakeFromPlain(const PlainBatch& plain, Executor* executor) {
      const size_t end = std::min(plain_first + plain_count, plain.done());
      if (end > plain_first) executor->NotePlain(*session, plain, plain_first, end - plain_first);
      for (size_t i = plain_first; i < end; ++i) {
        batch->out.append(plain.ReplyOf(i));
        batch->ends.push_back(batch->out.size());
        ++batch->next;
      }
      plain_count = 0;
    }
    // False: it would block.
    bool Run(Executor* executor, bool may_block) {
      stop = executor->Run(session.get(), batch.get(), may_block);
      if (stop == Executor::Stop::kWouldBlock) return false;
      session.reset();
      return true;
    }
    void Return(const PlainBatch& plain, Executor* executor) {
      if (plain_count > 0) executor->NotePlain(*session, plain, plain_first, plain_count);
      if (alive.expired()) return;
      if (plain_count > 0) flow->ReplyFrom(plain, *this);
      flow->batch_ = std::move(batch);
      flow->HandleStop(stop);
    }
  };
  Away SendAway() {
    state_ = State::kWaiting;
    return {this, alive_, session_, std::move(batch_)};
  }
  static void RunOnPool(WorkerPool* pool, Executor* executor, Away away,
                        std::shared_ptr<net::Remote> remote) {
    pool->Post([executor, away = std::move(away), remote = std::move(remote)]() mutable {
      away.Run(executor, true);
      remote->Post([executor, a = std::move(away)]() mutable { a.Return({}, executor); });
    });
  }

  // All that was left of the batch was plain, and was carried out.
  void ReplyFrom(const PlainBatch& plain, const Away& away) {
    const CpuScope scope(CpuComponent::kRespond);
    RequestBatch& batch = *away.batch;
    for (size_t i = 0; i < away.plain_count; ++i) {
      connection_->Reply(batch.entries[batch.next + i].ticket, plain.ReplyOf(away.plain_first + i));
    }
    batch.next = batch.delivered = batch.entries.size();
  }

  // What a client has to be told.
  struct Due {
    std::shared_ptr<Told> told;  // that it was taken from
    Told::Changes changes;
    bool own = false;  // of what it tracks itself
    bool broken = false;
    size_t bytes = 0;
  };

  // Takes what has changed.
  void AddDue(std::shared_ptr<Told> told) {
    Due due;
    due.broken = told->broken();
    // It is the other one's that this connection has been taken for lost.
    if (due.broken && told->id() != session_->facts.id) return;
    due.changes = told->Take(&due.bytes);
    if (!due.changes.all && due.changes.keys.empty()) return;
    due.own = due.broken || told->options().redirect == 0;
    due.bytes += sizeof(Due) + sizeof(Told);
    for (const std::string& prefix : told->options().prefixes) due.bytes += prefix.size();
    due.told = std::move(told);
    due_bytes_ += due.bytes;
    due_.push_back(std::move(due));
  }

  // However many clients redirect to this one, and how often, what it is to be told is bounded;
  // beyond that, it is that all has changed. The last of each kind stays.
  void TellOfAll() {
    std::map<std::pair<bool, bool>, Due> kinds;
    for (; !due_.empty(); due_.pop_front()) {
      Due& due = due_.front();
      kinds[{due.own, due.broken}] = std::move(due);
    }
    due_bytes_ = 0;
    for (auto& [kind, due] : kinds) {
      due.changes = {true, {}};
      due.bytes = sizeof(Due) + sizeof(Told);
      due_bytes_ += due.bytes;
      due_.push_back(std::move(due));
    }
  }

  // Tells the client what has changed of what it keeps, or what another one keeps: behind all
  // replies that were made before. What is left goes on in OnRoom, once some has been sent.
  void PushChanges() {
    while (!due_.empty() && state_ != State::kClosed &&
           connection_->unsent() <= RequestBatch::MostOf(session_->buffers, kMostUnsent)) {
      const Due due = std::move(due_.front());
      due_.pop_front();
      due_bytes_ -= due.bytes;
      const std::string message = MessageOf(due);
      if (!message.empty()) connection_->Push(message);
    }
    if (due_.empty()) due_.Release();
  }

  // Empty where the client cannot be told.
  std::string MessageOf(const Due& due) {
    std::string message;
    ReplyWriter writer(&message, session_->protocol);
    const bool version_3 = session_->protocol >= 3;
    const bool by_channel = !version_3 && session_->facts.subscribed;
    if (due.broken) {
      if (due.told != session_->told) return "";  // it tracks anew, or not any more
      session_->facts.redirect_broken = true;
      app_->facts_->clients.Set(session_->facts);
      if (!version_3) return "";
      writer.Push(2);
      writer.Bulk("tracking-redir-broken");
      writer.Integer(static_cast<int64_t>(due.told->options().redirect));
      return message;
    }
    if (!version_3 && (due.own || !by_channel)) return "";
    const auto begin = [&] {
      if (by_channel) {
        writer.Array(3);
        writer.Bulk("message");
        writer.Bulk(kTrackingChannel);
      } else {
        writer.Push(2);
        writer.Bulk("invalidate");
      }
    };
    if (due.changes.all) {
      begin();
      writer.Null();
      return message;
    }
    for (const std::vector<std::string>& keys : due.told->GroupsOf(due.changes)) {
      begin();
      writer.Array(keys.size());
      for (const std::string& key : keys) writer.Bulk(key);
    }
    return message;
  }

  // Somebody else ends the connection.
  void End() {
    ends_ = true;
    if (pause_wait_ != 0) return Drop();
    connection_->Close({});
  }

  // Nothing more of what the client has sent is carried out.
  void Drop() {
    if (pause_wait_ != 0) app_->facts_->pause.Forget(std::exchange(pause_wait_, 0));
    state_ = State::kClosed;
    batch_.reset();
    incoming_.reset();
    incoming_bytes_ = batch_bytes_ = 0;
    connection_->Close({});
  }

  // A batch has stopped.
  void HandleStop(Executor::Stop stop) {
    batch_->Deliver(connection_);
    PushChanges();
    switch (stop) {
      case Executor::Stop::kEnd:
        KeepBatch(std::move(batch_));
        batch_bytes_ = 0;
        state_ = State::kIdle;
        if (incoming_ == nullptr) {
          auth_pending_ = false;
        } else {
          StartBatch();
        }
        break;
      case Executor::Stop::kWouldBlock:
        RunOnPool(app_->pool_, executor_, SendAway(), connection_->remote());
        break;
      case Executor::Stop::kFull:
        state_ = State::kFull;
        // Nothing else may happen to the connection.
        if (batch_->lacks > 0) connection_->remote()->Post([] {});
        break;
      case Executor::Stop::kPause:
        // As in Redis, what a client sent that has gone, or was cut off, is not carried out later:
        // and what waits would keep a place among the clients until then.
        if (ends_) return Drop();
        state_ = State::kWaiting;
        pause_wait_ = app_->facts_->pause.Wait(Posted([this] {
          if (state_ == State::kClosed) return;  // dropped while this was on its way
          pause_wait_ = 0;
          RunBatch();
        }));
        break;
      case Executor::Stop::kFence:
        WaitForFence();
        break;
      case Executor::Stop::kClose:
        Drop();
        break;
    }
  }

  void WaitForFence() {
    state_ = State::kWaiting;
    app_->facts_->fences.Wait(Executor::FenceId(*batch_), Posted([this] {
                                executor_->AnswerFence(session_.get(), batch_.get());
                                RunBatch();
                              }));
  }

  HostApplication* const app_;
  Executor* const executor_;
  net::Connection* const connection_;
  const std::shared_ptr<Session> session_;
  RequestSplitter splitter_;
  const std::shared_ptr<HostFlow*> alive_ = std::make_shared<HostFlow*>(this);
  State state_ = State::kIdle;
  WorkerPool* worker_ = nullptr;            // that the batch is for
  std::shared_ptr<RequestBatch> incoming_;  // collects while another is under way
  std::shared_ptr<RequestBatch> batch_;
  // Of requests in them; the batch's also while it is on the pool.
  size_t incoming_bytes_ = 0;
  size_t batch_bytes_ = 0;
  // An AUTH is on its way: requests behind it may be longer than a stranger's.
  bool auth_pending_ = false;
  net::Ring<Due> due_;
  size_t due_bytes_ = 0;
  GroupPacer::Seen paced_;
  uint64_t pause_wait_ = 0;  // for the end of CLIENT PAUSE
  bool ends_ = false;        // the client sends no more, or the connection is being ended
};

// To the threads of the host that their design names: all that waits, together. While a group is
// away, what comes is collected for the next one, which costs one wake-up each way.
void HostApplication::SendGroupAway() {
  std::vector<HostFlow*>& waiting = Waiting();
  Groups& groups = GroupsOfLoop();
  if (groups.away > 0) {
    if (groups.loop->now() < groups.look_until) groups.loop->LookUntil(groups.look_until);
    return;
  }
  const auto first =
      std::find_if(waiting.begin(), waiting.end(), [](const HostFlow* f) { return f->worker_; });
  if (first == waiting.end()) return;
  net::EventLoop* const loop = groups.loop = (*first)->connection_->loop();
  if (designs_->agent_is_alone() && !groups.pacer.MayGo(loop->now())) {
    loop->LookUntil(groups.pacer.goes_at());
    return;
  }
  groups.pacer.Gone();
  std::vector<HostFlow::Away> together;
  WorkerPool* worker = nullptr;
  Executor* executor = nullptr;
  std::shared_ptr<net::Remote> remote;  // of the loop, which may end while they are away
  std::shared_ptr<PlainBatch> plain = TakePlain();
  const auto post = [&] {
    if (together.empty()) return;
    ++groups.away;
    worker->Post([all = std::move(together), plain, executor, pool = pool_, remote]() mutable {
      if (!plain->entries.empty()) executor->RunPlain(plain.get());
      // What would block delays nobody else of the group.
      std::erase_if(all, [&](HostFlow::Away& away) {
        if (away.plain_count > 0) {
          if (away.plain_first + away.plain_count <= plain->done()) return false;
          away.TakeFromPlain(*plain, executor);
        }
        if (away.Run(executor, false)) return false;
        HostFlow::RunOnPool(pool, executor, std::move(away), remote);
        return true;
      });
      remote->Post([back = std::move(all), plain = std::move(plain), executor]() mutable {
        Groups& of_loop = GroupsOfLoop();
        --of_loop.away;
        for (HostFlow::Away& away : back) away.Return(*plain, executor);
        plain->Clear();
        if (of_loop.kept.size() < kKeptPlain) of_loop.kept.push_back(std::move(plain));
      });
    });
    together = {};
    plain = TakePlain();
  };
  // Those of one loop are for one thread, but for a change of design between them.
  for (HostFlow*& flow : waiting) {
    if (flow->worker_ == nullptr) continue;
    if (flow->worker_ != worker) post();
    worker = flow->worker_;
    executor = flow->executor_;  // one loop's flows have one
    if (remote == nullptr) remote = loop->remote();
    // The agent's part of the work.
    executor->Parse(flow->batch_.get());
    const size_t plain_first = plain->entries.size();
    const size_t count = executor->AddPlain(*flow->session_, flow->batch_.get(), plain.get());
    together.push_back(flow->SendAway());
    together.back().plain_first = plain_first;
    together.back().plain_count = count;
    flow = nullptr;
  }
  post();
  if (groups.kept.size() < kKeptPlain) groups.kept.push_back(std::move(plain));
  std::erase(waiting, nullptr);
  groups.look_until = designs_->agent_is_alone() ? loop->now() + GroupPacer::kLongestLookNanos : 0;
  if (groups.look_until > 0) loop->LookUntil(groups.look_until);
}

void HostApplication::OnTurnEnd() {
  std::vector<HostFlow*>& waiting = Waiting();
  while (true) {
    if (designs_ != nullptr) SendGroupAway();
    // Those who come meanwhile are behind them.
    absl::InlinedVector<HostFlow*, KeyLocks::kMostStripes> flows;
    for (HostFlow*& flow : waiting) {
      if (flow->worker_ != nullptr) continue;
      flows.push_back(std::exchange(flow, nullptr));
      if (flows.size() == KeyLocks::kMostStripes) break;
    }
    if (flows.empty()) return;
    std::erase(waiting, nullptr);
    absl::InlinedVector<Executor::Member, KeyLocks::kMostStripes> members;
    for (HostFlow* flow : flows) members.push_back({flow->session_.get(), flow->batch_.get()});
    const bool together = flows.size() > 1 && flows[0]->executor_->RunSetsTogether(members);
    for (HostFlow* flow : flows) {
      if (together) {
        flow->HandleStop(Executor::Stop::kEnd);
      } else {
        flow->RunBatch();
      }
    }
  }
}

Executor* HostApplication::ExecutorOf(net::Connection* connection) const {
  if (executors_.size() == 1) return executors_[0];
  return executors_[static_cast<size_t>(connection->loop()->index())];
}

bool HostApplication::ServesOther() const {
  return other_ != nullptr && other_->is_it != nullptr && facts_->users.anonymous_has_all_data();
}

std::unique_ptr<SplitFlow> HostApplication::NewSplitFlow(net::Connection* connection) {
  return std::make_unique<HostFlow>(this, connection);
}

std::unique_ptr<net::Flow> HostApplication::NewOtherFlow(net::Connection* connection) {
  return ServesOther() ? other_->make(connection, pool_) : nullptr;
}

std::unique_ptr<net::Flow> HostApplication::NewFlow(net::Connection* connection) {
  if (!ServesOther()) return std::make_unique<HostFlow>(this, connection);
  return std::make_unique<DetectingFlow>(
      other_->is_it, std::make_unique<HostFlow>(this, connection),
      [this, connection] { return other_->make(connection, pool_); },
      [this] { return ServesOther(); });
}

}  // namespace pulse::redis
