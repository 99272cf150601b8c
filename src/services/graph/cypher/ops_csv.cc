// LOAD CSV: a row for each record of a file.
#include <algorithm>
#include <map>

#include "services/graph/cypher/operators.h"
#include "services/graph/model/csv_source.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

class LoadCsvOperator : public Operator {
 public:
  using Operator::Operator;
  bool Push(Rows& in) override {
    for (size_t i = 0; i < in.size(); ++i) {
      const Value where = Eval(*step().expr, in.Row(i), ctx_);
      if (ctx_.failed()) return false;
      if (!where.is_string()) {
        ctx_.TypeError(
            Concat("LOAD CSV wants a text that names a file, not a ", TypeName(where.type())));
        return false;
      }
      if (!Load(where.as_string(), in.Row(i))) return false;
    }
    return Flush();
  }

 private:
  bool Load(std::string_view where, const Value* row) {
    if (ctx_.open_csv == nullptr) {
      return ctx_.Check(
          RuntimeError("ForbiddenError", "LoadCsvForbidden",
                       "LOAD CSV is not allowed here: no directory of files to import "
                       "was named"));
    }
    file_ = where;
    auto records = (*ctx_.open_csv)(where, step().separator);
    if (!records.ok()) return Failed(records.status());
    std::vector<CsvRecords::Field> fields;
    std::vector<std::pair<std::string, size_t>> headers;  // sorted
    bool first = step().csv_headers;
    while (true) {
      const auto more = (*records)->Next(&fields);
      if (!more.ok()) return Failed(more.status());
      if (!*more) return !ctx_.failed();
      if (std::exchange(first, false)) {
        if (!ReadHeaders(fields, **records, &headers)) return false;
        continue;
      }
      Value value = step().csv_headers ? Map(fields, headers, **records) : List(fields);
      if (ctx_.failed()) return false;
      Value* out = NewRow(row);
      if (out == nullptr) return false;
      out[step().slot] = std::move(value);
    }
  }

  bool Failed(const absl::Status& status) {
    const absl::string_view why = status.message();
    return ctx_.Check(
        RuntimeError("ExternalResourceFailed", "LoadCsvFailed", {why.data(), why.size()}));
  }
  bool Failed(const CsvRecords& records, std::string_view why) {
    return Failed(absl::InvalidArgumentError(Concat(file_, ", line ", records.line(), ": ", why)));
  }

  static Value FieldOf(const CsvRecords::Field& field) {
    return field.null ? Value() : Value::String(std::string(field.text));
  }

  bool ReadHeaders(const std::vector<CsvRecords::Field>& fields, const CsvRecords& records,
                   std::vector<std::pair<std::string, size_t>>* headers) {
    for (size_t i = 0; i < fields.size(); ++i) headers->emplace_back(fields[i].text, i);
    std::sort(headers->begin(), headers->end());
    for (size_t i = 1; i < headers->size(); ++i) {
      if ((*headers)[i].first == (*headers)[i - 1].first) {
        return Failed(records, Concat("the header ", (*headers)[i].first, " comes twice"));
      }
    }
    return true;
  }

  Value Map(const std::vector<CsvRecords::Field>& fields,
            const std::vector<std::pair<std::string, size_t>>& headers, const CsvRecords& records) {
    if (fields.size() > headers.size()) {
      Failed(records,
             Concat("there are ", fields.size(), " fields, and ", headers.size(), " headers"));
      return Value();
    }
    ValueMap map;
    for (const auto& [name, index] : headers) {
      map.emplace_back(name, index < fields.size() ? FieldOf(fields[index]) : Value());
    }
    return Value::Map(std::move(map));
  }

  static Value List(const std::vector<CsvRecords::Field>& fields) {
    ValueList list;
    for (const auto& field : fields) list.push_back(FieldOf(field));
    return Value::List(std::move(list));
  }

  std::string file_;  // as the statement names it
};

}  // namespace

std::unique_ptr<Operator> MakeLoadCsvOperator(const Step& step, Runtime* runtime, Operator* next) {
  return std::make_unique<LoadCsvOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
