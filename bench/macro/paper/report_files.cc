#include "bench/macro/paper/report_files.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/paper/report_html.h"
#include "bench/macro/paper/report_markdown.h"
#include "bench/macro/paper/report_remote.h"

namespace pulse::bench {
namespace {

namespace fs = std::filesystem;

absl::Status WriteWhole(const std::string& file, const std::string& text) {
  const std::string part = file + ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  if (!out || std::rename(part.c_str(), file.c_str()) != 0) {
    std::remove(part.c_str());
    return absl::UnavailableError(absl::StrCat("writing the report to ", file,
                                               " failed; make room, or choose another place"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadWhole(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in && !in.eof()) return absl::UnavailableError(absl::StrCat("cannot read ", file));
  return text;
}

std::string NewDocument() {
  return absl::StrCat("# Results\n\n", kMarkdownBegin, "\n", kMarkdownEnd, "\n");
}

absl::StatusOr<std::string> Document(const std::string& file) {
  std::error_code ec;
  if (!fs::exists(file, ec)) return NewDocument();
  if (!fs::is_regular_file(file, ec)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--markdown ", file, ": this is no file; give the name of a document"));
  }
  return ReadWhole(file);
}

absl::Status RemoveOldPlots(const fs::path& folder, const MarkdownReport& now) {
  std::set<std::string> names;
  for (const auto& [name, contents] : now.plots) names.insert(name);
  std::error_code ec;
  std::vector<fs::path> old;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string name = it->path().filename().string();
    const bool plot = absl::EndsWith(name, "-light.svg") || absl::EndsWith(name, "-dark.svg");
    if (plot && names.count(name) == 0) old.push_back(it->path());
  }
  for (const fs::path& path : old) {
    fs::remove(path, ec);
    if (ec) return ErrnoError(ec.value(), "removing the old plot", path.string());
  }
  return absl::OkStatus();
}

}  // namespace

void LoadResults(const std::string& out, std::vector<ReportEntry>* entries) {
  for (ReportEntry& entry : *entries) {
    const bool remote = !entry.benchmark.empty();
    const std::string file = absl::StrCat(out, "/", remote ? entry.benchmark : entry.name, ".json");
    std::ifstream in(file);
    if (!in) continue;
    nlohmann::json result = nlohmann::json::parse(in, nullptr, false);
    if (remote) {
      if (IsRemoteResult(entry, result)) {
        entry.result = std::move(result);
      } else {
        entry.problem = absl::StrCat(file, " is no result of pulse bench ", entry.benchmark);
      }
      continue;
    }
    if (!result.is_object() || !result.contains("rows") ||
        TextIn(result, "experiment") != entry.name) {
      entry.problem = absl::StrCat(file, " is no result of ", entry.name);
      continue;
    }
    const nlohmann::json& rows = result["rows"];
    if (rows.is_null() || (rows.is_array() && rows.empty())) {
      entry.problem = absl::StrCat(file, " has no rows");
      continue;
    }
    entry.result = std::move(result);
  }
}

absl::Status WriteHtml(const std::string& out, const Report& report) {
  return WriteWhole(out + "/report.html", RenderHtml(report));
}

absl::Status CheckMarkdown(const std::string& file) {
  const auto document = Document(file);
  if (!document.ok()) return document.status();
  return ReplaceBetweenMarkers(*document, "", file).status();
}

absl::Status WriteMarkdown(const std::string& file, const Report& report) {
  const auto document = Document(file);
  if (!document.ok()) return document.status();
  const fs::path path(file);
  const std::string folder_name = path.stem().string() + "-plots";
  const fs::path folder = path.parent_path() / folder_name;
  const MarkdownReport markdown = RenderMarkdown(report, folder_name);
  const auto text = ReplaceBetweenMarkers(*document, markdown.text, file);
  if (!text.ok()) return text.status();
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec) return ErrnoError(ec.value(), "creating the folder of the plots", folder.string());
  for (const auto& [name, contents] : markdown.plots) {
    PULSE_RETURN_IF_ERROR(WriteWhole((folder / name).string(), contents));
  }
  PULSE_RETURN_IF_ERROR(WriteWhole(file, *text));
  return RemoveOldPlots(folder, markdown);
}

}  // namespace pulse::bench
