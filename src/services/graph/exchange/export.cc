#include "services/graph/exchange/export.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/exchange/column_type.h"
#include "services/graph/exchange/schema_file.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Column;
using cypher::Concat;
using cypher::EdgeRef;
using cypher::GraphView;
using cypher::NodeId;
using cypher::Token;
using cypher::Value;

constexpr size_t kBatch = 4096;
constexpr size_t kBufferBytes = size_t{1} << 20;
// Of the properties that are read at once, unless those of one node or relationship are more.
constexpr size_t kSliceBytes = size_t{8} << 20;
// What separates labels, and elements of lists: the first that no label has.
constexpr std::string_view kDelimiters = ";|\x1f\x1e\x1d\x1c\x01\x02\x03\x04\x05\x06\x07\x08";

// A file's name that shows what is in it, whatever that is called.
std::string FileName(std::string_view what, size_t number, std::string_view name) {
  std::string out = Concat(what, "-", number);
  if (!name.empty()) out += '-';
  for (const char c : name.substr(0, 40)) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    out += plain ? c : '_';
  }
  return out + ".csv";
}

size_t BytesOf(const Value& value) {
  if (value.is_string()) return value.as_string().size();
  if (value.is_bytes()) return value.as_bytes().size();
  size_t bytes = sizeof(Value);
  if (value.is_list()) {
    for (const Value& item : value.as_list()) bytes += BytesOf(item);
  }
  return bytes;
}

// Cuts the rows of a file so that the properties of those between two cuts have kSliceBytes at
// most. The scan that learns types says what each row has; the one that writes goes by the cuts.
class Slices {
 public:
  void Add(size_t bytes) {
    if (bytes_ > 0 && bytes_ + bytes > kSliceBytes) {
      cuts_.push_back(rows_);
      bytes_ = 0;
    }
    bytes_ += bytes;
    ++rows_;
  }
  // How many of the next rows belong together, of `most`.
  size_t Next(size_t most) {
    while (at_ < cuts_.size() && cuts_[at_] <= row_) ++at_;
    const uint64_t rows = at_ < cuts_.size() ? std::min<uint64_t>(most, cuts_[at_] - row_) : most;
    row_ += rows;
    return rows;
  }

 private:
  uint64_t rows_ = 0;
  size_t bytes_ = 0;
  std::vector<uint64_t> cuts_;
  uint64_t row_ = 0;  // that is next
  size_t at_ = 0;
};

class Exporter {
 public:
  Exporter(const GraphView& view, const cypher::DatabaseNames& names, const ExportOptions& options,
           NewDirectory* to)
      : view_(view), names_(names), options_(options), to_(*to) {}

  absl::StatusOr<ExchangeReport> Run(const std::vector<cypher::IndexDefinition>& indexes) {
    PULSE_RETURN_IF_ERROR(CheckNames());
    total_ = 2 * (view_.NodeCount(kNoToken) + view_.EdgeCount(kNoToken));
    std::vector<std::string> labels = names_.labels;
    std::sort(labels.begin(), labels.end());
    for (const std::string& label : labels) {
      const auto token = view_.FindLabel(label);
      if (token) PULSE_RETURN_IF_ERROR(WriteNodes(label, *token));
    }
    PULSE_RETURN_IF_ERROR(WriteNodes("", kNoToken));
    std::vector<std::string> types = names_.types;
    std::sort(types.begin(), types.end());
    for (const std::string& type : types) {
      const auto token = view_.FindType(type);
      if (token) PULSE_RETURN_IF_ERROR(WriteEdges(type, *token));
    }
    schema_.indexes = indexes;
    schema_.node_count = report_.nodes;
    schema_.edge_count = report_.edges;
    PULSE_RETURN_IF_ERROR(StartFile(kSchemaFile));
    buffer_ = schema_.Encode();
    PULSE_RETURN_IF_ERROR(EndFile());
    for (const auto& index : indexes) ++(index.constraint ? report_.constraints : report_.indexes);
    PULSE_RETURN_IF_ERROR(to_.Commit());
    return report_;
  }

 private:
  static constexpr Token kNoToken = cypher::kNoToken;
  struct PropertyColumn {
    explicit PropertyColumn(char delimiter) : type(delimiter) {}
    std::string name;
    ColumnType type;
    Column values;
  };
  // By key.
  using Columns = std::map<Token, PropertyColumn>;

  absl::Status CheckNames() {
    std::string used;
    for (const auto* list : {&names_.labels, &names_.types, &names_.keys}) {
      for (const std::string& name : *list) {
        if (name.empty() || !cypher::IsUtf8(name)) {
          return absl::InvalidArgumentError(
              "a label, type or property whose name is empty, or not UTF-8, cannot be exported");
        }
        if (list == &names_.labels) used += name;
      }
    }
    const size_t free = kDelimiters.find_first_not_of(used);
    if (free == std::string_view::npos) {
      return absl::InvalidArgumentError("labels have each character that could separate them");
    }
    schema_.array_delimiter = kDelimiters[free];
    return absl::OkStatus();
  }

  absl::Status Step(size_t count) {
    done_ += count;
    if (options_.stopped && options_.stopped()) return absl::CancelledError("the export was ended");
    if (options_.progress) options_.progress(done_, total_);
    return absl::OkStatus();
  }

  absl::Status StartFile(const std::string& name) {
    name_ = Concat(to_.shown(), "/", name);
    PULSE_ASSIGN_OR_RETURN(file_, to_.CreateFile(name));
    return absl::OkStatus();
  }
  absl::Status FlushIfFull() { return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush(); }
  absl::Status Flush() {
    PULSE_RETURN_IF_ERROR(WriteAll(file_.get(), cypher::Absl(buffer_), "writing", name_));
    report_.bytes += buffer_.size();
    buffer_.clear();
    // What one long value took is given back.
    if (buffer_.capacity() > 4 * kBufferBytes) std::string().swap(buffer_);
    return absl::OkStatus();
  }
  absl::Status EndFile() {
    PULSE_RETURN_IF_ERROR(Flush());
    PULSE_RETURN_IF_ERROR(SyncFd(file_.get(), name_));
    file_.reset();
    ++report_.files;
    return absl::OkStatus();
  }

  void Learn(const cypher::Properties& properties, Columns* columns, Slices* slices) const {
    size_t bytes = 0;
    for (const auto& [key, value] : properties) bytes += BytesOf(value);
    slices->Add(bytes);
    for (const auto& [key, value] : properties) {
      auto it = columns->find(key);
      if (it == columns->end()) {
        it = columns->emplace(key, PropertyColumn(schema_.array_delimiter)).first;
        it->second.name = view_.KeyName(key);
      }
      it->second.type.Add(value);
    }
  }

  absl::Status StartHeader(std::string_view first, const Columns& columns) {
    if (columns.size() + 2 > kMostColumns) {
      return absl::ResourceExhaustedError(
          Concat(columns.size(), " property keys of one label or type: no more than ",
                 kMostColumns - 2, " can be read again"));
    }
    buffer_ = first;
    for (const auto& [key, column] : columns) {
      buffer_ += ',';
      AppendQuotedField(Concat(column.name, ":", column.type.Name()), &buffer_);
    }
    buffer_ += '\n';
    return absl::OkStatus();
  }

  absl::Status AppendProperties(const Columns& columns, size_t row) {
    for (const auto& [key, column] : columns) {
      buffer_ += ',';
      if (column.type.Append(ValueAt(column.values, row), &buffer_)) {
        PULSE_RETURN_IF_ERROR(FlushIfFull());
        continue;
      }
      return absl::InvalidArgumentError(Concat("a value of the property ", column.name,
                                               " has no text: it is a date that ISO ",
                                               "8601 does not write"));
    }
    buffer_ += '\n';
    return FlushIfFull();
  }

  static void Describe(const Columns& columns, ExportedFile* file) {
    for (const auto& [key, column] : columns) {
      file->properties.emplace_back(column.name, column.type.Name());
    }
  }

  // The labels of a node by name, ascending.
  absl::Status ReadLabels(NodeId node, std::vector<std::string>* out) {
    PULSE_RETURN_IF_ERROR(view_.ReadLabels(node, &tokens_));
    out->clear();
    for (const Token token : tokens_) out->push_back(view_.LabelName(token));
    std::sort(out->begin(), out->end());
    return absl::OkStatus();
  }

  // Calls f with nodes whose first label by name is `label`; kNoToken: with those of none.
  template <typename F>
  absl::Status ForNodes(const std::string& label, Token token, const F& f) {
    std::vector<NodeId> nodes(kBatch), own;
    uint64_t position = 0;
    std::vector<std::string> labels;
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const size_t count, view_.ScanNodes(token, &position, nodes));
      if (count == 0) return absl::OkStatus();
      own.clear();
      for (size_t i = 0; i < count; ++i) {
        PULSE_RETURN_IF_ERROR(ReadLabels(nodes[i], &labels));
        if (labels.empty() ? token == kNoToken : labels[0] == label) own.push_back(nodes[i]);
      }
      PULSE_RETURN_IF_ERROR(Step(own.size()));
      if (!own.empty()) PULSE_RETURN_IF_ERROR(f(std::span<const NodeId>(own)));
    }
  }

  absl::Status WriteNodes(const std::string& label, Token token) {
    Columns columns;
    Slices slices;
    ExportedFile file;
    const auto learn = [&](std::span<const NodeId> nodes) -> absl::Status {
      for (const NodeId node : nodes) {
        PULSE_RETURN_IF_ERROR(view_.ReadNodeProperties(node, &properties_));
        Learn(properties_, &columns, &slices);
      }
      file.count += nodes.size();
      return absl::OkStatus();
    };
    PULSE_RETURN_IF_ERROR(ForNodes(label, token, learn));
    if (file.count == 0) return absl::OkStatus();
    file.file = FileName("nodes", schema_.nodes.size() + 1, label);
    file.name = label;
    Describe(columns, &file);
    PULSE_RETURN_IF_ERROR(StartFile(file.file));
    PULSE_RETURN_IF_ERROR(StartHeader(":ID(node),:LABEL", columns));
    properties_.clear();
    const auto write = [&](std::span<const NodeId> nodes) -> absl::Status {
      while (!nodes.empty()) {
        const size_t count = slices.Next(nodes.size());
        PULSE_RETURN_IF_ERROR(WriteNodeRows(nodes.first(count), &columns));
        nodes = nodes.subspan(count);
      }
      return absl::OkStatus();
    };
    PULSE_RETURN_IF_ERROR(ForNodes(label, token, write));
    report_.nodes += file.count;
    schema_.nodes.push_back(std::move(file));
    return EndFile();
  }

  absl::Status WriteNodeRows(std::span<const NodeId> nodes, Columns* columns) {
    for (auto& [key, column] : *columns) {
      column.values = {};  // before more is read
      PULSE_RETURN_IF_ERROR(view_.ReadNodeProperty(key, nodes, &column.values));
    }
    std::vector<std::string> labels;
    for (size_t i = 0; i < nodes.size(); ++i) {
      PULSE_RETURN_IF_ERROR(ReadLabels(nodes[i], &labels));
      std::string all;
      for (const std::string& one : labels) {
        if (!all.empty()) all += schema_.array_delimiter;
        all += one;
      }
      buffer_ += Concat(nodes[i], ",");
      if (!all.empty()) AppendQuotedField(all, &buffer_);
      PULSE_RETURN_IF_ERROR(AppendProperties(*columns, i));
    }
    return absl::OkStatus();
  }

  absl::Status WriteEdgeRows(std::span<const EdgeRef> edges, Columns* columns) {
    for (auto& [key, column] : *columns) {
      column.values = {};  // before more is read
      PULSE_RETURN_IF_ERROR(view_.ReadEdgeProperty(key, edges, &column.values));
    }
    for (size_t i = 0; i < edges.size(); ++i) {
      buffer_ += Concat(edges[i].source, ",", edges[i].target);
      PULSE_RETURN_IF_ERROR(AppendProperties(*columns, i));
    }
    return absl::OkStatus();
  }

  template <typename F>
  absl::Status ForEdges(Token type, const F& f) {
    std::vector<EdgeRef> edges(kBatch);
    const Token types[] = {type};
    uint64_t position = 0;
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const size_t count, view_.ScanEdges(types, &position, edges));
      if (count == 0) return absl::OkStatus();
      PULSE_RETURN_IF_ERROR(Step(count));
      PULSE_RETURN_IF_ERROR(f(std::span<const EdgeRef>(edges.data(), count)));
    }
  }

  absl::Status WriteEdges(const std::string& type, Token token) {
    Columns columns;
    Slices slices;
    ExportedFile file;
    const auto learn = [&](std::span<const EdgeRef> edges) -> absl::Status {
      for (const EdgeRef& edge : edges) {
        PULSE_RETURN_IF_ERROR(view_.ReadEdgeProperties(edge, &properties_));
        Learn(properties_, &columns, &slices);
      }
      file.count += edges.size();
      return absl::OkStatus();
    };
    PULSE_RETURN_IF_ERROR(ForEdges(token, learn));
    if (file.count == 0) return absl::OkStatus();
    file.file = FileName("relationships", schema_.edges.size() + 1, type);
    file.name = type;
    Describe(columns, &file);
    PULSE_RETURN_IF_ERROR(StartFile(file.file));
    PULSE_RETURN_IF_ERROR(StartHeader(":START_ID(node),:END_ID(node)", columns));
    properties_.clear();
    const auto write = [&](std::span<const EdgeRef> edges) -> absl::Status {
      while (!edges.empty()) {
        const size_t count = slices.Next(edges.size());
        PULSE_RETURN_IF_ERROR(WriteEdgeRows(edges.first(count), &columns));
        edges = edges.subspan(count);
      }
      return absl::OkStatus();
    };
    PULSE_RETURN_IF_ERROR(ForEdges(token, write));
    report_.edges += file.count;
    schema_.edges.push_back(std::move(file));
    return EndFile();
  }

  const GraphView& view_;
  const cypher::DatabaseNames& names_;
  const ExportOptions& options_;
  NewDirectory& to_;
  ExportSchema schema_;
  ExchangeReport report_;
  uint64_t done_ = 0, total_ = 0;
  UniqueFd file_;
  std::string name_, buffer_;
  cypher::Properties properties_;
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<ExchangeReport> ExportGraph(const GraphView& view,
                                           const cypher::DatabaseNames& names,
                                           const std::vector<cypher::IndexDefinition>& indexes,
                                           const ExportOptions& options, NewDirectory* to) {
  return Exporter(view, names, options, to).Run(indexes);
}

absl::StatusOr<ExchangeReport> ExportDatabase(cypher::Database* database,
                                              const ExportOptions& options, NewDirectory* to) {
  // A constraint that was made or dropped meanwhile may not be true of the snapshot.
  const std::vector<cypher::IndexDefinition> before = database->Indexes();
  PULSE_ASSIGN_OR_RETURN(const auto view, database->Snapshot());
  std::vector<cypher::IndexDefinition> indexes = database->Indexes();
  std::erase_if(indexes, [&](const cypher::IndexDefinition& index) {
    return std::find(before.begin(), before.end(), index) == before.end();
  });
  return ExportGraph(*view, database->Names(), indexes, options, to);
}

}  // namespace pulse::graph
