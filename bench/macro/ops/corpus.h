// What `pulse bench ops` works on: files of a directory, or files that are made from a seed, of the
// kinds that the co-processing paper's corpus has; and records for its queries. Main thread only;
// reading blocks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::bench {

struct CorpusFile {
  std::string name;
  std::string data;
};

// The regular files of `directory`, by name, at most `most_bytes` of each; what is compressed by
// bzip2, and so would show another thing, is refused by name. Without a directory: made.
absl::StatusOr<std::vector<CorpusFile>> LoadCorpus(const std::string& directory,
                                                   uint64_t most_bytes, uint64_t seed);

// About `bytes` of lines as the paper's accident descriptions: its queries' templates with places
// filled in, among others that match none of them.
std::string MakeAccidents(uint64_t bytes, uint64_t seed);

struct Query {
  std::string name;  // "Q1"
  std::string rule;
};
// Table 4 of the paper.
const std::vector<Query>& PaperQueries();

}  // namespace pulse::bench
