#include "apps/pulse/util/command_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pulse {
namespace {

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// How many letters are to be added, removed or replaced.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

// With the one of them that the word may stand for, if there is such a one.
std::string Known(std::string_view word, const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  std::string closest;
  size_t least = 3;  // as many letters as may be wrong, and one
  for (const CLI::App* command : commands) {
    names.push_back(command->get_name());
    const size_t distance = Distance(word, names.back());
    if (distance >= std::min(least, word.size())) continue;
    least = distance;
    closest = names.back();
  }
  return absl::StrCat(closest.empty() ? "" : absl::StrCat("did you mean ", closest, "? "),
                      "there are: ", absl::StrJoin(names, ", "));
}

}  // namespace

std::string CommandError(const CLI::App& app, int argc, const char* const* argv) {
  const CLI::App* at = &app;
  std::string path = app.get_name();
  for (int i = 1; at->get_require_subcommand_min() > 0; ++i) {
    const std::vector<const CLI::App*> commands = CommandsOf(*at);
    if (i >= argc) return absl::StrCat(path, ": expected a command; ", Known("", commands));
    const std::string word = argv[i];
    if (word.starts_with('-')) {
      // Such as --help, with which no command is needed.
      if (at->get_option_no_throw(word) != nullptr) return std::string();
      return absl::StrCat(path, ": there is no option '", word, "'; see ", path, " --help");
    }
    const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return command->get_name() == word;
    });
    if (found == commands.end()) {
      return absl::StrCat(path, ": there is no command '", word, "'; ", Known(word, commands));
    }
    at = *found;
    absl::StrAppend(&path, " ", word);
  }
  return std::string();
}

ErrorCodes ErrorCodesOf(const std::string& command) {
  // Scripts take 2 of gzip for a warning, and 1 of a filter for "nothing found", as of grep.
  if (command == "compress" || command == "decompress") return {1, 1};
  if (command == "filter") return {2, 2};
  return {2, 1};
}

}  // namespace pulse
