// Limits, names and reads of one execution.
#include "services/graph/functions/context.h"

#include <algorithm>

#include "services/graph/functions/list_set.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr uint64_t kLookEvery = 4096;
// What is taken from the pool at a time; and what an execution may have without.
constexpr int64_t kReserveStep = 256 << 10, kUnreserved = 64 << 10;

}  // namespace

void EvalContext::Start(const std::vector<std::string>* names) {
  names_ = names;
  tokens_.assign(names->size(), Tokens{});
  statement_nanos = wall_nanos();
  if (transaction_nanos == 0) transaction_nanos = statement_nanos;
  deadline_ = limits.nanos > 0 ? monotonic_nanos() + limits.nanos : 0;
  next_look_ = kLookEvery;
  if (spill != nullptr && limits.memory_bytes != 0) {
    spill_from_ = static_cast<int64_t>(limits.memory_bytes / 2);
    spill_least_ = static_cast<int64_t>(limits.memory_bytes / 16);
  }
}

void EvalContext::Fork(int threads, EvalContext* child) {
  if (shared_memory_ == nullptr) {
    own_shared_memory_ = std::make_unique<std::atomic<int64_t>>(memory_);
    shared_memory_ = own_shared_memory_.get();
  }
  if (list_sets == nullptr) list_sets = std::make_shared<ListSets>();
  child->list_sets = std::make_shared<ListSets>(*list_sets);
  child->shared_memory_ = shared_memory_;
  child->pool = pool;
  child->reserved_ = reserved_;
  child->graph = graph;
  child->transaction = transaction;
  child->parameters = parameters;
  child->caller = caller;
  child->open_csv = open_csv;
  child->spill = spill;
  child->spill_from_ = spill_from_;
  child->spill_threads_ = static_cast<size_t>(threads);
  child->spill_least_ = spill_least_ / threads;
  child->limits = limits;
  child->monotonic_nanos = monotonic_nanos;
  child->wall_nanos = wall_nanos;
  child->statement_nanos = statement_nanos;
  child->transaction_nanos = transaction_nanos;
  child->cancelled = cancelled;
  child->random_seed = random_seed;
  child->columns_from = columns_from;
  child->names_ = names_;
  child->tokens_ = tokens_;
  child->deadline_ = deadline_;
  child->next_look_ = kLookEvery;
}

Value EvalContext::TypeError(std::string_view message) {
  return Fail(RuntimeError("TypeError", "InvalidArgumentType", message));
}

Value EvalContext::ArgumentError(std::string_view detail, std::string_view message) {
  return Fail(RuntimeError("ArgumentError", detail, message));
}

bool EvalContext::Look() {
  next_look_ = work_ + kLookEvery;
  if (failed()) return false;
  if ((cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) ||
      (interrupted != nullptr && (*interrupted)())) {
    Fail(LimitError(absl::StatusCode::kCancelled, "the query was cancelled"));
  } else if (deadline_ != 0 && monotonic_nanos() >= deadline_) {
    Fail(LimitError(absl::StatusCode::kDeadlineExceeded,
                    // Some of it went into planning: what is left of 2 s is still called that.
                    Concat("the query took longer than its limit of ",
                           (limits.nanos + 999'999) / 1'000'000, " ms")));
  }
  return !failed();
}

bool EvalContext::Charge(int64_t bytes) {
  const int64_t taken = shared_memory_ == nullptr
                            ? memory_ += bytes
                            : shared_memory_->fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limits.memory_bytes != 0 && taken > static_cast<int64_t>(limits.memory_bytes)) {
    Fail(LimitError(absl::StatusCode::kResourceExhausted,
                    Concat("the query needs more than its limit of ", limits.memory_bytes,
                           " bytes of memory")));
  }
  if (pool != nullptr) bytes > 0 ? Reserve() : GiveBack();
  return !failed();
}

void EvalContext::Reserve() {
  const int64_t have = reserved_->load(std::memory_order_relaxed);
  const int64_t needed = charged() - kUnreserved;
  if (needed <= have) return;
  int64_t more = (needed - have + kReserveStep - 1) / kReserveStep * kReserveStep;
  if (pool->limit() != 0) more = std::min(more, std::max(needed, pool->limit()) - have);
  if (pool->Take(more)) {
    reserved_->fetch_add(more, std::memory_order_relaxed);
    return;
  }
  Fail(LimitError(absl::StatusCode::kResourceExhausted,
                  Concat("all queries together need more than the ", pool->limit(),
                         " bytes of memory that they may have: try again when others have ended; "
                         "--total-query-memory sets the limit"),
                  "PoolExceeded"));
}

void EvalContext::GiveBack() {
  int64_t have = reserved_->load(std::memory_order_relaxed);
  const int64_t spare = have - (charged() - kUnreserved);
  if (spare <= 4 * kReserveStep) return;
  const int64_t less = (spare / kReserveStep - 1) * kReserveStep;
  // What another thread has charged meanwhile it reserves, or has seen to be reserved: this one
  // looks again.
  if (!reserved_->compare_exchange_strong(have, have - less)) return;
  pool->Give(less);
  Reserve();
}

bool EvalContext::ChangesFit() {
  const uint64_t limit = transaction->ChangeLimit();
  if (limit != 0 && transaction->ChangeBytes() > limit) {
    Fail(LimitError(absl::StatusCode::kResourceExhausted,
                    Concat("the transaction's changes need more than its limit of ", limit,
                           " bytes of memory: use LIMIT or several transactions; "
                           "--transaction-memory sets the limit")));
  }
  return !failed();
}

bool EvalContext::Fits(size_t bytes) {
  if (limits.memory_bytes == 0 || bytes <= limits.memory_bytes) return !failed();
  Fail(LimitError(absl::StatusCode::kResourceExhausted,
                  Concat("a single value needs ", bytes, " bytes, the query's limit is ",
                         limits.memory_bytes)));
  return false;
}

Token EvalContext::Label(int name) {
  Token& token = tokens_[static_cast<size_t>(name)].label;
  if (token == kNoToken) token = graph->FindLabel(NameOf(name)).value_or(kNoToken);
  return token;
}
bool EvalContext::ReadLabelNames(const Value& v, std::vector<std::string>* names) {
  const auto read = [&](const Value& name) {
    if (name.is_string() && !name.as_string().empty()) {
      names->push_back(name.as_string());
      return true;
    }
    TypeError(Concat("a label or type is a STRING of some characters, or a LIST of these, found ",
                     name.is_string() ? "an empty one" : TypeName(name.type())));
    return false;
  };
  if (!v.is_list()) return read(v);
  return std::all_of(v.as_list().begin(), v.as_list().end(), read);
}

bool EvalContext::ReadTypeName(const Value& v, std::string* name) {
  std::vector<std::string> names;
  if (!ReadLabelNames(v, &names)) return false;
  if (names.size() != 1) {
    ArgumentError("NoSingleRelationshipType",
                  Concat("a relationship is created with exactly one type, found ", names.size()));
    return false;
  }
  *name = std::move(names[0]);
  return true;
}

Token EvalContext::EdgeType(int name) {
  Token& token = tokens_[static_cast<size_t>(name)].type;
  if (token == kNoToken) token = graph->FindType(NameOf(name)).value_or(kNoToken);
  return token;
}
Token EvalContext::Key(int name) {
  Token& token = tokens_[static_cast<size_t>(name)].key;
  if (token == kNoToken) token = graph->FindKey(NameOf(name)).value_or(kNoToken);
  return token;
}

namespace {

Value First(const Column& column) {
  switch (column.kind) {
    case Column::Kind::kInts:
      return column.valid[0] != 0 ? Value::Int(column.ints[0]) : Value();
    case Column::Kind::kFloats:
      return column.valid[0] != 0 ? Value::Float(column.floats[0]) : Value();
    default:
      return column.values[0];
  }
}

absl::Status Deleted(std::string_view what) {
  return RuntimeError("EntityNotFound", "DeletedEntityAccess",
                      Concat("this ", what, " was deleted by the query"));
}

}  // namespace

Value EvalContext::NodeProperty(NodeId node, Token key) {
  if (!deleted_nodes.empty() && deleted_nodes.contains(node)) return Fail(Deleted("node"));
  if (key == kNoToken) return {};
  if (!Check(graph->ReadNodeProperty(key, {&node, 1}, &column_))) return {};
  return First(column_);
}

Value EvalContext::EdgeProperty(const EdgeRef& edge, Token key) {
  if (!deleted_edges.empty() && deleted_edges.contains(edge.id))
    return Fail(Deleted("relationship"));
  if (key == kNoToken) return {};
  if (!Check(graph->ReadEdgeProperty(key, {&edge, 1}, &column_))) return {};
  return First(column_);
}

Value EvalContext::PropertyMap(const Value& entity) {
  Properties properties;
  if (entity.is_node()) {
    if (deleted_nodes.contains(entity.as_node())) return Fail(Deleted("node"));
    if (!Check(graph->ReadNodeProperties(entity.as_node(), &properties))) return {};
  } else {
    if (deleted_edges.contains(entity.as_edge().id)) return Fail(Deleted("relationship"));
    if (!Check(graph->ReadEdgeProperties(entity.as_edge(), &properties))) return {};
  }
  ValueMap map;
  for (auto& [key, value] : properties) map.emplace_back(graph->KeyName(key), std::move(value));
  return Value::Map(std::move(map));
}

std::vector<Token> EvalContext::Labels(NodeId node) {
  std::vector<Token> labels;
  if (!deleted_nodes.empty() && deleted_nodes.contains(node)) {
    Fail(Deleted("node"));
    return labels;
  }
  Check(graph->ReadLabels(node, &labels));
  return labels;
}

}  // namespace pulse::cypher
