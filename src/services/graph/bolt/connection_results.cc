// Results of a Bolt connection: how rows get from the engine to the client at the client's pace.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "services/graph/bolt/connection.h"
#include "services/graph/bolt/messages.h"
#include "services/graph/bolt/values.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::bolt {
namespace {

using cypher::Concat;
using cypher::GraphView;
using cypher::Slot;

// Rows that are kept until the transaction of a query that writes is committed, so that it can be
// run again.
constexpr size_t kHeldBytes = size_t{1} << 20;

}  // namespace

// Takes a running query's rows.
class ResultStream : public cypher::RowSink {
 public:
  ResultStream(BoltConnection* connection, BoltConnection::Result* result, bool own, bool ahead)
      : connection_(connection),
        result_(result),
        own_(own),
        ahead_(ahead),
        writes_(result->statement->writes()),
        held_(own && writes_) {}

  bool OnRows(const GraphView& view, const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      // All rows of a query that writes are to be made.
      if (DropsAll()) return writes_;
      std::string record;
      if (!Encode(view, rows + i * stride, columns, &record)) return GiveUp();
      BoltConnection::Demand& demand = result_->demand;
      if (!held_ && result_->rows.list.empty() && demand.ticket != 0 && demand.rows > 0) {
        given_ = true;
        if (!demand.discard) connection_->Append(demand.ticket, record);
        --demand.rows;
        continue;
      }
      result_->rows.Push(std::move(record));
      if (!Serve()) return false;
    }
    if (connection_->part_bytes_ >= kTogether) connection_->Flush();
    return !connection_->inbox_.interrupted() || GiveUp();
  }

  bool Restart() override {
    if (given_) return false;
    result_->rows.Clear();
    return true;
  }

  // What ended the query, where it was this.
  absl::Status status() const override { return status_; }

 private:
  // Whatever comes: "all" is counted down as other numbers are.
  bool DropsAll() const { return result_->demand.discard && result_->demand.rows > INT64_MAX / 2; }

  bool Encode(const GraphView& view, const Value* row, std::span<const Slot> columns,
              std::string* record) {
    message_.clear();
    const uint64_t most = connection_->shared_->service->options().query_memory_bytes;
    PackWriter out(&message_, most == 0 ? SIZE_MAX : most);
    out.StructHeader(kRecord, 1);
    out.ListHeader(columns.size());
    for (const Slot column : columns) {
      status_ = PackValue(row[column], &view, &out);
      if (!status_.ok()) return false;
    }
    AppendChunks(message_, record);
    return true;
  }

  // Ends the query, whose client gets status_ or is told by its next message. Rows that are no
  // longer wanted are no error for the engine: what was written would be committed.
  bool GiveUp() {
    if (own_ && writes_) {
      connection_->shared_->service->running()->Terminate(result_->entry->id(), cypher::Caller());
    }
    return false;
  }

  void Give() {
    given_ = true;
    connection_->GiveRows(result_);
    if (connection_->part_bytes_ >= kTogether) connection_->Flush();
  }

  // There may be a row that nobody has asked for: looks whether the client says something, and
  // waits for it where enough was read ahead. False: the query is to end.
  bool Serve() {
    if (result_->rows.list.empty()) return true;
    const BoltLimits& limits = connection_->shared_->limits;
    if (held_) {
      if (result_->rows.bytes <= kHeldBytes) return true;
      held_ = false;
      if (result_->demand.ticket != 0) Give();
    }
    while (!result_->rows.list.empty()) {
      if (result_->demand.ticket != 0 && result_->demand.rows == 0) TellMore();
      if (ahead_) return connection_->kept_bytes_ <= limits.buffered_bytes || TooMuch();
      if (connection_->inbox_.interrupted()) return GiveUp();
      const Incoming* next = connection_->inbox_.Peek();
      if (next == nullptr) {
        if (result_->rows.bytes <= limits.read_ahead_bytes) return true;
        connection_->Flush();
        const WorkerPool::Waiting waiting(connection_->shared_->pool);
        if (!connection_->inbox_.Wait(limits.stalled)) return Stalled();
        continue;
      }
      if (!Take(*next)) return false;
    }
    return true;
  }

  // The first message that waits. False: the query is to end.
  bool Take(const Incoming& next) {
    const auto message = ReadMessage(next.bytes);
    const bool asks = next.ticket != 0 && message.ok() &&
                      (message->tag == kPull || message->tag == kDiscard) &&
                      message->fields.size() == 1 && result_->demand.ticket == 0;
    int64_t id = 0;
    BoltConnection::Demand demand;
    if (asks && connection_->ReadDemand(*message, next.ticket, &demand, &id) && id == result_->id) {
      Incoming taken;
      connection_->inbox_.Pop(&taken);
      result_->demand = demand;
      Give();
      return true;
    }
    if (next.ticket == 0) {
      // Of this transaction, or of one that has gone. The first is left for those who roll back.
      if (connection_->running_ != nullptr && connection_->running_->is_terminated()) return false;
      Incoming late;
      connection_->inbox_.Pop(&late);
      return true;
    }
    if (own_ || !message.ok() || message->tag == kRollback) return GiveUp();
    if (message->tag == kCommit) {
      // Nobody can ask for the rest any more.
      result_->demand = {0, INT64_MAX, true};
      result_->rows.Clear();
      return true;
    }
    // Another result of the transaction is asked for, or its end: this one is made to the end now.
    ahead_ = true;
    return true;
  }

  void TellMore() {
    std::string metadata;
    PackWriter out(&metadata);
    out.MapHeader(1);
    out.String("has_more");
    out.Bool(true);
    connection_->Succeed(std::exchange(result_->demand, {}).ticket, metadata);
    connection_->Flush();
  }

  bool Stalled() {
    if (connection_->inbox_.closed()) return GiveUp();
    status_ = cypher::LimitError(absl::StatusCode::kDeadlineExceeded,
                                 "the rest of the result was not asked for in time");
    return GiveUp();
  }
  bool TooMuch() {
    status_ = cypher::LimitError(
        absl::StatusCode::kResourceExhausted,
        "too much of its results was not taken when the next query of a transaction came");
    return false;
  }

  BoltConnection* const connection_;
  BoltConnection::Result* const result_;
  const bool own_;
  bool ahead_;  // to the end, whatever the client asks for
  const bool writes_;
  bool held_;           // until it is committed
  bool given_ = false;  // some rows have gone to the client
  std::string message_;
  absl::Status status_;
};

// False: the message is no such demand.
bool BoltConnection::ReadDemand(const Message& message, net::Ticket ticket, Demand* demand,
                                int64_t* result) {
  const Value& extra = message.fields[0];
  if (!extra.is_map()) return false;
  const Value *n = extra.Find("n"), *qid = extra.Find("qid");
  if (n != nullptr && (!n->is_int() || n->as_int() == 0 || n->as_int() < -1)) return false;
  if (qid != nullptr && !qid->is_int()) return false;
  *demand = {ticket, n == nullptr || n->as_int() < 0 ? INT64_MAX : n->as_int(),
             message.tag == kDiscard};
  *result = qid == nullptr || qid->as_int() < 0 ? last_result_ : qid->as_int();
  return true;
}

void BoltConnection::Pull(const Message& message, net::Ticket ticket, bool) {
  if (!terminated_.ok()) return Fail(ticket, terminated_, Doing::kQuery);
  Demand demand;
  int64_t id = 0;
  if (!ReadDemand(message, ticket, &demand, &id)) {
    return Violation(ticket, "PULL and DISCARD want n, which is -1 or positive, and a qid");
  }
  const auto it = results_.find(id);
  if (it == results_.end()) return Violation(ticket, Concat("there is no result ", id));
  Result* const result = it->second.get();
  result->demand = demand;
  if (!result->ran) {
    // Those before it come first: they may write.
    for (const auto& [other_id, other] : results_) {
      if (other_id == id) break;
      if (!other->ran) Execute(other.get(), true);
      if (!other->status.ok()) return Fail(ticket, other->status, Doing::kQuery);
    }
    Execute(result, false);
  }
  Finish(result);
}

// Runs all results of the transaction that did not begin. False: the last of them failed.
bool BoltConnection::Settle() {
  for (const auto& [id, result] : results_) {
    if (!result->ran) Execute(result.get(), true);
    if (!result->status.ok()) {
      // The last one is what the caller looks at.
      results_.erase(results_.upper_bound(id), results_.end());
      return false;
    }
  }
  return true;
}

// `ahead`: nobody has asked for it yet.
void BoltConnection::Execute(Result* result, bool ahead) {
  const bool own = transaction_ == nullptr;
  result->ran = true;
  ResultStream stream(this, result, own, ahead);
  if (own) {
    result->options.parameters = &result->parameters;
    result->status = shared_->service->Run(*result->statement, caller_, result->options, &stream,
                                           &result->outcome);
    Watch(nullptr);
    result->options.entry = nullptr;
    result->entry.reset();
  } else {
    result->status =
        transaction_->Run(*result->statement, &result->parameters, &stream, &result->outcome);
  }
  result->parameters = {};  // the rest of its rows needs none
}

void BoltConnection::KeptRows::Push(std::string row) {
  bytes += row.size();
  *sum += row.size() + sizeof(row);
  list.push_back(std::move(row));
}
void BoltConnection::KeptRows::Pop() {
  bytes -= list.front().size();
  *sum -= list.front().size() + sizeof(std::string);
  list.pop_front();
}
void BoltConnection::KeptRows::Clear() {
  *sum -= std::exchange(bytes, 0) + list.size() * sizeof(std::string);
  list.clear();
}

// As far as they are asked for.
void BoltConnection::GiveRows(Result* result) {
  Demand& demand = result->demand;
  while (!result->rows.list.empty() && demand.rows > 0) {
    if (!demand.discard) Append(demand.ticket, result->rows.list.front());
    result->rows.Pop();
    --demand.rows;
  }
}

// The query has ended; what is left of its rows may still wait for the client.
void BoltConnection::Finish(Result* result) {
  const bool own = transaction_ == nullptr;
  const net::Ticket ticket = result->demand.ticket;
  if (state_ == State::kClosed || inbox_.closed()) return;
  // Asked for nothing: the next message will be told.
  if (ticket == 0) return;
  // Whatever came of it: it may have been cut short.
  if (inbox_.interrupted()) return Ignore(ticket);
  if (!result->status.ok()) {
    const absl::Status status = result->status;
    return Fail(ticket, status, result->statement->schema ? Doing::kSchema : Doing::kQuery);
  }
  while (!result->rows.list.empty() && result->demand.rows > 0 && !inbox_.interrupted()) {
    GiveSome(result);
  }
  std::string metadata;
  if (!result->rows.list.empty()) {
    PackWriter out(&metadata);
    out.MapHeader(1);
    out.String("has_more");
    out.Bool(true);
    result->demand = {};
  } else {
    metadata = Summary(*result);
    results_.erase(result->id);
    if (own) state_ = State::kReady;
  }
  Succeed(ticket, metadata);
}

void BoltConnection::GiveSome(Result* result) {
  // A part at a time, as the client takes them.
  constexpr int64_t kRows = 256;
  const int64_t rows = result->demand.rows;
  const int64_t some = std::min(rows, kRows);
  const auto before = static_cast<int64_t>(result->rows.list.size());
  result->demand.rows = some;
  GiveRows(result);
  result->demand.rows = rows - (before - static_cast<int64_t>(result->rows.list.size()));
  if (part_bytes_ >= kTogether) Flush();
}

// `otherwise`: where `extra`, of HELLO, BEGIN or RUN, does not say.
BoltConnection::NoticeFilter BoltConnection::ReadNotices(const Value& extra,
                                                         NoticeFilter otherwise) {
  NoticeFilter filter = otherwise;
  if (!extra.is_map()) return filter;
  if (const Value* severity = extra.Find("notifications_minimum_severity");
      severity != nullptr && severity->is_string()) {
    filter.informations = severity->as_string() != "OFF" && severity->as_string() != "WARNING";
  }
  // From 5.5 on categories are called classifications.
  for (const std::string_view name :
       {"notifications_disabled_categories", "notifications_disabled_classifications"}) {
    const Value* disabled = extra.Find(name);
    if (disabled == nullptr || !disabled->is_list()) continue;
    const auto& list = disabled->as_list();
    filter.schema = std::none_of(list.begin(), list.end(), [](const Value& category) {
      return category.is_string() && category.as_string() == "SCHEMA";
    });
  }
  return filter;
}

// What drivers call notifications, and from 5.5 on GQL's statuses.
void BoltConnection::AddNotices(const Result& result, ValueMap* map) const {
  const auto text = [](std::string_view t) { return Value::String(t); };
  const std::string& notice = result.outcome.notice;
  const bool tell = result.notices.informations && result.notices.schema && !notice.empty();
  constexpr std::string_view kCode = "Neo.ClientNotification.Schema.IndexOrConstraintAlreadyExists";
  if (!version_.AtLeast(5)) {
    if (!tell) return;
    map->emplace_back("notifications",
                      Value::List({Value::Map({{"code", text(kCode)},
                                               {"title", text("Nothing was changed.")},
                                               {"description", text(notice)},
                                               {"severity", text("INFORMATION")},
                                               {"category", text("SCHEMA")}})}));
    return;
  }
  ValueList statuses;
  const bool columns = !result.statement->columns().empty();
  const bool rows = result.outcome.rows > 0;
  statuses.push_back(Value::Map(
      {{"gql_status", text(!columns ? "00001"
                           : rows   ? "00000"
                                    : "02000")},
       {"status_description", text(!columns ? "note: successful completion - omitted result"
                                   : rows   ? "note: successful completion"
                                            : "note: no data")}}));
  if (tell) {
    statuses.push_back(
        Value::Map({{"gql_status", text("00NA0")},
                    {"status_description",
                     text("note: successful completion - index or constraint already exists")},
                    {"neo4j_code", text(kCode)},
                    {"title", text("Nothing was changed.")},
                    {"description", text(notice)},
                    {"diagnostic_record", Value::Map({{"OPERATION", text("")},
                                                      {"OPERATION_CODE", text("0")},
                                                      {"CURRENT_SCHEMA", text("/")},
                                                      {"_severity", text("INFORMATION")},
                                                      {"_classification", text("SCHEMA")}})}}));
  }
  map->emplace_back("statuses", Value::List(std::move(statuses)));
}

std::string BoltConnection::Summary(const Result& result) {
  const cypher::Outcome& outcome = result.outcome;
  const cypher::Counters& c = outcome.counters;
  const std::pair<std::string_view, uint64_t> stats[] = {
      {"nodes-created", c.nodes_created},
      {"nodes-deleted", c.nodes_deleted},
      {"relationships-created", c.edges_created},
      {"relationships-deleted", c.edges_deleted},
      {"properties-set", c.properties_set},
      {"labels-added", c.labels_added},
      {"labels-removed", c.labels_removed},
      {"indexes-added", outcome.indexes_added},
      {"indexes-removed", outcome.indexes_removed},
      {"constraints-added", outcome.constraints_added},
      {"constraints-removed", outcome.constraints_removed},
  };
  ValueMap counted;
  for (const auto& [name, count] : stats) {
    if (count > 0) counted.emplace_back(name, Value::Int(static_cast<int64_t>(count)));
  }
  if (!counted.empty()) counted.emplace_back("contains-updates", Value::Bool(true));
  ValueMap map = {{"type", Value::String(result.statement->type())},
                  {"t_last", Value::Int((NowNanos() - result.began) / 1'000'000)},
                  {"db", Value::String(cypher::kDatabaseName)}};
  if (!counted.empty()) map.emplace_back("stats", Value::Map(std::move(counted)));
  if (transaction_ == nullptr) {
    map.emplace_back("bookmark", Value::String(Bookmark(outcome.sequence)));
  }
  if (!outcome.plan_tree.is_null()) {
    map.emplace_back(result.statement->explain() ? "plan" : "profile", outcome.plan_tree);
  }
  AddNotices(result, &map);
  std::string metadata;
  PackWriter out(&metadata);
  PackValue(Value::Map(std::move(map)), nullptr, &out)
      .IgnoreError();  // it holds nothing of a graph
  return metadata;
}

void BoltConnection::Append(net::Ticket ticket, std::string_view bytes) {
  if (parts_.empty() || parts_.back().last || parts_.back().ticket != ticket) {
    parts_.push_back({ticket, {}, false});
  }
  parts_.back().bytes += bytes;
  part_bytes_ += bytes.size();
}

void BoltConnection::Flush() {
  // What the loop may have that the client has not taken.
  constexpr size_t kMostUnsent = size_t{1} << 20;
  if (parts_.empty()) return;
  inbox_.AddUnsent(part_bytes_);
  sink_->Deliver(std::exchange(parts_, {}));
  part_bytes_ = 0;
  if (!inbox_.HasRoom(kMostUnsent)) {
    const WorkerPool::Waiting waiting(shared_->pool);
    inbox_.WaitForRoom(kMostUnsent);
  }
}

}  // namespace pulse::bolt
