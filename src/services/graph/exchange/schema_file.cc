#include "services/graph/exchange/schema_file.h"

#include <algorithm>
#include <optional>

#include "services/graph/model/literal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::NameText;
using cypher::QuotedText;
using cypher::Value;

constexpr std::string_view kProduct = "pulse graph";

// By required and unique; of one of a type its name stands behind kTyped.
constexpr std::string_view kTyped = "type ";
constexpr std::string_view kKinds[] = {"index", "unique", "not null", "node key"};

std::string KindOf(const cypher::IndexDefinition& index) {
  if (!index.type.empty()) return Concat(kTyped, index.type);
  return std::string(kKinds[(index.unique ? 1 : 0) + (index.required ? 2 : 0)]);
}

std::string FileLine(std::string_view what, std::string_view names, const ExportedFile& file) {
  std::string line = Concat("{", what, ": ", QuotedText(file.file));
  if (!file.name.empty()) line += Concat(", ", names, ": ", QuotedText(file.name));
  line += Concat(", count: ", file.count, ", properties: {");
  for (size_t i = 0; i < file.properties.size(); ++i) {
    // In one line: a name in backticks has no escapes.
    std::string name = file.properties[i].first;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    line += Concat(i == 0 ? "" : ", ", NameText(name), ": ", QuotedText(file.properties[i].second));
  }
  return line + "}}\n";
}

class Decoder {
 public:
  explicit Decoder(const std::string& shown) : shown_(shown) {}

  absl::StatusOr<ExportSchema> Decode(std::string_view text) {
    ExportSchema schema;
    bool ended = false;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      ++line_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      if (ended) return Wrong("something stands behind the end");
      std::string why;
      const auto map = cypher::ParseLiteral(line, &why);
      if (!map) return Wrong(why);
      if (!map->is_map()) return Wrong("expected a map");
      if (absl::Status st = Add(*map, &schema, &ended); !st.ok()) return st;
      begun_ = true;
    }
    if (!ended) return Wrong("the last line {end: true, ...} is missing: the file is not whole");
    return schema;
  }

 private:
  absl::Status Wrong(std::string_view what) const {
    return absl::InvalidArgumentError(Concat(shown_, ", line ", line_, ": ", what));
  }

  absl::Status Add(const Value& map, ExportSchema* schema, bool* ended) {
    if (!begun_) return AddHead(map, schema);
    if (map.Find("nodes") != nullptr && map.Find("end") == nullptr) {
      return AddFile(map, "nodes", "label", &schema->nodes.emplace_back());
    }
    if (map.Find("relationships") != nullptr && map.Find("end") == nullptr) {
      ExportedFile& file = schema->edges.emplace_back();
      if (absl::Status st = AddFile(map, "relationships", "type", &file); !st.ok()) return st;
      return file.name.empty() ? Wrong("type is missing") : absl::OkStatus();
    }
    if (map.Find("index") != nullptr) return AddIndex(map, &schema->indexes.emplace_back());
    if (map.Find("end") == nullptr) return Wrong("expected nodes, relationships, index or end");
    *ended = true;
    const auto nodes = CountOf(map, "nodes"), edges = CountOf(map, "relationships");
    if (!nodes || !edges) return Wrong("the end needs nodes and relationships, two counts");
    schema->node_count = *nodes;
    schema->edge_count = *edges;
    return absl::OkStatus();
  }

  absl::Status AddHead(const Value& map, ExportSchema* schema) {
    const auto product = TextOf(map, "export");
    if (!product || *product != kProduct) {
      return Wrong(Concat("not an export of a graph: it begins with {export: '", kProduct, "'"));
    }
    const Value* const version = map.Find("version");
    if (version == nullptr || !version->is_int() || version->as_int() < 1) {
      return Wrong("version is missing");
    }
    if (version->as_int() > kExportVersion) {
      return absl::FailedPreconditionError(Concat(shown_, ": of version ", version->as_int(),
                                                  "; this program reads ", kExportVersion,
                                                  ": use a newer one"));
    }
    const auto delimiter = TextOf(map, "array_delimiter");
    if (!delimiter || delimiter->size() != 1) return Wrong("array_delimiter: one character");
    schema->array_delimiter = (*delimiter)[0];
    return absl::OkStatus();
  }

  absl::Status AddFile(const Value& map, std::string_view what, std::string_view names,
                       ExportedFile* file) const {
    const auto name = TextOf(map, what);
    const auto count = CountOf(map, "count");
    if (!name || name->empty()) return Wrong(Concat(what, ": the name of a file"));
    if (!count) return Wrong("count is missing");
    file->file = *name;
    file->count = *count;
    file->name = TextOf(map, names).value_or("");
    return absl::OkStatus();
  }

  absl::Status AddIndex(const Value& map, cypher::IndexDefinition* index) const {
    const auto name = TextOf(map, "index"), kind = TextOf(map, "kind");
    index->of_edges = map.Find("type") != nullptr;
    const auto label = TextOf(map, index->of_edges ? "type" : "label");
    const Value* const keys = map.Find("keys");
    if (!name || name->empty() || !label || label->empty() || !kind || keys == nullptr ||
        !keys->is_list() || keys->as_list().empty()) {
      return Wrong("an index has index, label or type, keys and kind");
    }
    index->name = *name;
    index->label = *label;
    for (const Value& key : keys->as_list()) {
      if (!key.is_string() || key.as_string().empty()) return Wrong("keys: names of properties");
      index->keys.push_back(key.as_string());
    }
    if (kind->starts_with(kTyped)) {
      index->constraint = true;
      index->type = kind->substr(kTyped.size());
      return absl::OkStatus();
    }
    for (size_t i = 0; i < std::size(kKinds); ++i) {
      if (*kind != kKinds[i]) continue;
      index->constraint = i > 0;
      index->unique = (i & 1) != 0;
      index->required = (i & 2) != 0;
      return absl::OkStatus();
    }
    return Wrong(Concat("there is no kind ", *kind));
  }

  static std::optional<std::string> TextOf(const Value& map, std::string_view key) {
    const Value* const value = map.Find(key);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return value->as_string();
  }
  static std::optional<uint64_t> CountOf(const Value& map, std::string_view key) {
    const Value* const value = map.Find(key);
    if (value == nullptr || !value->is_int() || value->as_int() < 0) return std::nullopt;
    return static_cast<uint64_t>(value->as_int());
  }

  const std::string& shown_;
  uint64_t line_ = 0;
  bool begun_ = false;
};

}  // namespace

std::string ExportSchema::Encode() const {
  const bool newest = std::any_of(indexes.begin(), indexes.end(),
                                  [](const auto& index) { return index.IsExtended(); });
  std::string out =
      Concat("{export: '", kProduct, "', version: ", newest ? kExportVersion : 1,
             ", array_delimiter: ", QuotedText(std::string(1, array_delimiter)), "}\n");
  for (const ExportedFile& file : nodes) out += FileLine("nodes", "label", file);
  for (const ExportedFile& file : edges) out += FileLine("relationships", "type", file);
  for (const cypher::IndexDefinition& index : indexes) {
    std::string keys;
    for (const std::string& key : index.keys) {
      keys += Concat(keys.empty() ? "" : ", ", QuotedText(key));
    }
    out += Concat("{index: ", QuotedText(index.name),
                  index.of_edges ? ", type: " : ", label: ", QuotedText(index.label), ", keys: [",
                  keys, "], kind: ", QuotedText(KindOf(index)), "}\n");
  }
  return out + Concat("{end: true, nodes: ", node_count, ", relationships: ", edge_count, "}\n");
}

absl::StatusOr<ExportSchema> ExportSchema::Decode(std::string_view text, const std::string& shown) {
  return Decoder(shown).Decode(text);
}

}  // namespace pulse::graph
