// The report as Markdown, with plots as SVG files beside it: a light and a dark one each, between
// which a <picture> chooses. Plain computation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/paper/report.h"

namespace pulse::bench {

struct MarkdownReport {
  std::string text;
  // Name and contents of each plot.
  std::vector<std::pair<std::string, std::string>> plots;
};

// `folder` is how the text names the folder of the plots.
MarkdownReport RenderMarkdown(const Report& report, const std::string& folder);

// Between these two lines of a document is what the program writes; all else is its author's.
inline constexpr char kMarkdownBegin[] = "<!-- pulse bench paper: begin -->";
inline constexpr char kMarkdownEnd[] = "<!-- pulse bench paper: end -->";

// `document` with `text` between the markers. FailedPrecondition, with the remedy, unless each is
// there once, on a line of its own, in this order; `name` is the document's.
absl::StatusOr<std::string> ReplaceBetweenMarkers(const std::string& document,
                                                  const std::string& text, const std::string& name);

}  // namespace pulse::bench
