#include "bench/macro/paper/figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/macro/opponent.h"

namespace pulse::bench {

std::string TextIn(const nlohmann::json& object, const char* key, const std::string& none) {
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  return it == object.end() || !it->is_string() ? none : it->get<std::string>();
}

double NumberIn(const nlohmann::json& object, const char* key, double none) {
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) return none;
  const auto number = it->get<double>();
  return std::isfinite(number) ? number : none;
}

bool FlagIn(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return false;
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

const nlohmann::json& ObjectIn(const nlohmann::json& object, const char* key) {
  static const auto* const none = new nlohmann::json(nlohmann::json::object());
  if (!object.is_object()) return *none;
  const auto it = object.find(key);
  return it == object.end() || !it->is_object() ? *none : *it;
}

namespace {

void AddPaidFor(std::map<std::string, double>* figures) {
  const auto ops = figures->find("ops_per_s");
  const auto wall = figures->find("wall_s");
  const auto settle = figures->find("settle_s");
  const auto none = figures->end();
  if (ops == none || wall == none || settle == none || wall->second <= 0) return;
  (*figures)[kPaidFor] = ops->second * wall->second / (wall->second + settle->second);
}

}  // namespace

FigureRow::FigureRow(const nlohmann::json& row) : label_(TextIn(row, "label")) {
  if (!row.is_object() || !row.contains("runs") || !row["runs"].is_array()) return;
  for (const nlohmann::json& run : row["runs"]) {
    const std::string opponent = TextIn(run, "opponent");
    if (opponent.empty()) continue;
    if (std::find(opponents_.begin(), opponents_.end(), opponent) == opponents_.end()) {
      opponents_.push_back(opponent);
    }
    auto& figures = runs_[opponent][static_cast<int>(NumberIn(run, "pair", 0))];
    for (const auto& [metric, value] : run.items()) {
      if (value.is_number() && std::isfinite(value.get<double>())) {
        figures[metric] = value.get<double>();
      }
    }
    AddPaidFor(&figures);
  }
}

std::vector<double> FigureRow::Values(const Quantity& quantity) const {
  std::vector<double> values;
  const auto of = runs_.find(quantity.of);
  if (of == runs_.end()) return values;
  const auto over = runs_.find(Against(quantity));
  for (const auto& [pair, figures] : of->second) {
    const auto figure = figures.find(quantity.metric);
    if (figure == figures.end()) continue;
    if (quantity.over.empty()) {
      values.push_back(figure->second);
      continue;
    }
    if (over == runs_.end() || over->second.count(pair) == 0) continue;
    const auto& others = over->second.at(pair);
    const auto other = others.find(quantity.metric);
    if (other == others.end()) continue;
    if (quantity.points) {
      values.push_back(100 * (figure->second - other->second));
    } else if (other->second > 0) {
      values.push_back(figure->second / other->second);
    }
  }
  return values;
}

std::string FigureRow::Against(const Quantity& quantity) const {
  if (!absl::StrContains(quantity.over, '|')) {
    return runs_.count(quantity.over) == 0 ? "" : quantity.over;
  }
  std::string best;
  double most = 0;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(quantity.over, '|'))) {
    const auto figure = Of({quantity.metric, name, "", false});
    if (!figure || (!best.empty() && figure->median <= most)) continue;
    best = name;
    most = figure->median;
  }
  return best;
}

size_t FigureRow::RunsWithoutWhole(const std::string& opponent) const {
  const auto runs = runs_.find(opponent);
  if (runs == runs_.end()) return 0;
  return static_cast<size_t>(
      std::count_if(runs->second.begin(), runs->second.end(), [](const auto& run) {
        const auto whole = run.second.find("whole_compactions");
        return whole != run.second.end() && whole->second == 0;
      }));
}

bool IsWholeByName(const std::string& opponent) {
  return opponent == kDcomp || opponent == kAggressive || opponent == kWhole;
}

std::string LacksWhole(const FigureRow& row, const Quantity& quantity) {
  std::vector<std::string> about = absl::StrSplit(quantity.over, '|');
  about.push_back(quantity.of);
  for (const std::string& opponent : about) {
    const size_t without = IsWholeByName(opponent) ? row.RunsWithoutWhole(opponent) : 0;
    if (without == 0) continue;
    return absl::StrCat(opponent, ": no compaction ran whole in ", without, " of ",
                        row.Count({"whole_compactions", opponent, "", false}), " runs");
  }
  return "";
}

std::optional<Spread> FigureRow::Of(const Quantity& quantity) const {
  std::vector<double> values = Values(quantity);
  if (values.empty()) return std::nullopt;
  return Summarize(std::move(values));
}

std::vector<FigureRow> RowsOf(const nlohmann::json& result) {
  std::vector<FigureRow> rows;
  if (!result.is_object() || !result.contains("rows") || !result["rows"].is_array()) return rows;
  for (const nlohmann::json& row : result["rows"]) rows.emplace_back(row);
  return rows;
}

nlohmann::json ToJson(const PaperValue& value) {
  nlohmann::json json = {{"what", value.what}, {"where", value.where}};
  if (!value.row.empty()) json["row"] = value.row;
  if (value.IsRange()) {
    json["least"] = value.least;
    json["most"] = value.most;
  } else {
    json["value"] = value.least;
  }
  json["ours"] = {{"metric", value.ours.metric}, {"of", value.ours.of}};
  if (!value.ours.over.empty()) json["ours"]["over"] = value.ours.over;
  if (value.ours.points) json["ours"]["points"] = true;
  return json;
}

nlohmann::json PaperJson(const std::vector<std::string>& figures,
                         const std::vector<PaperValue>& values, const std::string& differs) {
  nlohmann::json paper = {{"figures", figures}, {"values", nlohmann::json::array()}};
  for (const PaperValue& value : values) paper["values"].push_back(ToJson(value));
  if (!differs.empty()) paper["differs"] = differs;
  return paper;
}

std::vector<PaperValue> PaperValues(const nlohmann::json& paper) {
  std::vector<PaperValue> values;
  if (!paper.is_object() || !paper.contains("values") || !paper["values"].is_array()) return values;
  for (const nlohmann::json& json : paper["values"]) {
    const nlohmann::json& ours = ObjectIn(json, "ours");
    PaperValue value;
    value.what = TextIn(json, "what");
    value.where = TextIn(json, "where");
    value.row = TextIn(json, "row");
    value.least = NumberIn(json, "least", NumberIn(json, "value", NAN));
    value.most = NumberIn(json, "most", value.least);
    value.ours = {TextIn(ours, "metric"), TextIn(ours, "of"), TextIn(ours, "over"),
                  FlagIn(ours, "points")};
    if (std::isfinite(value.least) && !value.ours.metric.empty()) values.push_back(value);
  }
  return values;
}

const PaperValue* FindPaperValue(const std::vector<PaperValue>& values, const Quantity& quantity,
                                 const std::string& label) {
  for (const PaperValue& value : values) {
    if (value.ours == quantity && (value.row.empty() || value.row == label)) return &value;
  }
  return nullptr;
}

}  // namespace pulse::bench
