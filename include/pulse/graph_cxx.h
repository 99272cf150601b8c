/* PulseDB's graph database for C++: classes that own what pulse/graph.h has, whose contract holds
 * (threads, blocking, memory, errors). Include that header; it includes this one. No exceptions;
 * everything is compiled into the program, so that the library exports nothing of it.
 *
 *   pulse::graphdb::Error error;
 *   const auto graph = pulse::graphdb::Graph::Open("my-graph", nullptr, &error);
 *   if (!graph) ... error.message() ...
 *   auto people = graph.Execute("MATCH (p:Person {name: $name}) RETURN p.age", {{"name", "Ann"}});
 *   while (people.Next()) ... people.At(0).as_int() ...
 *   if (!people.ok()) ... people.error().message() ...
 */
#ifndef PULSE_GRAPH_CXX_H_
#define PULSE_GRAPH_CXX_H_

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "pulse/graph.h"

namespace pulse::graphdb {

class Error {
 public:
  Error() { pulse_graph_error_init(&raw_); }
  bool ok() const { return raw_.code == PULSE_GRAPH_OK; }
  int code() const { return raw_.code; }
  const char* message() const { return raw_.message; }
  const pulse_graph_error& raw() const { return raw_; }
  /* For a call of the C ABI; cleared first. */
  pulse_graph_error* get() {
    pulse_graph_error_init(&raw_);
    return &raw_;
  }

 private:
  pulse_graph_error raw_;
};

/* A value of a row: a view, which lives as the row does. Each as_...() is for its type only. */
class Value {
 public:
  explicit Value(const pulse_graph_value& raw) : raw_(&raw) {}
  int type() const { return raw_->type; }
  bool is_null() const { return raw_->type == PULSE_GRAPH_NULL; }
  bool as_bool() const { return raw_->as.integer != 0; }
  int64_t as_int() const { return raw_->as.integer; }
  double as_float() const { return raw_->as.real; }
  std::string_view as_string() const { return {raw_->as.text, raw_->size}; }
  std::span<const uint8_t> as_bytes() const { return {raw_->as.bytes, raw_->size}; }
  std::span<const pulse_graph_value> as_list() const { return {raw_->as.items, raw_->size}; }
  std::span<const pulse_graph_entry> as_map() const { return {raw_->as.entries, raw_->size}; }
  const pulse_graph_node& as_node() const { return *raw_->as.node; }
  const pulse_graph_relationship& as_relationship() const { return *raw_->as.relationship; }
  const pulse_graph_path& as_path() const { return *raw_->as.path; }
  const pulse_graph_point& as_point() const { return *raw_->as.point; }
  const pulse_graph_value& raw() const { return *raw_; }

 private:
  const pulse_graph_value* raw_;
};

/* A parameter. What it points to has to stay until the call returns. */
class Parameter {
 public:
  /* Whatever fits into 64 bits with a sign. */
  template <std::integral T>
  requires(std::is_signed_v<T> || sizeof(T) < sizeof(int64_t))
      Parameter(std::string_view key, T value)
      : Parameter(key, std::same_as<T, bool> ? pulse_graph_boolean(value != 0)
                                             : pulse_graph_integer(value)) {}
  Parameter(std::string_view key, double value) : Parameter(key, pulse_graph_float(value)) {}
  Parameter(std::string_view key, std::string_view value)
      : Parameter(key, pulse_graph_string(value.data(), value.size())) {}
  Parameter(std::string_view key, const char* value) : Parameter(key, std::string_view(value)) {}
  Parameter(std::string_view key, const pulse_graph_value& value)
      : raw_{key.data(), key.size(), value} {}

 private:
  pulse_graph_entry raw_;
};
static_assert(sizeof(Parameter) == sizeof(pulse_graph_entry));
using Parameters = std::initializer_list<Parameter>;

/* Empty where the statement failed: error() says why. */
class Result {
 public:
  Result() = default;
  bool ok() const { return raw_ != nullptr; }
  const Error& error() const { return error_; }
  size_t columns() const { return pulse_graph_columns(raw_.get()); }
  uint64_t rows() const { return pulse_graph_rows(raw_.get()); }
  std::string_view column_name(size_t column) const {
    const char* name = pulse_graph_column_name(raw_.get(), column);
    return name == nullptr ? std::string_view() : name;
  }
  /* Takes the next row, of which At() is. False: there is none, or the system had no memory for it
   * (see pulse_graph_next). */
  bool Next() {
    row_ = pulse_graph_next(raw_.get());
    return row_ != nullptr;
  }
  Value At(size_t column) const { return Value(row_[column]); }
  pulse_graph_summary Summary() const {
    pulse_graph_summary summary;
    pulse_graph_summary_init(&summary);
    pulse_graph_summarize(raw_.get(), &summary);
    return summary;
  }
  pulse_graph_result* get() const { return raw_.get(); }

 private:
  friend class Graph;
  friend class Transaction;
  struct Free {
    void operator()(pulse_graph_result* result) const { pulse_graph_result_free(result); }
  };
  template <typename Call>
  static Result Of(Parameters parameters, const Call& call) {
    pulse_graph_run run;
    pulse_graph_run_init(&run);
    run.parameters = reinterpret_cast<const pulse_graph_entry*>(parameters.begin());
    run.parameter_count = parameters.size();
    Result result;
    pulse_graph_result* raw = nullptr;
    call(&run, &raw, result.error_.get());
    result.raw_.reset(raw);
    return result;
  }
  std::unique_ptr<pulse_graph_result, Free> raw_;
  const pulse_graph_value* row_ = nullptr;
  Error error_;
};

/* Rolled back where it is destroyed without Commit(). */
class Transaction {
 public:
  explicit operator bool() const { return raw_ != nullptr; }
  Result Execute(std::string_view query, Parameters parameters = {}) {
    return Result::Of(parameters, [&](auto* run, auto* result, auto* error) {
      return pulse_graph_transaction_execute(raw_.get(), query.data(), query.size(), run, result,
                                             error);
    });
  }
  Error Commit() {
    Error error;
    pulse_graph_commit(raw_.get(), error.get());
    return error;
  }
  Error Rollback() {
    Error error;
    pulse_graph_rollback(raw_.get(), error.get());
    return error;
  }
  pulse_graph_transaction* get() const { return raw_.get(); }

 private:
  friend class Graph;
  struct Free {
    void operator()(pulse_graph_transaction* raw) const { pulse_graph_transaction_free(raw); }
  };
  std::unique_ptr<pulse_graph_transaction, Free> raw_;
};

class Graph {
 public:
  /* Empty, with the reason in `error`, where it cannot be opened. `path` empty: a temporary one. */
  static Graph Open(const std::string& path, const pulse_graph_options* options, Error* error) {
    Graph graph;
    pulse_graph* raw = nullptr;
    pulse_graph_open(path.empty() ? nullptr : path.c_str(), options, &raw, error->get());
    graph.raw_.reset(raw);
    return graph;
  }
  explicit operator bool() const { return raw_ != nullptr; }
  Result Execute(std::string_view query, Parameters parameters = {}) const {
    return Result::Of(parameters, [&](auto* run, auto* result, auto* error) {
      return pulse_graph_execute(raw_.get(), query.data(), query.size(), run, result, error);
    });
  }
  /* Empty, with the reason in `error`, where none can be begun. */
  Transaction Begin(Error* error, const pulse_graph_run* run = nullptr) const {
    Transaction transaction;
    pulse_graph_transaction* raw = nullptr;
    pulse_graph_begin(raw_.get(), run, &raw, error->get());
    transaction.raw_.reset(raw);
    return transaction;
  }
  Error Close() const {
    Error error;
    pulse_graph_close(raw_.get(), error.get());
    return error;
  }
  pulse_graph* get() const { return raw_.get(); }

 private:
  struct Free {
    void operator()(pulse_graph* graph) const { pulse_graph_free(graph); }
  };
  std::unique_ptr<pulse_graph, Free> raw_;
};

}  // namespace pulse::graphdb

#endif /* PULSE_GRAPH_CXX_H_ */
