#include "bench/paper/result_files.h"

#include <cstdio>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

constexpr size_t kReadable = 120;

std::string Show(const nlohmann::json& object, const std::string& key) {
  const auto it = object.find(key);
  return it == object.end() ? "nothing" : it->dump();
}

void Compare(const nlohmann::json& there, const nlohmann::json& now,
             std::vector<std::string>* differences) {
  std::set<std::string> keys;
  for (const nlohmann::json* object : {&there, &now}) {
    for (const auto& [key, value] : object->items()) keys.insert(key);
  }
  for (const std::string& key : keys) {
    if (there.contains(key) && now.contains(key) && there[key] == now[key]) continue;
    const std::string was = Show(there, key), is = Show(now, key);
    // Lists of what follows from other settings say nothing.
    differences->push_back(was.size() + is.size() > kReadable
                               ? absl::StrCat(key, " differ")
                               : absl::StrCat(key, ": ", was, " there, ", is, " now"));
  }
}

}  // namespace

EarlierResult FindResult(const std::string& file, const nlohmann::json& identity) {
  std::ifstream in(file);
  if (!in) return {};
  EarlierResult found{EarlierResult::Kind::kOther, {}};
  const nlohmann::json there = nlohmann::json::parse(in, nullptr, false);
  const auto is_object = [&there](const char* key) {
    return there.contains(key) && there[key].is_object();
  };
  if (!there.is_object() || !is_object("settings") || !is_object("machine") ||
      !there.contains("rows")) {
    found.differences.push_back("it is no result of an experiment");
    return found;
  }
  if (there.value("experiment", nlohmann::json()) != identity.at("experiment")) {
    found.differences.push_back("it is of another experiment");
    return found;
  }
  Compare(there["settings"], identity.at("settings"), &found.differences);
  Compare(there["machine"], identity.at("machine"), &found.differences);
  if (found.differences.empty()) found.kind = EarlierResult::Kind::kSame;
  return found;
}

absl::Status WriteResult(const std::string& file, const nlohmann::json& result) {
  const std::string part = file + ".part";
  std::ofstream out(part);
  out << result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  if (!out || std::rename(part.c_str(), file.c_str()) != 0) {
    std::remove(part.c_str());
    return absl::UnavailableError(absl::StrCat("writing the result to ", file,
                                               " failed; make room, or choose another --out"));
  }
  return absl::OkStatus();
}

}  // namespace pulse::bench
