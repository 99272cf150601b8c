// Parsing of "scheme://PATH?key=value&key=value", the form in which every option reaches PulseDB.
// Keys are checked against the reader's own list, so that an unknown one is refused by name.
// Thread-safe, never blocks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse {

struct ParsedUri {
  std::string scheme;
  std::string path;
  std::map<std::string, std::string> options;
};

// Splits a URI. InvalidArgument for a missing "://", an option without "=", or a repeated key.
absl::StatusOr<ParsedUri> ParseUri(absl::string_view uri);

// Splits "key=value&key=value" alone (no "?"), as found in environment variables.
absl::StatusOr<std::map<std::string, std::string>> ParseOptionList(absl::string_view text);

// "32M", "1.5G", "4096", "64k" (powers of 1024) to bytes.
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// The same of a command's option, above 0 and at most `most`. Errors name `option`.
absl::StatusOr<uint64_t> ParseSizeOption(absl::string_view option, absl::string_view text,
                                         uint64_t most);

// Reads typed options out of a map and remembers the first error. Each Read* leaves `*out` alone
// when the key is absent. Finish() refuses the keys that nobody read, naming the known ones.
class OptionReader {
 public:
  explicit OptionReader(std::map<std::string, std::string> options)
      : options_(std::move(options)) {}

  void ReadString(absl::string_view key, std::string* out);
  void ReadBytes(absl::string_view key, uint64_t min, uint64_t max, uint64_t* out);
  void ReadInt(absl::string_view key, int64_t min, int64_t max, int64_t* out);
  void ReadCpus(absl::string_view key, std::vector<int>* out);
  // `*out` becomes the index of the value in `names`.
  void ReadChoice(absl::string_view key, const std::vector<absl::string_view>& names, int* out);
  absl::Status Finish() const;

 private:
  const std::string* Take(absl::string_view key);
  void Fail(absl::string_view key, absl::string_view value, absl::string_view expected);

  std::map<std::string, std::string> options_;
  std::vector<std::string> known_;
  absl::Status status_;
};

}  // namespace pulse
