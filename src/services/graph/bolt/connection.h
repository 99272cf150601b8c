// A connection's protocol: states, transactions, results. Bolt 5.0 to 5.8.
//
// Its loop pushes messages into the inbox; Work() carries them out on a thread of the pool, one
// after the other. A result runs on that thread while its rows are asked for: where the client has
// them all that it asked for, and there are more than are read ahead, the thread waits in the midst
// of the query for the next PULL, and so it is the client that sets the pace.
//
// Threads: the loop's functions are marked; the rest is for the thread that works.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/application.h"
#include "services/graph/bolt/framing.h"
#include "services/graph/bolt/inbox.h"
#include "services/graph/bolt/packstream.h"
#include "services/graph/bolt/shared.h"
#include "services/graph/session/failure.h"

namespace pulse::bolt {

using cypher::Doing;
using cypher::Failure;

// An answer, or a part of it, on its way to the loop.
struct Part {
  net::Ticket ticket = 0;
  std::string bytes;
  bool last = false;
};

// Where answers go. Called by the thread that works; must not block.
class PartSink {
 public:
  virtual ~PartSink() = default;
  virtual void Deliver(std::vector<Part> parts) = 0;
  // What was delivered goes first.
  virtual void CloseConnection() = 0;
};

// Answers and rows that go to the loop together.
inline constexpr size_t kTogether = size_t{32} << 10;

// A message of type FAILURE, without chunks.
std::string FailureMessage(const Failure& failure, Version version);

class BoltConnection : public std::enable_shared_from_this<BoltConnection> {
 public:
  // `sink` is made for it and belongs to it.
  BoltConnection(BoltShared* shared, std::string client, std::unique_ptr<PartSink> sink);
  ~BoltConnection();

  // The loop's. Before the first message.
  void SetVersion(Version version) { version_ = version; }
  void Arrive(net::Ticket ticket, std::string bytes);
  void Close();
  size_t held() const { return inbox_.held(); }
  Inbox* inbox() { return &inbox_; }
  // When it was last unknown who the client is; 0: it is known.
  int64_t unauthenticated_since() const {
    return unauthenticated_since_.load(std::memory_order_relaxed);
  }
  // It has been known: what is behind a LOGON may be here before that is carried out.
  bool known_once() const { return known_once_.load(std::memory_order_relaxed); }

  // On a thread of the pool: until there is no message.
  void Work();

 private:
  friend class ResultStream;
  enum class State { kHello, kLogon, kReady, kStreaming, kTransaction, kFailed, kClosed };
  // Rows that the client wants.
  struct Demand {
    net::Ticket ticket = 0;  // 0: none
    int64_t rows = 0;
    bool discard = false;
  };
  // Of which notices a client wants to be told. Ours are informations about the schema.
  struct NoticeFilter {
    bool informations = true;
    bool schema = true;
  };
  // Rows that were made and not asked for. `sum`: bytes of those of all results, with the strings
  // that hold them, which of short rows are most of it.
  struct KeptRows {
    explicit KeptRows(size_t* all) : sum(all) {}
    ~KeptRows() { Clear(); }
    KeptRows(const KeptRows&) = delete;
    void Push(std::string row);
    void Pop();
    void Clear();
    size_t* const sum;
    std::deque<std::string> list;
    size_t bytes = 0;
  };
  struct Result {
    explicit Result(size_t* kept_bytes) : rows(kept_bytes) {}
    int64_t id = 0;
    std::shared_ptr<const cypher::Statement> statement;
    // From RUN until it has run; in a transaction, there is the transaction's.
    std::unique_ptr<cypher::RunningEntry> entry;
    ValueMap parameters;         // until it has run
    cypher::RunOptions options;  // of a transaction of its own
    bool ran = false;
    KeptRows rows;
    Demand demand;
    NoticeFilter notices;
    absl::Status status;
    cypher::Outcome outcome;
    int64_t began = 0;
  };

  void Handle(const Incoming& incoming);
  void Dispatch(const Message& message, net::Ticket ticket);
  void Hello(const Message& message, net::Ticket ticket);
  void Logon(const Value& auth, net::Ticket ticket, std::string* metadata);
  void Logoff(net::Ticket ticket);
  void Reset(net::Ticket ticket);
  void Run(const Message& message, net::Ticket ticket);
  void Begin(const Message& message, net::Ticket ticket);
  void Pull(const Message& message, net::Ticket ticket, bool discard);
  void Commit(net::Ticket ticket);
  void Rollback(net::Ticket ticket);
  void Route(const Message& message, net::Ticket ticket);
  void HandleTermination();

  // connection_results.cc
  bool ReadDemand(const Message& message, net::Ticket ticket, Demand* demand, int64_t* result);
  void Execute(Result* result, bool ahead);
  void GiveRows(Result* result);
  void Finish(Result* result);
  void GiveSome(Result* result);
  std::string Summary(const Result& result);
  void AddNotices(const Result& result, ValueMap* map) const;
  static NoticeFilter ReadNotices(const Value& extra, NoticeFilter otherwise);
  bool Settle();
  void Watch(cypher::RunningEntry* entry);

  absl::Status ReadOptions(const Value& extra, cypher::RunOptions* options);
  absl::Status CheckBookmarks(const Value& extra) const;
  std::string Bookmark(uint64_t sequence) const;
  void DropTransaction();

  void Succeed(net::Ticket ticket, std::string_view metadata);
  void Fail(net::Ticket ticket, const absl::Status& status, Doing doing);
  void Ignore(net::Ticket ticket);
  void Violation(net::Ticket ticket, std::string_view what);
  void Answer(net::Ticket ticket, std::string_view message, bool last);
  void Append(net::Ticket ticket, std::string_view bytes);
  void Flush();
  void End();

  BoltShared* const shared_;
  const uint64_t id_;
  const std::string client_;
  const std::unique_ptr<PartSink> sink_;
  Inbox inbox_;
  std::atomic<int64_t> unauthenticated_since_;
  std::atomic<bool> known_once_{false};

  Version version_;
  State state_ = State::kHello;
  NoticeFilter notices_;              // of HELLO
  NoticeFilter transaction_notices_;  // of BEGIN
  bool system_ = false;               // what runs is for the database of that name
  std::string routing_address_;
  cypher::Caller caller_ = cypher::kNobody;
  std::unique_ptr<cypher::Transaction> transaction_;
  cypher::RunningEntry* running_ = nullptr;  // of it, or of the query that runs
  absl::Status terminated_;                  // why the transaction has gone before the client knew
  size_t kept_bytes_ = 0;                    // of rows of all results
  std::map<int64_t, std::unique_ptr<Result>> results_;
  int64_t last_result_ = -1;
  std::vector<Part> parts_;
  size_t part_bytes_ = 0;
};

}  // namespace pulse::bolt
