#include "bench/macro/result_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

nlohmann::json ProgramIn(const nlohmann::json& result) {
  nlohmann::json program = nlohmann::json::object();
  for (const char* key : {"pulse_version", "revision"}) {
    if (result.contains(key)) program[key] = result[key];
  }
  return program;
}

}  // namespace

bool NamesNoCommit(const std::string& revision) {
  return revision == "unknown" || absl::EndsWith(revision, "-dirty");
}

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
  const nlohmann::json& rows = there["rows"];
  if (rows.is_null() || (rows.is_array() && rows.empty())) return {};
  if (!rows.is_array()) {
    found.differences.push_back("its rows are none");
    return found;
  }
  if (there.value("experiment", nlohmann::json()) != identity.at("experiment")) {
    found.differences.push_back("it is of another experiment");
    return found;
  }
  Compare(there["settings"], identity.at("settings"), &found.differences);
  Compare(there["machine"], identity.at("machine"), &found.differences);
  if (is_object("storage") && identity.contains("storage")) {
    Compare(there["storage"], identity.at("storage"), &found.differences);
  }
  const bool same = found.differences.empty();
  Compare(ProgramIn(there), ProgramIn(identity), &found.differences);
  if (same) {
    found.kind =
        found.differences.empty() ? EarlierResult::Kind::kSame : EarlierResult::Kind::kOlder;
  }
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

RowLog::RowLog(std::string file, nlohmann::json identity)
    : file_(std::move(file)),
      identity_(std::make_unique<nlohmann::json>(std::move(identity))),
      rows_(std::make_unique<nlohmann::json>(nlohmann::json::array())) {}
RowLog::~RowLog() = default;
RowLog::RowLog(RowLog&&) noexcept = default;

std::string RowLog::TakeUp(bool keep_older) {
  const EarlierResult found = FindResult(file_, *identity_);
  if (found.kind == EarlierResult::Kind::kNone) {
    std::error_code ec;
    if (!std::filesystem::exists(file_, ec)) return "";
    return "was interrupted before its first row was done; begins again, as the runs of a row are "
           "compared with each other";
  }
  if (found.kind != EarlierResult::Kind::kSame) {
    return absl::StrCat("an interrupted run cannot go on (", absl::StrJoin(found.differences, "; "),
                        "): it begins again");
  }
  const std::string revision = identity_->value("revision", "unknown");
  if (!keep_older && NamesNoCommit(revision)) {
    return absl::StrCat("an interrupted run cannot go on (revision \"", revision,
                        "\" may be another source each time): it begins again; --keep-older "
                        "goes on with it");
  }
  std::ifstream in(file_);
  *rows_ = nlohmann::json::parse(in, nullptr, false)["rows"];
  std::vector<std::string> labels;
  for (const nlohmann::json& row : *rows_) {
    labels.push_back(row.is_object() ? row.value("label", "") : "");
  }
  return absl::StrCat("goes on where it was interrupted; done before: ",
                      absl::StrJoin(labels, ", "));
}

bool RowLog::Has(const std::string& label) const {
  return std::any_of(rows_->begin(), rows_->end(), [&label](const nlohmann::json& row) {
    return row.is_object() && row.contains("label") && row["label"] == label;
  });
}

absl::Status RowLog::Add(nlohmann::json row) {
  std::vector<nlohmann::json> one;
  one.push_back(std::move(row));
  return AddAll(one);
}

absl::Status RowLog::AddAll(const std::vector<nlohmann::json>& more) {
  for (const nlohmann::json& row : more) rows_->push_back(row);
  return Begin();
}

absl::Status RowLog::Begin() const {
  nlohmann::json part = *identity_;
  part["rows"] = *rows_;
  return WriteResult(file_, part);
}

void RowLog::Forget() const { std::remove(file_.c_str()); }

RedoLog::RedoLog(std::string file, const nlohmann::json& identities)
    : file_(std::move(file)),
      names_no_commit_(std::any_of(identities.begin(), identities.end(),
                                   [](const nlohmann::json& identity) {
                                     return NamesNoCommit(identity.value("revision", "unknown"));
                                   })),
      command_(identities.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) {}

std::string RedoLog::TakeUp(bool keep_older) {
  std::ifstream in(file_);
  if (!in) return "";
  if (names_no_commit_ && !keep_older) {
    return "an interrupted --redo was of a revision that may be another source each time: all "
           "begins anew; --keep-older goes on with it";
  }
  const nlohmann::json there = nlohmann::json::parse(in, nullptr, false);
  const auto is = [&there](const char* key, nlohmann::json::value_t type) {
    return there.contains(key) && there[key].type() == type;
  };
  if (!there.is_object() || !is("command", nlohmann::json::value_t::string) ||
      !is("begun", nlohmann::json::value_t::array) || !(there["command"] == command_)) {
    return "an interrupted --redo was another one: all begins anew";
  }
  for (const nlohmann::json& name : there["begun"]) {
    if (name.is_string()) begun_.push_back(name.get<std::string>());
  }
  return absl::StrCat("an interrupted --redo goes on; begun anew before: ",
                      absl::StrJoin(begun_, ", "));
}

bool RedoLog::Begun(const std::string& experiment) const {
  return std::find(begun_.begin(), begun_.end(), experiment) != begun_.end();
}

absl::StatusOr<std::string> RedoLog::Begin(const std::string& experiment,
                                           const std::string& result_file) {
  const std::string old = result_file + ".old";
  const bool moved = std::rename(result_file.c_str(), old.c_str()) == 0;
  if (!moved && errno != ENOENT) return ErrnoError(errno, "moving aside", result_file);
  // After that: until it is written, the experiment has not begun anew.
  begun_.push_back(experiment);
  PULSE_RETURN_IF_ERROR(WriteResult(file_, {{"command", command_}, {"begun", begun_}}));
  return moved ? absl::StrCat("its earlier result is now ", old) : std::string();
}

void RedoLog::Forget() const { std::remove(file_.c_str()); }

}  // namespace pulse::bench
