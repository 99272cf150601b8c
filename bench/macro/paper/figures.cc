#include "bench/macro/paper/figures.h"

namespace pulse::bench {

nlohmann::json ToJson(const Quantity& quantity) {
  nlohmann::json json = {{"metric", quantity.metric}, {"of", quantity.of}};
  if (!quantity.over.empty()) json["over"] = quantity.over;
  if (quantity.points) json["points"] = true;
  return json;
}

nlohmann::json ToJson(const PaperValue& value) {
  nlohmann::json json = {
      {"what", value.what}, {"where", value.where}, {"ours", ToJson(value.ours)}};
  if (!value.row.empty()) json["row"] = value.row;
  if (value.IsRange()) {
    json["least"] = value.least;
    json["most"] = value.most;
  } else {
    json["value"] = value.least;
  }
  return json;
}

nlohmann::json PaperJson(const std::vector<std::string>& figures,
                         const std::vector<PaperValue>& values, const std::string& differs) {
  nlohmann::json paper = {{"figures", figures}, {"values", nlohmann::json::array()}};
  for (const PaperValue& value : values) paper["values"].push_back(ToJson(value));
  if (!differs.empty()) paper["differs"] = differs;
  return paper;
}

}  // namespace pulse::bench
