#include "services/redis/host_flow.h"

#include <utility>

namespace pulse::redis {
namespace {

// Jobs that are kept for the next connection, per loop. Large ones go.
constexpr size_t kKeptJobs = 16;
constexpr size_t kKeptBytes = size_t{64} << 10;
constexpr size_t kKeptRequests = 256;

std::vector<std::shared_ptr<Job>>& KeptJobs() {
  thread_local std::vector<std::shared_ptr<Job>> jobs;
  return jobs;
}

std::shared_ptr<Job> TakeJob() {
  auto& kept = KeptJobs();
  if (kept.empty()) return std::make_shared<Job>();
  std::shared_ptr<Job> job = std::move(kept.back());
  kept.pop_back();
  return job;
}

void KeepJob(std::shared_ptr<Job> job) {
  auto& kept = KeptJobs();
  if (kept.size() >= kKeptJobs || job->MemoryHeld() > kKeptBytes ||
      job->requests.size() > kKeptRequests) {
    return;
  }
  job->Clear();
  kept.push_back(std::move(job));
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

class HostFlow : public net::Flow {
 public:
  HostFlow(HostApplication* application, net::Connection* connection)
      : app_(application),
        connection_(connection),
        session_(std::make_shared<Session>(app_->store_->watch_table(), &app_->facts_->transactions,
                                           app_->private_)),
        splitter_(app_->limits_) {
    session_->SetUser(app_->facts_->users.Anonymous());
    session_->facts.peer = connection->peer();
    session_->facts.since_ms = app_->store_->now_ms();
    session_->facts.id = app_->facts_->clients.Add(session_->facts);
    session_->end = [remote = connection->remote(), this] {
      remote->Post([this] { connection_->Close({}); });
    };
    app_->facts_->connections.fetch_add(1, std::memory_order_relaxed);
  }
  ~HostFlow() override { app_->facts_->clients.Remove(session_->facts.id); }

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    splitter_.set_authenticated(IsAuthenticated() || auth_pending_);
    return splitter_.Next(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view) override {
    return absl::InternalError("there is no host");
  }
  void OnRequest(net::Ticket ticket, std::string_view bytes) override {
    if (incoming_ == nullptr) incoming_ = TakeJob();
    incoming_->Add(ticket, bytes);
    incoming_bytes_ += bytes.size();
    // What is under way may be a RESET.
    if (!IsAuthenticated() || state_ != State::kIdle) auth_pending_ |= MayAuthenticate(bytes);
  }
  void OnRequestsEnd() override {
    if (state_ == State::kIdle) StartJob();
  }
  size_t held() const override { return incoming_bytes_ + job_bytes_; }
  void OnRoom() override {
    if (state_ == State::kFull) RunJob();
  }
  std::string OnHostLost(net::Ticket, bool) override { return "-ERR there is no host\r\n"; }
  std::string ErrorReply(const absl::Status& error) override { return ErrorLine(error); }

 private:
  enum class State {
    kIdle,
    kWaiting,  // on the pool, or for a fence
    kFull,     // for the client to take replies
    kClosed,
  };

  void StartJob() {
    if (incoming_ == nullptr) return;
    job_ = std::move(incoming_);
    job_bytes_ = std::exchange(incoming_bytes_, 0);
    RunJob();
  }

  bool IsAuthenticated() const { return session_->authenticated.load(std::memory_order_relaxed); }

  // On the loop.
  void RunJob() { HandleStop(app_->executor_->Run(session_.get(), job_.get(), false)); }

  // On the pool: the job belongs to it until it is back. What runs last holds the session, and with
  // it the connection's fence.
  void RunJobOnPool() {
    state_ = State::kWaiting;
    app_->pool_->Post([this, executor = app_->executor_, session = session_, job = std::move(job_),
                       remote = connection_->remote()]() mutable {
      const Executor::Stop stop = executor->Run(session.get(), job.get(), true);
      session.reset();
      remote->Post([this, job = std::move(job), stop] {
        job_ = std::move(job);
        HandleStop(stop);
      });
    });
  }

  // A job has stopped.
  void HandleStop(Executor::Stop stop) {
    Deliver();
    switch (stop) {
      case Executor::Stop::kEnd:
        KeepJob(std::move(job_));
        job_bytes_ = 0;
        state_ = State::kIdle;
        if (incoming_ == nullptr) {
          auth_pending_ = false;
        } else {
          StartJob();
        }
        break;
      case Executor::Stop::kWouldBlock:
        RunJobOnPool();
        break;
      case Executor::Stop::kFull:
        state_ = State::kFull;
        break;
      case Executor::Stop::kFence:
        WaitForFence();
        break;
      case Executor::Stop::kClose:
        state_ = State::kClosed;
        job_.reset();
        incoming_.reset();
        incoming_bytes_ = job_bytes_ = 0;
        connection_->Close({});
        break;
    }
  }

  void WaitForFence() {
    state_ = State::kWaiting;
    app_->facts_->fences.Wait(Executor::FenceId(*job_), [this, remote = connection_->remote()] {
      remote->Post([this] {
        app_->executor_->AnswerFence(session_.get(), job_.get());
        RunJob();
      });
    });
  }

  void Deliver() {
    size_t begin = 0;
    for (size_t i = 0; i < job_->ends.size(); ++i) {
      const std::string_view reply(job_->out.data() + begin, job_->ends[i] - begin);
      connection_->Reply(job_->entries[job_->delivered + i].ticket, reply);
      begin = job_->ends[i];
    }
    job_->delivered = job_->next;
    job_->out.clear();
    job_->ends.clear();
  }

  HostApplication* const app_;
  net::Connection* const connection_;
  const std::shared_ptr<Session> session_;
  RequestSplitter splitter_;
  State state_ = State::kIdle;
  std::shared_ptr<Job> incoming_;  // collects while another is under way
  std::shared_ptr<Job> job_;
  // Of requests in them; the job's also while it is on the pool.
  size_t incoming_bytes_ = 0;
  size_t job_bytes_ = 0;
  // An AUTH is on its way: requests behind it may be longer than a stranger's.
  bool auth_pending_ = false;
};

std::unique_ptr<net::Flow> HostApplication::NewFlow(net::Connection* connection) {
  return std::make_unique<HostFlow>(this, connection);
}

}  // namespace pulse::redis
