// pulse/graph.h by EmbeddedGraph: opening, statements, transactions, results.
#include "services/graph/library/c_api.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/c_struct.h"
#include "base/errors.h"
#include "pulse/graph.h"
#include "services/graph/library/arrow.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

using pulse::cypher::Concat;
using pulse::cypher::Doing;
using pulse::graph::About;
using pulse::graph::EmbeddedGraph;
using pulse::graph::Guard;
using pulse::graph::Missing;
using pulse::graph::ResultTable;
using pulse::graph::Say;

namespace pulse::graph {
namespace {

struct KindCode {
  std::string_view kind;
  int code;
};
constexpr KindCode kKinds[] = {{"SyntaxError", PULSE_GRAPH_QUERY},
                               {"SemanticError", PULSE_GRAPH_QUERY},
                               {"ParameterMissing", PULSE_GRAPH_QUERY},
                               {"TypeError", PULSE_GRAPH_QUERY},
                               {"ArgumentError", PULSE_GRAPH_QUERY},
                               {"ArithmeticError", PULSE_GRAPH_QUERY},
                               {"ProcedureError", PULSE_GRAPH_QUERY},
                               {"Unsupported", PULSE_GRAPH_QUERY},
                               {"EntityNotFound", PULSE_GRAPH_NOT_FOUND},
                               {"ConstraintVerificationFailed", PULSE_GRAPH_CONSTRAINT},
                               {"ConstraintValidationFailed", PULSE_GRAPH_CONSTRAINT},
                               {"ReadOnlyDatabase", PULSE_GRAPH_READ_ONLY},
                               {"Closed", PULSE_GRAPH_CLOSED},
                               {"Within", PULSE_GRAPH_INVALID},
                               {"TransactionFailed", PULSE_GRAPH_ROLLED_BACK}};

int CodeOf(const absl::Status& status, About about, std::string_view neo4j) {
  if (status.ok()) return PULSE_GRAPH_OK;
  const bool store = about == About::kStore;
  const std::string kind = pulse::cypher::InfoOf(status).kind;
  for (const KindCode& row : kKinds) {
    if (kind == row.kind) return row.code;
  }
  if (!store && neo4j.ends_with(".AccessMode")) return PULSE_GRAPH_READ_ONLY;
  if (!store && neo4j.ends_with(".ConstraintValidationFailed")) return PULSE_GRAPH_CONSTRAINT;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return PULSE_GRAPH_INVALID;
    case absl::StatusCode::kNotFound:
      return PULSE_GRAPH_NOT_FOUND;
    case absl::StatusCode::kAlreadyExists:
      return PULSE_GRAPH_CONSTRAINT;
    case absl::StatusCode::kPermissionDenied:
      return store ? PULSE_GRAPH_FAILED : PULSE_GRAPH_READ_ONLY;
    case absl::StatusCode::kResourceExhausted:
      return PULSE_GRAPH_LIMIT;
    case absl::StatusCode::kDeadlineExceeded:
      return PULSE_GRAPH_TIMEOUT;
    case absl::StatusCode::kCancelled:
      return PULSE_GRAPH_CANCELLED;
    case absl::StatusCode::kAborted:
      return PULSE_GRAPH_CONFLICT;
    case absl::StatusCode::kDataLoss:
      return PULSE_GRAPH_DAMAGED;
    case absl::StatusCode::kFailedPrecondition:
      return store ? PULSE_GRAPH_LOCKED : PULSE_GRAPH_FAILED;
    default:
      return PULSE_GRAPH_FAILED;
  }
}

// "... (line 2, column 5)", as AtPosition() writes it.
void FindPlace(const std::string& message, pulse_graph_error* error) {
  const size_t at = message.find(" (line ");
  if (at == std::string::npos) return;
  int line = 0, column = 0;
  if (std::sscanf(message.c_str() + at, " (line %d, column %d)", &line, &column) != 2) return;
  error->line = line;
  error->column = column;
}

void CopyText(std::string_view text, size_t size, char* to) {
  size_t length = std::min(text.size(), size - 1);
  // No half of a character.
  while (length < text.size() && length > 0 && (text[length] & 0xC0) == 0x80) --length;
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace

int Say(const absl::Status& status, About about, pulse_graph_error* error) {
  if (status.ok()) return PULSE_GRAPH_OK;
  const Doing doing = about == About::kSchema   ? Doing::kSchema
                      : about == About::kCommit ? Doing::kCommit
                      : about == About::kStore  ? Doing::kStore
                                                : Doing::kQuery;
  const pulse::cypher::Failure failure = pulse::cypher::FailureOf(status, doing);
  pulse_graph_error said;
  pulse_graph_error_init(&said);
  said.code = CodeOf(status, about, failure.code);
  CopyText(failure.code, sizeof said.neo4j, said.neo4j);
  CopyText(failure.message, sizeof said.message, said.message);
  if (said.code == PULSE_GRAPH_QUERY) FindPlace(failure.message, &said);
  if (error != nullptr && error->struct_size >= kLeastError) pulse::StoreStruct(said, error);
  return said.code;
}

}  // namespace pulse::graph

namespace {

absl::StatusOr<int64_t> NanosOf(double seconds) {
  if (seconds == 0) return 0;
  if (!(seconds > 0) || seconds > 9e9) {
    return absl::InvalidArgumentError("timeout is a number of seconds, 0 for none");
  }
  return std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e9));
}

absl::StatusOr<pulse_graph_run> RunOf(const pulse_graph_run* given) {
  pulse_graph_run run;
  pulse_graph_run_init(&run);
  if (given != nullptr)
    PULSE_RETURN_IF_ERROR(pulse::CopyStruct(given, pulse::graph::kLeastRun, &run));
  return run;
}

absl::StatusOr<std::string> MakeTemporary() {
  const char* place = std::getenv("TMPDIR");
  std::string path = Concat(place == nullptr || *place == '\0' ? "/tmp" : place, "/pulsedb-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return pulse::ErrnoError(errno, "making a temporary directory", path);
  }
  return path;
}

// Nobody is left to tell: it is temporary.
void RemoveTemporary(const std::string& path) {
  std::error_code ignored;
  if (!path.empty()) std::filesystem::remove_all(path, ignored);
}

absl::Status Open(const char* path, const pulse_graph_options* given, pulse_graph** out) {
  pulse_graph_options options;
  pulse_graph_options_init(&options);
  if (given != nullptr) {
    PULSE_RETURN_IF_ERROR(pulse::CopyStruct(given, pulse::graph::kLeastOptions, &options));
  }
  pulse::graph::EmbeddedOptions embedded;
  embedded.store.read_only = options.read_only != 0;
  embedded.store.create = options.must_exist == 0;
  embedded.store.sync = options.no_sync == 0;
  embedded.store.retain_commits = options.retain;
  embedded.store.page_reads = options.page_reads != 0;
  embedded.store.allow_damage = options.damaged != 0;
  if (options.memory != 0) embedded.store.memory_limit = options.memory;
  if (options.query_memory != 0) embedded.service.query_memory_bytes = options.query_memory;
  embedded.store.node_memory = options.node_memory;
  if (options.engine != nullptr) embedded.engine = options.engine;
  if (options.agent != nullptr) embedded.agent = options.agent;
  if (options.engine_cpus != nullptr) embedded.engine_cpus = options.engine_cpus;
  if (options.spill != nullptr) embedded.service.spill.directory = options.spill;
  if (options.spill_limit != 0) {
    embedded.service.spill.limit_bytes = options.spill_limit == 1 ? 0 : options.spill_limit;
  }
  if (options.query_threads < 0 || options.query_threads > 256) {
    return absl::InvalidArgumentError(
        Concat("query_threads is 0 to 256, not ", options.query_threads));
  }
  embedded.service.query_threads = options.query_threads;
  PULSE_ASSIGN_OR_RETURN(embedded.service.query_nanos, NanosOf(options.timeout));
  auto made = std::make_unique<pulse_graph>();
  std::string place = path == nullptr ? "" : path;
  if (path == nullptr) {
    if (options.read_only != 0 || options.must_exist != 0) {
      return absl::InvalidArgumentError("a temporary graph is made, and written to");
    }
    PULSE_ASSIGN_OR_RETURN(made->temporary, MakeTemporary());
    place = made->temporary;
    embedded.store.sync = false;
  }
  auto graph = EmbeddedGraph::Open(place, embedded);
  if (!graph.ok()) {
    RemoveTemporary(made->temporary);
    return graph.status();
  }
  made->graph = *std::move(graph);
  *out = made.release();
  return absl::OkStatus();
}

std::string_view QueryOf(const char* query, size_t size) {
  return {query, size == SIZE_MAX ? std::strlen(query) : size};
}

// Runs a statement on a graph or in a transaction.
template <typename Target>
int Execute(Target* target, const char* query, size_t size, const pulse_graph_run* given,
            pulse_graph_result** result, pulse_graph_error* error) {
  Doing doing = Doing::kQuery;
  absl::Status status;
  // Of the arguments, not of the statement, as long as it did not run.
  const int code = Guard(About::kArguments, error, [&]() -> absl::Status {
    if (result == nullptr) return Missing("result");
    *result = nullptr;
    if (target == nullptr) return Missing("graph or transaction");
    if (query == nullptr) return Missing("query");
    PULSE_ASSIGN_OR_RETURN(const pulse_graph_run run, RunOf(given));
    PULSE_ASSIGN_OR_RETURN(const auto parameters,
                           pulse::graph::ParametersFromC(run.parameters, run.parameter_count));
    pulse::graph::StatementOptions options;
    PULSE_ASSIGN_OR_RETURN(options.timeout_nanos, NanosOf(run.timeout));
    options.read_only = run.read_only != 0;
    options.serializable = run.serializable != 0;
    options.doing = &doing;
    std::function<bool()> interrupted;
    if (run.interrupted != nullptr) {
      interrupted = [&run] { return run.interrupted(run.interrupted_arg) != 0; };
      options.interrupted = &interrupted;
    }
    auto made = std::make_unique<pulse_graph_result>();
    auto table = target->Execute(QueryOf(query, size), &parameters, options);
    if (!table.ok()) {
      status = table.status();
      return absl::OkStatus();
    }
    made->table = std::make_shared<const ResultTable>(*std::move(table));
    *result = made.release();
    return absl::OkStatus();
  });
  if (code != PULSE_GRAPH_OK) return code;
  return Say(status, doing == Doing::kSchema ? About::kSchema : About::kStatement, error);
}

template <typename Number, typename Convert>
absl::Status FillColumn(const ResultTable& table, size_t column, Number* out, uint8_t* valid,
                        const Convert& convert) {
  if (out == nullptr) return Missing("out");
  if (column >= table.width()) {
    return absl::InvalidArgumentError(Concat("there is no column ", column));
  }
  for (size_t row = 0; row < table.rows(); ++row) {
    const pulse::cypher::Value& value = table.At(row, column);
    if (value.is_null() && valid != nullptr) {
      out[row] = 0;
      valid[row] = 0;
      continue;
    }
    if (value.is_null() || !convert(value, &out[row])) {
      return absl::InvalidArgumentError(Concat("column ", table.columns()[column], ", row ", row,
                                               ": ", pulse::cypher::TypeName(value.type())));
    }
    if (valid != nullptr) valid[row] = 1;
  }
  return absl::OkStatus();
}

}  // namespace

extern "C" {

const char* pulse_graph_text(int code) {
  static constexpr const char* kTexts[] = {"ok",
                                           "an argument makes no sense",
                                           "the statement is wrong",
                                           "a constraint is broken, or a name is taken",
                                           "another transaction was first",
                                           "there is no such thing",
                                           "it writes, and is open for reading",
                                           "somebody else has the database open for writing",
                                           "more memory or space than there is",
                                           "the limit of time is reached",
                                           "cancelled",
                                           "the graph is closed, or the transaction is over",
                                           "the transaction can only be rolled back",
                                           "the database is damaged",
                                           "files, or the system, said no"};
  return code >= 0 && code <= PULSE_GRAPH_FAILED ? kTexts[code] : "unknown code";
}

int pulse_graph_open(const char* path, const pulse_graph_options* options, pulse_graph** graph,
                     pulse_graph_error* error) {
  return Guard(About::kStore, error, [&]() -> absl::Status {
    if (graph == nullptr) return Missing("graph");
    *graph = nullptr;
    return Open(path, options, graph);
  });
}

int pulse_graph_close(pulse_graph* graph, pulse_graph_error* error) {
  return Guard(About::kStore, error, [&]() -> absl::Status {
    return graph == nullptr ? Missing("graph") : graph->graph->Close();
  });
}

void pulse_graph_free(pulse_graph* graph) {
  if (graph == nullptr) return;
  // Files of a temporary one are not to be written any more.
  if (!graph->temporary.empty()) graph->graph->Close().IgnoreError();
  RemoveTemporary(graph->temporary);
  delete graph;
}

int pulse_graph_execute(pulse_graph* graph, const char* query, size_t size,
                        const pulse_graph_run* run, pulse_graph_result** result,
                        pulse_graph_error* error) {
  return Execute(graph == nullptr ? nullptr : graph->graph.get(), query, size, run, result, error);
}

int pulse_graph_begin(pulse_graph* graph, const pulse_graph_run* given,
                      pulse_graph_transaction** transaction, pulse_graph_error* error) {
  return Guard(About::kStatement, error, [&]() -> absl::Status {
    if (transaction == nullptr) return Missing("transaction");
    *transaction = nullptr;
    if (graph == nullptr) return Missing("graph");
    PULSE_ASSIGN_OR_RETURN(const pulse_graph_run run, RunOf(given));
    pulse::graph::StatementOptions options;
    PULSE_ASSIGN_OR_RETURN(options.timeout_nanos, NanosOf(run.timeout));
    options.read_only = run.read_only != 0;
    options.serializable = run.serializable != 0;
    auto made = std::make_unique<pulse_graph_transaction>();
    PULSE_ASSIGN_OR_RETURN(made->transaction, graph->graph->Begin(options));
    *transaction = made.release();
    return absl::OkStatus();
  });
}

int pulse_graph_transaction_execute(pulse_graph_transaction* transaction, const char* query,
                                    size_t size, const pulse_graph_run* run,
                                    pulse_graph_result** result, pulse_graph_error* error) {
  return Execute(transaction == nullptr ? nullptr : transaction->transaction.get(), query, size,
                 run, result, error);
}

int pulse_graph_commit(pulse_graph_transaction* transaction, pulse_graph_error* error) {
  return Guard(About::kCommit, error, [&]() -> absl::Status {
    return transaction == nullptr ? Missing("transaction") : transaction->transaction->Commit();
  });
}

int pulse_graph_rollback(pulse_graph_transaction* transaction, pulse_graph_error* error) {
  return Guard(About::kStatement, error, [&]() -> absl::Status {
    return transaction == nullptr ? Missing("transaction") : transaction->transaction->Rollback();
  });
}

void pulse_graph_transaction_free(pulse_graph_transaction* transaction) { delete transaction; }

size_t pulse_graph_columns(const pulse_graph_result* result) {
  return result == nullptr ? 0 : result->table->width();
}

const char* pulse_graph_column_name(const pulse_graph_result* result, size_t column) {
  if (result == nullptr || column >= result->table->width()) return nullptr;
  return result->table->columns()[column].c_str();
}

uint64_t pulse_graph_rows(const pulse_graph_result* result) {
  return result == nullptr ? 0 : result->table->rows();
}

const pulse_graph_value* pulse_graph_row(pulse_graph_result* result, uint64_t row) {
  if (result == nullptr || row >= result->table->rows()) return nullptr;
  try {
    const pulse_graph_value* values = result->row.Show(*result->table, row);
    result->next = row + 1;
    return values;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

const pulse_graph_value* pulse_graph_next(pulse_graph_result* result) {
  return result == nullptr ? nullptr : pulse_graph_row(result, result->next);
}

int pulse_graph_column_integers(const pulse_graph_result* result, size_t column, int64_t* out,
                                uint8_t* valid, pulse_graph_error* error) {
  return Guard(About::kArguments, error, [&]() -> absl::Status {
    if (result == nullptr) return Missing("result");
    return FillColumn(*result->table, column, out, valid,
                      [](const pulse::cypher::Value& value, int64_t* number) {
                        using pulse::cypher::Type;
                        if (value.type() == Type::kBool) {
                          *number = value.as_bool() ? 1 : 0;
                          return true;
                        }
                        if (value.type() != Type::kInt && value.type() != Type::kDate) return false;
                        *number = value.as_int();
                        return true;
                      });
  });
}

int pulse_graph_column_floats(const pulse_graph_result* result, size_t column, double* out,
                              uint8_t* valid, pulse_graph_error* error) {
  return Guard(About::kArguments, error, [&]() -> absl::Status {
    if (result == nullptr) return Missing("result");
    return FillColumn(*result->table, column, out, valid,
                      [](const pulse::cypher::Value& value, double* number) {
                        if (!value.is_number()) return false;
                        *number = value.as_number();
                        return true;
                      });
  });
}

int pulse_graph_arrow(const pulse_graph_result* result, struct ArrowArrayStream* out,
                      pulse_graph_error* error) {
  return Guard(About::kArguments, error, [&]() -> absl::Status {
    if (result == nullptr) return Missing("result");
    if (out == nullptr) return Missing("out");
    return pulse::graph::ExportArrow(result->table, out);
  });
}

int pulse_graph_summarize(const pulse_graph_result* result, pulse_graph_summary* summary) {
  pulse_graph_summary said;
  pulse_graph_summary_init(&said);
  if (result == nullptr || summary == nullptr ||
      summary->struct_size < pulse::graph::kLeastSummary) {
    return PULSE_GRAPH_INVALID;
  }
  const pulse::cypher::Outcome& outcome = result->table->outcome();
  said.nodes_created = outcome.counters.nodes_created;
  said.nodes_deleted = outcome.counters.nodes_deleted;
  said.relationships_created = outcome.counters.edges_created;
  said.relationships_deleted = outcome.counters.edges_deleted;
  said.properties_set = outcome.counters.properties_set;
  said.labels_added = outcome.counters.labels_added;
  said.labels_removed = outcome.counters.labels_removed;
  said.indexes_added = outcome.indexes_added;
  said.indexes_removed = outcome.indexes_removed;
  said.constraints_added = outcome.constraints_added;
  said.constraints_removed = outcome.constraints_removed;
  said.sequence = outcome.sequence;
  said.plan = outcome.plan.c_str();
  said.notice = outcome.notice.c_str();
  pulse::StoreStruct(said, summary);
  return PULSE_GRAPH_OK;
}

void pulse_graph_result_free(pulse_graph_result* result) { delete result; }

}  // extern "C"
