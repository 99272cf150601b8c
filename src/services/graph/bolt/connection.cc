#include "services/graph/bolt/connection.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "services/graph/bolt/messages.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::bolt {
namespace {

using cypher::Concat;

// How many fields each has.
int FieldsOf(uint8_t tag) {
  switch (tag) {
    case kHello:
    case kBegin:
    case kDiscard:
    case kPull:
    case kTelemetry:
    case kLogon:
      return 1;
    case kRun:
    case kRoute:
      return 3;
    case kGoodbye:
    case kReset:
    case kCommit:
    case kRollback:
    case kLogoff:
      return 0;
    default:
      return -1;
  }
}

const Value* Field(const Value& map, std::string_view key) {
  return map.is_map() ? map.Find(key) : nullptr;
}
std::string_view TextOf(const Value& map, std::string_view key) {
  const Value* value = Field(map, key);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

// Who the client is: carried out although a RESET is behind it, or what comes after that would be
// done by the rights of whoever it was before.
bool IsAuthentication(std::string_view message) {
  if (message.size() < 2) return false;
  const auto tag = static_cast<uint8_t>(message[1]);
  return tag == kHello || tag == kLogon || tag == kLogoff;
}

constexpr std::string_view kBookmarkPrefix = "pulse:";
constexpr size_t kMostAddress = 300;  // ROUTE answers with it three times

}  // namespace

BoltConnection::BoltConnection(BoltShared* shared, std::string client,
                               std::unique_ptr<PartSink> sink)
    : shared_(shared),
      id_(shared->connections.fetch_add(1, std::memory_order_relaxed) + 1),
      client_(std::move(client)),
      sink_(std::move(sink)),
      inbox_([shared](const std::string& running) {
        shared->service->running()->Terminate(running, cypher::Caller());
      }),
      unauthenticated_since_(NowNanos()) {}

BoltConnection::~BoltConnection() = default;

void BoltConnection::Arrive(net::Ticket ticket, std::string bytes) {
  shared_->messages.fetch_add(1, std::memory_order_relaxed);
  if (inbox_.Push({ticket, std::move(bytes)})) {
    shared_->pool->Post([self = shared_from_this()] { self->Work(); });
  }
}

void BoltConnection::Close() {
  // What it holds is given back where waiting is allowed.
  if (inbox_.Close()) shared_->pool->Post([self = shared_from_this()] { self->Work(); });
}

void BoltConnection::Work() {
  Incoming incoming;
  while (true) {
    const Inbox::Next next = inbox_.PopOrStop(&incoming);
    if (next == Inbox::Next::kClosed) DropTransaction();
    if (next != Inbox::Next::kMessage) return;
    Handle(incoming);
    // Nobody may work on it any more once there is none.
    if (inbox_.Peek() == nullptr) Flush();
  }
}

void BoltConnection::Handle(const Incoming& incoming) {
  if (incoming.ticket == 0) return HandleTermination();
  if (state_ == State::kClosed) return parts_.push_back({incoming.ticket, {}, true});
  const bool reset = Inbox::IsReset(incoming.bytes);
  if (!reset && inbox_.interrupted()) {
    if (!IsAuthentication(incoming.bytes)) return Ignore(incoming.ticket);
    // The result, or the COMMIT, that the RESET has cut short was the end of what it interrupts.
    if (state_ == State::kStreaming || state_ == State::kTransaction) {
      DropTransaction();
      state_ = State::kReady;
    }
  }
  const auto message = ReadMessage(incoming.bytes);
  // Whom nobody knows yet has one chance, which no RESET gives back.
  const bool is_stranger = state_ == State::kHello || state_ == State::kLogon;
  if (!is_stranger && absl::IsUnimplemented(message.status())) {
    if (state_ == State::kFailed) return Ignore(incoming.ticket);
    return Fail(incoming.ticket,
                cypher::RuntimeError("TypeError", "InvalidParameterType",
                                     std::string(message.status().message())),
                Doing::kQuery);
  }
  if (!message.ok()) return Violation(incoming.ticket, std::string(message.status().message()));
  Dispatch(*message, incoming.ticket);
}

void BoltConnection::Dispatch(const Message& message, net::Ticket ticket) {
  if (FieldsOf(message.tag) != static_cast<int>(message.fields.size())) {
    return Violation(ticket, Concat("a message of type ", int{message.tag}, " and ",
                                    message.fields.size(), " fields is not known"));
  }
  if (message.tag == kGoodbye) return End();
  if (message.tag == kReset && state_ != State::kHello && state_ != State::kLogon) {
    return Reset(ticket);
  }
  if (state_ == State::kFailed) return Ignore(ticket);
  const bool idle = state_ == State::kReady;
  const bool in_transaction = state_ == State::kTransaction;
  switch (message.tag) {
    case kHello:
      if (state_ == State::kHello) return Hello(message, ticket);
      break;
    case kLogon:
      if (state_ == State::kLogon) {
        std::string metadata;
        PackWriter(&metadata).MapHeader(0);
        return Logon(message.fields[0], ticket, &metadata);
      }
      break;
    case kLogoff:
      if (idle && version_.AtLeast(1)) return Logoff(ticket);
      break;
    case kTelemetry:
      if (idle && version_.AtLeast(4)) return Succeed(ticket, {});
      break;
    case kRoute:
      if (idle) return Route(message, ticket);
      break;
    case kRun:
      if (idle || in_transaction) return Run(message, ticket);
      break;
    case kBegin:
      if (idle) return Begin(message, ticket);
      break;
    case kPull:
    case kDiscard:
      if (state_ == State::kStreaming || in_transaction) {
        return Pull(message, ticket, message.tag == kDiscard);
      }
      break;
    case kCommit:
      if (in_transaction) return Commit(ticket);
      break;
    case kRollback:
      if (in_transaction) return Rollback(ticket);
      break;
    default:
      break;
  }
  Violation(ticket, Concat("a message of type ", int{message.tag}, " is not allowed now"));
}

void BoltConnection::Hello(const Message& message, net::Ticket ticket) {
  const Value& extra = message.fields[0];
  if (!extra.is_map()) return Violation(ticket, "HELLO wants a map");
  routing_address_ = shared_->address;
  if (const Value* routing = Field(extra, "routing"); routing != nullptr) {
    if (const auto address = TextOf(*routing, "address"); !address.empty()) {
      if (address.size() > kMostAddress) return Violation(ticket, "an address that is too long");
      routing_address_ = address;
    }
  }
  notices_ = ReadNotices(extra, NoticeFilter());
  std::string metadata;
  PackWriter out(&metadata);
  out.MapHeader(3);
  out.String("server");
  out.String(Concat("Neo4j/", cypher::kServerVersion));
  out.String("connection_id");
  out.String(Concat("bolt-", id_));
  out.String("hints");
  out.MapHeader(1);
  out.String("telemetry.enabled");
  out.Bool(false);
  state_ = State::kLogon;
  if (!version_.AtLeast(1)) return Logon(extra, ticket, &metadata);
  Succeed(ticket, metadata);
}

void BoltConnection::Logon(const Value& auth, net::Ticket ticket, std::string* metadata) {
  const std::string_view scheme = TextOf(auth, "scheme");
  const net::User* user = nullptr;
  if (scheme == "basic") {
    std::string_view name = TextOf(auth, "principal");
    // Who the drivers' tools are by default.
    if (name == "neo4j" && shared_->users->Find(name) == nullptr) name = "default";
    const auto checked =
        shared_->throttle->Check(*shared_->users, client_, name, TextOf(auth, "credentials"));
    if (!checked.ok()) {
      Fail(ticket, checked.status(), Doing::kAuthentication);
      return End();
    }
    user = *checked;
  } else if (scheme == "none" || scheme.empty()) {
    user = shared_->users->Anonymous();
  } else {
    Fail(ticket,
         absl::InvalidArgumentError(
             Concat("the authentication scheme `", scheme.substr(0, 40), "` is not supported")),
         Doing::kAuthentication);
    return End();
  }
  if (user == nullptr) {
    Fail(ticket,
         absl::UnauthenticatedError(scheme == "basic"
                                        ? "the name or the password is wrong"
                                        : "a name and a password are needed to use this server"),
         Doing::kAuthentication);
    return End();
  }
  caller_.user = user->name;
  caller_.connection = Concat("bolt-", id_);
  caller_.client = client_;
  caller_.may_read = user->may_read;
  caller_.may_write = user->may_write;
  caller_.may_admin = user->may_admin;
  unauthenticated_since_.store(0, std::memory_order_relaxed);
  known_once_.store(true, std::memory_order_relaxed);
  state_ = State::kReady;
  Succeed(ticket, *metadata);
}

void BoltConnection::Logoff(net::Ticket ticket) {
  unauthenticated_since_.store(NowNanos(), std::memory_order_relaxed);
  caller_ = cypher::kNobody;
  state_ = State::kLogon;
  Succeed(ticket, {});
}

void BoltConnection::Reset(net::Ticket ticket) {
  DropTransaction();
  state_ = State::kReady;
  if (inbox_.DoneReset() == 0) return Succeed(ticket, {});
  // Another one is behind it, and what is between the two is not carried out.
  Ignore(ticket);
}

void BoltConnection::DropTransaction() {
  results_.clear();
  transaction_.reset();
  terminated_ = absl::OkStatus();
  Watch(nullptr);
}

void BoltConnection::HandleTermination() {
  const auto because = [](const cypher::RunningEntry& entry) {
    return entry.is_late()
               ? cypher::LimitError(absl::StatusCode::kDeadlineExceeded,
                                    Concat(entry.id(), " has reached its limit of time"))
               : cypher::LimitError(absl::StatusCode::kCancelled,
                                    Concat(entry.id(), " was terminated"));
  };
  // A query of its own that nobody has pulled yet: who pulls is told.
  for (const auto& [id, result] : results_) {
    if (result->entry == nullptr || !result->entry->is_terminated()) continue;
    result->ran = true;
    result->status = because(*result->entry);
    Watch(nullptr);
    result->options.entry = nullptr;
    result->entry.reset();
  }
  if (transaction_ == nullptr || !transaction_->entry()->is_terminated()) return;
  terminated_ = because(*transaction_->entry());
  results_.clear();
  Watch(nullptr);
  transaction_.reset();
}

absl::Status BoltConnection::ReadOptions(const Value& extra, cypher::RunOptions* options) {
  if (!extra.is_map()) return absl::InvalidArgumentError("expected a map of options");
  if (const auto db = TextOf(extra, "db"); !db.empty() && !cypher::IsDatabaseName(db)) {
    return cypher::CompileError("DatabaseNotFound", "DatabaseNotFound",
                                Concat("there is no database `", db.substr(0, 100), "`, only `",
                                       cypher::kDatabaseName, "`"));
  }
  system_ = cypher::IsSystemName(TextOf(extra, "db"));
  if (!TextOf(extra, "imp_user").empty()) {
    return absl::PermissionDeniedError("impersonation is not supported");
  }
  options->read_only = TextOf(extra, "mode") == "r";
  // The drivers have no option for it, but pass on what a program says of a transaction.
  if (const Value* metadata = Field(extra, "tx_metadata");
      metadata != nullptr && metadata->is_map()) {
    const auto isolation = TextOf(*metadata, "isolation");
    options->serializable = isolation == "serializable";
    if (!isolation.empty() && isolation != "snapshot" && !options->serializable) {
      return cypher::CompileError("ArgumentError", "IsolationLevel",
                                  Concat("there is no isolation \"", isolation.substr(0, 100),
                                         "\"; there are \"snapshot\" and \"serializable\""));
    }
  }
  if (const Value* timeout = Field(extra, "tx_timeout");
      timeout != nullptr && !timeout->is_null()) {
    // In milliseconds; 0 is none of its own. One that makes no sense must not be one without end.
    constexpr int64_t kMillis = 1'000'000;
    if (!timeout->is_int() || timeout->as_int() < 0) {
      return cypher::CompileError(
          "ArgumentError", "TransactionTimeout",
          Concat("tx_timeout is a whole number of milliseconds, 0 for the server's limit, and not ",
                 timeout->is_int() ? std::to_string(timeout->as_int())
                                   : Concat("of type ", cypher::TypeName(timeout->type()))));
    }
    options->timeout_nanos = std::min(timeout->as_int(), INT64_MAX / kMillis / 4) * kMillis;
  }
  return CheckBookmarks(extra);
}

absl::Status BoltConnection::CheckBookmarks(const Value& extra) const {
  const Value* bookmarks = Field(extra, "bookmarks");
  if (bookmarks == nullptr || !bookmarks->is_list()) return absl::OkStatus();
  cypher::Database* const database = shared_->service->database();
  uint64_t now = database->sequence();
  for (const Value& bookmark : bookmarks->as_list()) {
    uint64_t sequence = 0;
    bool valid = bookmark.is_string() && bookmark.as_string().starts_with(kBookmarkPrefix);
    if (valid) {
      const std::string digits = bookmark.as_string().substr(kBookmarkPrefix.size());
      valid = !digits.empty() && digits.size() <= 19 &&
              digits.find_first_not_of("0123456789") == std::string::npos;
      if (valid) sequence = std::stoull(digits);
    }
    if (!valid) {
      return cypher::CompileError("InvalidBookmark", "InvalidBookmark",
                                  "a bookmark that is none of this database");
    }
    // One that follows another process's writer learns of its commits by a snapshot.
    if (sequence > now && database->Snapshot().ok()) now = database->sequence();
    // What was committed is seen by whoever begins later: only another database is ahead.
    if (sequence > now) {
      return cypher::CompileError("InvalidBookmark", "InvalidBookmark",
                                  "a bookmark of a state that this database has not reached");
    }
  }
  return absl::OkStatus();
}

std::string BoltConnection::Bookmark(uint64_t sequence) const {
  return Concat(kBookmarkPrefix, sequence);
}

void BoltConnection::Run(const Message& message, net::Ticket ticket) {
  const Value &text = message.fields[0], &parameters = message.fields[1];
  if (!text.is_string() || !parameters.is_map()) return Violation(ticket, "RUN wants text and map");
  if (!terminated_.ok()) return Fail(ticket, terminated_, Doing::kQuery);
  auto result = std::make_unique<Result>(&kept_bytes_);
  result->began = NowNanos();
  const bool own = state_ == State::kReady;
  if (own) {
    if (auto st = ReadOptions(message.fields[2], &result->options); !st.ok()) {
      return Fail(ticket, st, Doing::kQuery);
    }
  }
  if (system_) {
    if (auto st = cypher::CheckForSystem(text.as_string()); !st.ok()) {
      return Fail(ticket, st, Doing::kQuery);
    }
  }
  result->notices = own ? ReadNotices(message.fields[2], notices_) : transaction_notices_;
  result->options.began_nanos = result->began;
  if (own) {
    result->entry = shared_->service->Enter(caller_, result->options);
    result->options.entry = result->entry.get();
    Watch(result->entry.get());
  }
  auto statement = own ? shared_->service->Prepare(text.as_string(), caller_, result->options)
                       : transaction_->Prepare(text.as_string());
  if (!statement.ok()) return Fail(ticket, statement.status(), Doing::kQuery);
  result->statement = *std::move(statement);
  result->parameters = parameters.as_map();
  if (results_.size() >= shared_->limits.results) {
    return Fail(ticket,
                cypher::LimitError(absl::StatusCode::kResourceExhausted,
                                   "too many results of a transaction were not taken to their end"),
                Doing::kQuery);
  }
  // In the order that they came in.
  if (!own && !Settle()) return Fail(ticket, results_.rbegin()->second->status, Doing::kQuery);
  result->id = ++last_result_;
  std::string metadata;
  PackWriter out(&metadata);
  const bool db = version_.AtLeast(8);
  out.MapHeader(size_t{2} + (own ? 0 : 1) + (db ? 1 : 0));
  out.String("fields");
  out.ListHeader(result->statement->columns().size());
  for (const std::string& column : result->statement->columns()) out.String(column);
  out.String("t_first");
  out.Int((NowNanos() - result->began) / 1'000'000);
  if (!own) {
    out.String("qid");
    out.Int(result->id);
  }
  if (db) {
    out.String("db");
    out.String(cypher::kDatabaseName);
  }
  results_[result->id] = std::move(result);
  if (own) state_ = State::kStreaming;
  Succeed(ticket, metadata);
}

void BoltConnection::Begin(const Message& message, net::Ticket ticket) {
  cypher::RunOptions options;
  if (auto st = ReadOptions(message.fields[0], &options); !st.ok()) {
    return Fail(ticket, st, Doing::kQuery);
  }
  options.on_begin = [this](cypher::RunningEntry* entry) { Watch(entry); };
  auto transaction = shared_->service->Begin(caller_, options);
  if (!transaction.ok()) return Fail(ticket, transaction.status(), Doing::kQuery);
  transaction_ = *std::move(transaction);
  transaction_notices_ = ReadNotices(message.fields[0], notices_);
  last_result_ = -1;
  state_ = State::kTransaction;
  std::string metadata;
  PackWriter out(&metadata);
  out.MapHeader(version_.AtLeast(8) ? 1 : 0);
  if (version_.AtLeast(8)) {
    out.String("db");
    out.String(cypher::kDatabaseName);
  }
  Succeed(ticket, metadata);
}

// A RESET ends it; and who ends it from elsewhere wakes this thread, or has the transaction of a
// client that is silent rolled back.
void BoltConnection::Watch(cypher::RunningEntry* entry) {
  running_ = entry;
  if (entry == nullptr) return inbox_.SetRunning({});
  shared_->service->running()->OnTerminate(entry, [weak = weak_from_this(), pool = shared_->pool] {
    const auto self = weak.lock();
    if (self == nullptr || !self->inbox_.Push({})) return;
    pool->Post([self] { self->Work(); });
  });
  inbox_.SetRunning(entry->id());
}

void BoltConnection::Commit(net::Ticket ticket) {
  if (!terminated_.ok()) return Fail(ticket, terminated_, Doing::kCommit);
  if (!Settle()) return Fail(ticket, results_.rbegin()->second->status, Doing::kQuery);
  // A statement that was given up for this has written a part.
  if (inbox_.interrupted()) return Ignore(ticket);
  uint64_t sequence = 0;
  const absl::Status status = transaction_->Commit(&sequence);
  DropTransaction();
  if (!status.ok()) return Fail(ticket, status, Doing::kCommit);
  state_ = State::kReady;
  std::string metadata;
  PackWriter out(&metadata);
  out.MapHeader(1);
  out.String("bookmark");
  out.String(Bookmark(sequence));
  Succeed(ticket, metadata);
}

void BoltConnection::Rollback(net::Ticket ticket) {
  DropTransaction();
  state_ = State::kReady;
  Succeed(ticket, {});
}

void BoltConnection::Route(const Message& message, net::Ticket ticket) {
  std::string address(TextOf(message.fields[0], "address"));
  if (address.empty()) address = routing_address_;
  if (address.size() > kMostAddress) return Violation(ticket, "an address that is too long");
  cypher::RunOptions ignored;
  const Value& extra = message.fields[2];
  if (auto st = extra.is_map() ? ReadOptions(extra, &ignored) : absl::OkStatus(); !st.ok()) {
    return Fail(ticket, st, Doing::kQuery);
  }
  std::string metadata;
  PackWriter out(&metadata);
  out.MapHeader(1);
  out.String("rt");
  out.MapHeader(3);
  out.String("ttl");
  out.Int(300);
  out.String("db");
  out.String(cypher::kDatabaseName);
  out.String("servers");
  out.ListHeader(3);
  for (const std::string_view role : {"WRITE", "READ", "ROUTE"}) {
    out.MapHeader(2);
    out.String("addresses");
    out.ListHeader(1);
    out.String(address);
    out.String("role");
    out.String(role);
  }
  Succeed(ticket, metadata);
}

void BoltConnection::Succeed(net::Ticket ticket, std::string_view metadata) {
  std::string message;
  PackWriter out(&message);
  out.StructHeader(kSuccess, 1);
  if (metadata.empty()) {
    out.MapHeader(0);
  } else {
    message += metadata;
  }
  Answer(ticket, message, true);
}

std::string FailureMessage(const Failure& failure, Version version) {
  std::string message;
  PackWriter out(&message);
  out.StructHeader(kFailure, 1);
  const bool gql = version.AtLeast(7);
  out.MapHeader(gql ? 4 : 2);
  out.String(gql ? "neo4j_code" : "code");
  out.String(failure.code);
  out.String("message");
  out.String(failure.message);
  if (gql) {
    out.String("gql_status");
    out.String(failure.gql_status);
    out.String("description");
    out.String(failure.gql_description);
  }
  return message;
}

void BoltConnection::Fail(net::Ticket ticket, const absl::Status& status, Doing doing) {
  shared_->failures.fetch_add(1, std::memory_order_relaxed);
  const std::string message = FailureMessage(FailureOf(status, doing), version_);
  // Nothing of it is kept; what comes is ignored until a RESET.
  DropTransaction();
  state_ = State::kFailed;
  Answer(ticket, message, true);
}

void BoltConnection::Ignore(net::Ticket ticket) {
  std::string message;
  PackWriter(&message).StructHeader(kIgnored, 0);
  Answer(ticket, message, true);
}

void BoltConnection::Violation(net::Ticket ticket, std::string_view what) {
  Fail(ticket, absl::InvalidArgumentError(cypher::Absl(what)), Doing::kProtocol);
  End();
}

void BoltConnection::End() {
  state_ = State::kClosed;
  DropTransaction();
  Flush();
  sink_->CloseConnection();
}

void BoltConnection::Answer(net::Ticket ticket, std::string_view message, bool last) {
  std::string bytes;
  AppendChunks(message, &bytes);
  Append(ticket, bytes);
  parts_.back().last = last;
  // Of many small requests at a time.
  if (part_bytes_ >= kTogether) Flush();
}

}  // namespace pulse::bolt
