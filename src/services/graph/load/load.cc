#include "services/graph/load/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/parallel_for.h"
#include "services/graph/load/constraints.h"
#include "services/graph/load/keys.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/load/load_runs.h"
#include "services/graph/load/parsed_file.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr size_t kExamples = 10;
constexpr size_t kRejectBytes = size_t{1} << 20;  // written at once
constexpr uint64_t kBatchRows = 65536;

cypher::Column Slice(const cypher::Column& from, size_t first, size_t n) {
  cypher::Column out;
  out.kind = from.kind;
  const auto take = [first, n](const auto& rows, auto* to) {
    if (rows.size() >= first + n) {
      to->assign(rows.begin() + static_cast<std::ptrdiff_t>(first),
                 rows.begin() + static_cast<std::ptrdiff_t>(first + n));
    }
  };
  take(from.ints, &out.ints);
  take(from.floats, &out.floats);
  take(from.valid, &out.valid);
  take(from.values, &out.values);
  return out;
}

class Loader {
 public:
  Loader(const LoadOptions& options, LoadSink* sink)
      : options_(options),
        sink_(*sink),
        threads_(options.threads > 0 ? options.threads : AllowedCpus()),
        begin_(NowNanos()),
        memory_(options.memory_bytes, options.memory_hint),
        constraints_(sink, options.dialect.array_delimiter, &memory_) {}

  absl::StatusOr<LoadReport> Run() {
    PULSE_RETURN_IF_ERROR(CheckDialect(options_.dialect));
    PULSE_RETURN_IF_ERROR(OpenAll());
    PULSE_RETURN_IF_ERROR(InferNodes());
    for (size_t i = 0; i < nodes_.size(); ++i) PULSE_RETURN_IF_ERROR(ReadNodes(i));
    for (auto& space : spaces_) space->Finish();
    PULSE_RETURN_IF_ERROR(InferEdges());
    for (size_t i = 0; i < edges_.size(); ++i) PULSE_RETURN_IF_ERROR(ReadEdges(i));
    PULSE_RETURN_IF_ERROR(CloseRejects());
    report_.read_ns = NowNanos() - begin_;
    const int64_t write = NowNanos();
    PULSE_RETURN_IF_ERROR(CheckUnchanged());
    Say({"writing nodes", 0, report_.nodes});
    PULSE_RETURN_IF_ERROR(WriteNodes());
    PULSE_RETURN_IF_ERROR(sink_.TakesRuns() ? WriteAsRuns() : WriteEdges());
    PULSE_RETURN_IF_ERROR(CheckUnchanged());
    PULSE_RETURN_IF_ERROR(Stopped());
    report_.write_ns = NowNanos() - write - report_.sort_ns;
    report_.memory_bytes = memory_.most();
    return report_;
  }

 private:
  // All headers, before anything takes time.
  absl::Status OpenAll() {
    for (const NodeFile& file : options_.nodes) {
      nodes_.push_back(std::make_unique<ParsedFile>(file.path, file.descriptor, true,
                                                    !file.label.empty(), options_, &memory_));
      PULSE_RETURN_IF_ERROR(nodes_.back()->Open());
      if (file.label.empty() && nodes_.back()->ColumnWith(ColumnRole::kLabels) == nullptr) {
        return absl::InvalidArgumentError(
            Concat(file.path,
                   ":1: no label is given for these nodes: by LABEL=FILE or a column "
                   ":LABEL"));
      }
    }
    for (const EdgeFile& file : options_.edges) {
      edges_.push_back(std::make_unique<ParsedFile>(file.path, file.descriptor, false,
                                                    !file.type.empty(), options_, &memory_));
      PULSE_RETURN_IF_ERROR(edges_.back()->Open());
      if (file.type.empty() && edges_.back()->ColumnWith(ColumnRole::kType) == nullptr) {
        return absl::InvalidArgumentError(
            Concat(file.path,
                   ":1: no type is given for these relationships: by TYPE=FILE or a "
                   "column :TYPE"));
      }
    }
    PULSE_RETURN_IF_ERROR(CheckTypes());
    return options_.reject_path.empty() ? absl::OkStatus() : OpenRejects();
  }

  // What it had goes, unless it is one of the files that are read.
  absl::Status OpenRejects() {
    const std::string& path = options_.reject_path;
    PULSE_RETURN_IF_ERROR(CheckIsNoneOfADatabase(path));
    struct stat rejects;
    rejects_ = OpenFile(path, O_WRONLY | O_CREAT, 0644);
    if (!rejects_.valid() || fstat(rejects_.get(), &rejects) != 0) {
      return ErrnoError(errno, "creating", path);
    }
    for (const auto* files : {&nodes_, &edges_}) {
      for (const auto& file : *files) {
        if (file->IsFile(rejects)) {
          return absl::InvalidArgumentError(
              Concat(path, " is one of the files to load, and cannot be the reject file"));
        }
      }
    }
    if (S_ISREG(rejects.st_mode) && ftruncate(rejects_.get(), 0) != 0) {
      return ErrnoError(errno, "emptying", path);
    }
    return absl::OkStatus();
  }
  // A type that is given for no column is a mistake in its name.
  absl::Status CheckTypes() const {
    std::set<std::string> names;
    for (const auto* files : {&nodes_, &edges_}) {
      for (const auto& file : *files) {
        names.insert(file->header().names.begin(), file->header().names.end());
      }
    }
    for (const auto& [name, type] : options_.types) {
      if (names.contains(name)) continue;
      std::string all;
      for (const std::string& one : names) {
        if (!one.empty()) all += Concat(all.empty() ? "" : ", ", one);
      }
      return absl::InvalidArgumentError(Concat("the type ", type, " is for a column ", name,
                                               ", which no file has; there are: ", all));
    }
    return absl::OkStatus();
  }

  void Say(const LoadProgress& progress) {
    if (!stopped_) stopped_ = !CheckInterrupted(options_.interrupted).ok();
    if (options_.progress == nullptr || NowNanos() - begin_ < options_.quiet_ns) return;
    options_.progress(progress);
  }

  absl::Status Stopped() const { return stopped_ ? LoadInterrupted() : absl::OkStatus(); }

  ParsedFile::Parallel ParallelOn(const ParsedFile& file) {
    return [this, &file](size_t n, const std::function<absl::Status(size_t)>& f) {
      const auto say = [&] { Say({"reading " + file.path(), file.bytes_done(), file.bytes()}); };
      const auto work = [&](size_t i) { return stopped_ ? LoadInterrupted() : f(i); };
      PULSE_RETURN_IF_ERROR(ParallelFor(n, threads_, work, say));
      say();
      return Stopped();
    };
  }

  // Lines that cannot be loaded: written where there is a place for them, else the first is an
  // error.
  absl::Status Reject(const ParsedFile& file, std::vector<BadLine>* bad) {
    std::sort(bad->begin(), bad->end(),
              [](const BadLine& a, const BadLine& b) { return a.offset < b.offset; });
    std::string text;
    uint64_t line = 1, at = 0, memory = 0;
    const auto write = [&] {
      const absl::Status written = WriteAll(rejects_.get(), text, "writing", options_.reject_path);
      text.clear();
      return written;
    };
    for (const BadLine& one : *bad) {
      if (!rejects_.valid()) {
        return absl::InvalidArgumentError(
            Concat(file.Text(one), "; with a reject file such lines are left out"));
      }
      line += LineOf(file.text().substr(at, one.offset - at), one.offset - at) - 1;
      at = one.offset;
      const std::string what = Concat(file.path(), ":", line, ": ", one.reason);
      if (report_.examples.size() < kExamples) report_.examples.push_back(what);
      text += Concat(what, ": ", StdView(file.RecordAt(one.offset)), "\n");
      if (text.size() > kRejectBytes) PULSE_RETURN_IF_ERROR(write());
      memory += MemoryOf(one);
      ++report_.rejected;
      report_.dangling += one.kind == BadLine::Kind::kDangling ? 1 : 0;
      report_.duplicates += one.kind == BadLine::Kind::kDuplicate ? 1 : 0;
      report_.violations += one.kind == BadLine::Kind::kConstraint ? 1 : 0;
    }
    bad->clear();
    memory_.Give(memory);
    return text.empty() ? absl::OkStatus() : write();
  }

  absl::Status CloseRejects() {
    return rejects_.valid() ? SyncFd(rejects_.get(), options_.reject_path) : absl::OkStatus();
  }

  const std::string& SpaceName(size_t i) const {
    const FileColumn* key = nodes_[i]->ColumnWith(ColumnRole::kKey);
    return key->space.empty() ? options_.nodes[i].label : key->space;
  }

  // Files whose keys are of one space have them in one form, and those of one label have each
  // property in one type.
  absl::Status InferNodes() {
    std::set<std::string> texts;
    std::map<std::string, InferredTypes> types;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      PULSE_RETURN_IF_ERROR(nodes_[i]->Infer(true, ParallelOn(*nodes_[i])));
      nodes_[i]->AddTypes(&types[options_.nodes[i].label]);
      if (nodes_[i]->has_keys() && !nodes_[i]->ints_as_keys()) texts.insert(SpaceName(i));
    }
    types.erase("");  // each row names its own
    for (size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i]->TakeTypes(types[options_.nodes[i].label]);
      nodes_[i]->TakeKeysAs(texts.contains(SpaceName(i)) ? FieldType::kString : FieldType::kInt);
    }
    return absl::OkStatus();
  }

  // The same of relationships: where several files have a type, by all of their values.
  absl::Status InferEdges() {
    std::map<std::string, size_t> files;
    for (const EdgeFile& file : options_.edges) ++files[file.type];
    files.erase("");
    std::map<std::string, InferredTypes> types;
    for (size_t i = 0; i < edges_.size(); ++i) {
      const std::string& type = options_.edges[i].type;
      PULSE_RETURN_IF_ERROR(edges_[i]->Infer(files[type] > 1, ParallelOn(*edges_[i])));
      edges_[i]->AddTypes(&types[type]);
    }
    types.erase("");
    for (size_t i = 0; i < edges_.size(); ++i) edges_[i]->TakeTypes(types[options_.edges[i].type]);
    return absl::OkStatus();
  }

  KeySpace* SpaceOf(const std::string& name, bool ints) {
    for (const auto& space : spaces_) {
      if (space->name() == name) return space.get();
    }
    return spaces_.emplace_back(std::make_unique<KeySpace>(name, ints)).get();
  }

  absl::Status ReadNodes(size_t i) {
    ParsedFile& file = *nodes_[i];
    report_.bytes += file.bytes();
    PULSE_RETURN_IF_ERROR(file.Parse({}, {}, ParallelOn(file)));
    KeySpace* space = SpaceOf(SpaceName(i), file.ints_as_keys());
    constraints_.StartFile(file, options_.nodes[i].label);
    std::vector<BadLine> bad;
    for (FilePart& part : file.parts()) {
      std::move(part.bad.begin(), part.bad.end(), std::back_inserter(bad));
      part.bad.clear();
      if (report_.nodes + part.rows >= kNoRow) {
        return absl::ResourceExhaustedError("one load takes less than 2^32 - 1 nodes");
      }
      const uint64_t before = space->memory();
      PULSE_RETURN_IF_ERROR(AddKeys(file, space, &part, &bad));
      PULSE_RETURN_IF_ERROR(memory_.Take(space->memory() - before + part.rows * sizeof(NodeId)));
      report_.nodes += part.rows;
    }
    return Reject(file, &bad);
  }

  // Of the nodes that are loaded: those with a key that is there already are not, nor are those
  // that break a constraint.
  absl::Status AddKeys(const ParsedFile& file, KeySpace* space, FilePart* part,
                       std::vector<BadLine>* bad) {
    std::vector<uint8_t> keep(part->rows, 1);
    auto row = static_cast<uint32_t>(report_.nodes);
    for (size_t i = 0; i < part->rows; ++i) {
      const int64_t number = file.ints_as_keys() ? part->keys.ints[i] : 0;
      const absl::string_view text = file.ints_as_keys()
                                         ? absl::string_view()
                                         : cypher::Absl(part->keys.values[i].as_string());
      if (constraints_.concerned() &&
          !(file.ints_as_keys() ? space->HasInt(number) : space->HasText(text))) {
        PULSE_ASSIGN_OR_RETURN(std::string why, constraints_.Check(*part, i));
        if (!why.empty()) {
          keep[i] = 0;
          bad->push_back({part->offsets[i], BadLine::Kind::kConstraint, std::move(why)});
          PULSE_RETURN_IF_ERROR(memory_.Take(MemoryOf(bad->back())));
          continue;
        }
        PULSE_RETURN_IF_ERROR(constraints_.Keep());
      }
      const bool added =
          file.ints_as_keys() ? space->AddInt(number, row) : space->AddText(text, row);
      if (added) {
        ++row;
        continue;
      }
      keep[i] = 0;
      bad->push_back({part->offsets[i], BadLine::Kind::kDuplicate,
                      Concat("a node of ", space->name(), " with the key ",
                             file.ints_as_keys() ? std::to_string(number) : std::string(text),
                             " is there already")});
      PULSE_RETURN_IF_ERROR(memory_.Take(MemoryOf(bad->back())));
    }
    KeepPart(keep, part);
    return absl::OkStatus();
  }

  // Only rows with keep[row] != 0 stay; keys and offsets go.
  void KeepPart(const std::vector<uint8_t>& keep, FilePart* part) {
    const auto rows = static_cast<uint64_t>(std::count(keep.begin(), keep.end(), 1));
    if (rows < part->rows) {
      for (cypher::Column& column : part->columns) KeepRows(keep, &column);
      KeepRows(keep, &part->texts);
    }
    part->rows = rows;
    const uint64_t freed =
        MemoryOf(part->keys) + part->offsets.capacity() * sizeof(part->offsets[0]);
    part->keys = {};
    std::vector<uint64_t>().swap(part->offsets);
    part->memory -= std::min(part->memory, freed);
    memory_.Give(freed);
  }

  // The spaces that keys of a file may be of.
  absl::Status SpacesOf(const ParsedFile& file, const std::string& given, const FileColumn& column,
                        std::vector<const KeySpace*>* out) const {
    const std::string& name = !given.empty() ? given : column.space;
    std::set<std::string> there;
    for (const auto& space : spaces_) {
      there.insert(space->name());
      if (name.empty() || space->name() == name) out->push_back(space.get());
    }
    if (!out->empty() || name.empty()) return absl::OkStatus();
    std::string names;
    for (const std::string& one : there) names += (names.empty() ? "" : ", ") + one;
    return absl::InvalidArgumentError(
        Concat(file.path(), ":1: there are no keys of ", name, "; there are those of: ", names));
  }

  absl::Status ReadEdges(size_t i) {
    ParsedFile& file = *edges_[i];
    report_.bytes += file.bytes();
    std::vector<const KeySpace*> sources, targets;
    PULSE_RETURN_IF_ERROR(
        SpacesOf(file, options_.edges[i].source, *file.ColumnWith(ColumnRole::kSource), &sources));
    PULSE_RETURN_IF_ERROR(
        SpacesOf(file, options_.edges[i].target, *file.ColumnWith(ColumnRole::kTarget), &targets));
    constraints_.StartEdges(options_.edges[i].type, &file);
    PULSE_RETURN_IF_ERROR(file.Parse(sources, targets, ParallelOn(file)));
    std::vector<BadLine> bad;
    for (FilePart& part : file.parts()) {
      std::move(part.bad.begin(), part.bad.end(), std::back_inserter(bad));
      PULSE_RETURN_IF_ERROR(constraints_.DropEdges(rejects_.valid(), &part, &bad));
      report_.edges += part.rows;
    }
    PULSE_RETURN_IF_ERROR(Reject(file, &bad));
    if (report_.edges >= kNoRow) {
      return absl::ResourceExhaustedError("one load takes less than 2^32 - 1 relationships");
    }
    JoinParts(i);
    // Their types; and where they are written as runs, both directions sorted, with one on the way.
    const uint64_t each = sizeof(uint32_t) * (sink_.TakesRuns() ? 1 + 3 * 2 : 1);
    return memory_.Take(each * table_.files.back().count);
  }

  // A file's parts become rows of the table of all.
  void JoinParts(size_t i) {
    ParsedFile& file = *edges_[i];
    LoadedEdges& loaded = table_.files.emplace_back();
    loaded.first = static_cast<uint32_t>(table_.sources.size());
    std::vector<cypher::Column> columns(file.property_names().size());
    loaded.texts.resize(columns.size());
    for (FilePart& part : file.parts()) {
      for (size_t c = 0; c < columns.size(); ++c) {
        if (part.left[c] != 0) loaded.texts[c] = &file;
      }
      loaded.count += static_cast<uint32_t>(part.rows);
      // Types by their names' numbers; those of the file without a column are one.
      std::vector<uint32_t> numbers;
      for (const std::string& name : part.dictionary.texts()) {
        numbers.push_back(type_names_.Number(name.empty() ? options_.edges[i].type : name));
      }
      const uint32_t own =
          part.texts.empty() && part.rows > 0 ? type_names_.Number(options_.edges[i].type) : 0;
      for (size_t row = 0; row < part.rows; ++row) {
        table_.types.push_back(part.texts.empty() ? own : numbers[part.texts[row]]);
      }
      MoveRows(&part.sources, &table_.sources);
      MoveRows(&part.targets, &table_.targets);
      for (size_t c = 0; c < columns.size(); ++c) MoveRows(&part.columns[c], &columns[c]);
      part = {};
    }
    for (cypher::Column& column : columns) loaded.columns.emplace_back(kNoToken, std::move(column));
  }

  // Texts are fetched from files that were checked when they were read.
  absl::Status CheckUnchanged() const {
    for (const auto* files : {&nodes_, &edges_}) {
      for (const auto& file : *files) PULSE_RETURN_IF_ERROR(file->CheckUnchanged());
    }
    return absl::OkStatus();
  }

  absl::Status WriteNodes() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      ParsedFile& file = *nodes_[i];
      std::vector<Token> keys;
      for (const std::string& name : file.property_names()) {
        PULSE_ASSIGN_OR_RETURN(keys.emplace_back(), sink_.Key(name));
      }
      for (FilePart& part : file.parts()) {
        if (part.rows == 0) continue;
        PULSE_RETURN_IF_ERROR(file.FetchTexts(&part));
        NodeBatch batch;
        batch.count = part.rows;
        PULSE_RETURN_IF_ERROR(SetLabels(options_.nodes[i].label, part, &batch));
        for (size_t c = 0; c < keys.size(); ++c) {
          batch.columns.emplace_back(keys[c], std::move(part.columns[c]));
        }
        const size_t before = table_.ids.size();
        PULSE_RETURN_IF_ERROR(sink_.AddNodes(batch, &table_.ids));
        if (table_.ids.size() != before + part.rows) {
          return absl::InternalError("a sink of bulk load gave other than one number for a node");
        }
        part = {};
        Say({"writing nodes", table_.ids.size(), report_.nodes});
        PULSE_RETURN_IF_ERROR(Stopped());
      }
    }
    return absl::OkStatus();
  }

  absl::Status SetLabels(const std::string& label, const FilePart& part, NodeBatch* batch) {
    std::vector<std::string> texts = part.dictionary.texts();
    if (part.texts.empty()) {
      texts.assign(1, "");
    } else {
      batch->label_set = part.texts;
    }
    for (const std::string& text : texts) {
      std::vector<Token>& set = batch->label_sets.emplace_back();
      const auto add = [&](std::string_view name) -> absl::Status {
        if (name.empty()) return absl::OkStatus();
        PULSE_ASSIGN_OR_RETURN(const Token token, sink_.Label(name));
        if (std::find(set.begin(), set.end(), token) == set.end()) set.push_back(token);
        return absl::OkStatus();
      };
      PULSE_RETURN_IF_ERROR(add(label));
      for (std::string_view rest = text; !rest.empty();) {
        const size_t end = rest.find(options_.dialect.array_delimiter);
        PULSE_RETURN_IF_ERROR(add(rest.substr(0, end)));
        rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
      }
    }
    return absl::OkStatus();
  }

  // Names of types and properties become tokens, and numbers of types those of ascending tokens.
  absl::Status SetTokens() {
    std::vector<Token> tokens;
    for (const std::string& name : type_names_.texts()) {
      PULSE_ASSIGN_OR_RETURN(tokens.emplace_back(), sink_.Type(name));
    }
    table_.tokens = tokens;
    std::sort(table_.tokens.begin(), table_.tokens.end());
    if (tokens.size() <= 1) {
      table_.types = {};
    } else {
      std::vector<uint32_t> ranks;
      for (const Token token : tokens) {
        ranks.push_back(static_cast<uint32_t>(
            std::lower_bound(table_.tokens.begin(), table_.tokens.end(), token) -
            table_.tokens.begin()));
      }
      for (uint32_t& type : table_.types) type = ranks[type];
    }
    for (size_t i = 0; i < edges_.size(); ++i) {
      for (size_t c = 0; c < edges_[i]->property_names().size(); ++c) {
        PULSE_ASSIGN_OR_RETURN(table_.files[i].columns[c].first,
                               sink_.Key(edges_[i]->property_names()[c]));
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteAsRuns() {
    if (table_.sources.empty()) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(SetTokens());
    if (!std::is_sorted(table_.ids.begin(), table_.ids.end(), std::less_equal<>())) {
      return absl::InternalError("a sink of runs gave nodes numbers that do not ascend");
    }
    Say({"sorting and writing relationships", 0, report_.edges});
    BuildTimes times;
    const auto tick = [this] { Say({"sorting and writing relationships", 0, report_.edges}); };
    PULSE_RETURN_IF_ERROR(WriteRuns(table_, options_.run, &sink_, stopped_, tick, &times));
    report_.sort_ns = times.sort_ns;
    return absl::OkStatus();
  }

  absl::Status WriteEdges() {
    PULSE_RETURN_IF_ERROR(SetTokens());
    uint64_t done = 0;
    for (const LoadedEdges& file : table_.files) {
      // Rows of one type that follow each other.
      const auto type_of = [&](uint32_t e) { return table_.types.empty() ? 0 : table_.types[e]; };
      for (uint32_t from = 0; from < file.count;) {
        EdgeBatch batch;
        const uint32_t type = type_of(file.first + from);
        uint32_t to = from;
        uint64_t fetched = 0;
        for (; to < file.count && to - from < kBatchRows && fetched < kFetchedTextBytes &&
               type_of(file.first + to) == type;
             ++to) {
          fetched += file.LeftBytes(to);
          batch.sources.push_back(table_.ids[table_.sources[file.first + to]]);
          batch.targets.push_back(table_.ids[table_.targets[file.first + to]]);
        }
        batch.type = table_.tokens[type];
        for (size_t c = 0; c < file.columns.size(); ++c) {
          const auto& [key, column] = file.columns[c];
          batch.columns.emplace_back(key, Slice(column, from, to - from));
          if (file.texts[c] == nullptr) continue;
          for (Value& value : batch.columns.back().second.values) {
            PULSE_ASSIGN_OR_RETURN(value, file.WithText(c, value));
          }
        }
        PULSE_RETURN_IF_ERROR(sink_.AddEdges(batch));
        done += to - from;
        from = to;
        Say({"writing relationships", done, report_.edges});
        PULSE_RETURN_IF_ERROR(Stopped());
      }
    }
    return absl::OkStatus();
  }

  const LoadOptions& options_;
  LoadSink& sink_;
  const int threads_;
  const int64_t begin_;
  std::atomic<bool> stopped_{false};  // the calling thread was interrupted
  LoadMemory memory_;
  LoadConstraints constraints_;
  UniqueFd rejects_;
  std::vector<std::unique_ptr<ParsedFile>> nodes_, edges_;
  std::vector<std::unique_ptr<KeySpace>> spaces_;
  Dictionary type_names_;
  EdgeTable table_;
  LoadReport report_;
};

}  // namespace

absl::StatusOr<NodeFile> ParseNodeFile(absl::string_view text) {
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    return absl::InvalidArgumentError(
        Concat("nodes are given as LABEL=FILE, not as ", StdView(text)));
  }
  NodeFile file;
  file.label = std::string(text.substr(0, equals));
  file.path = std::string(text.substr(equals + 1));
  return file;
}

absl::StatusOr<EdgeFile> ParseEdgeFile(absl::string_view text) {
  const auto bad = [&] {
    return absl::InvalidArgumentError(
        Concat("relationships are given as TYPE=FILE or TYPE(SOURCE,TARGET)=FILE, not as ",
               StdView(text)));
  };
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos || equals == 0 || equals + 1 == text.size()) return bad();
  EdgeFile file;
  file.type = std::string(text.substr(0, equals));
  file.path = std::string(text.substr(equals + 1));
  const size_t open = file.type.find('(');
  if (open == std::string::npos) return file;
  const size_t comma = file.type.find(',', open);
  if (open == 0 || file.type.back() != ')' || comma == std::string::npos) return bad();
  file.source = file.type.substr(open + 1, comma - open - 1);
  file.target = file.type.substr(comma + 1, file.type.size() - comma - 2);
  file.type.resize(open);
  return file;
}

absl::StatusOr<LoadReport> LoadCsv(const LoadOptions& options, LoadSink* sink) {
  return Loader(options, sink).Run();
}

}  // namespace pulse::graph
