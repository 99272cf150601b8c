#include "bench/macro/ops/corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace pulse::bench {
namespace {

constexpr size_t kWords = 4000;

// Words whose lengths and frequencies are like a language's.
class Text {
 public:
  explicit Text(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < kWords; ++i) {
      std::string word;
      const uint64_t letters = 2 + random_() % 4 + random_() % 5;
      for (uint64_t n = 0; n < letters; ++n) {
        word.push_back("etaoinshrdlucmfwygpbvk"[(random_() % 22) * (random_() % 22) / 22]);
      }
      words_.push_back(std::move(word));
    }
  }
  const std::string& Word() {
    const double u = static_cast<double>(random_() >> 11) * 0x1p-53;
    return words_[static_cast<size_t>(u * u * u * static_cast<double>(kWords))];
  }
  uint64_t Number(uint64_t below) { return random_() % below; }

 private:
  std::mt19937_64 random_;
  std::vector<std::string> words_;
};

std::string Prose(uint64_t bytes, uint64_t seed) {
  Text text(seed);
  std::string data;
  while (data.size() < bytes) {
    absl::StrAppend(&data, text.Word(), text.Number(12) == 0 ? ".\n" : " ");
  }
  return data;
}

std::string Markup(uint64_t bytes, uint64_t seed) {
  Text text(seed);
  std::string data;
  while (data.size() < bytes) {
    absl::StrAppend(&data, "<record id=\"", text.Number(1000000), "\"><name>", text.Word(), " ",
                    text.Word(), "</name><value unit=\"mm\">", text.Number(5000),
                    "</value></record>\n");
  }
  return data;
}

// As of an executable: runs of similar words, tables, padding.
std::string Binary(uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string data;
  while (data.size() < bytes) {
    const uint64_t kind = random() % 4;
    const uint64_t base = random();
    for (uint64_t i = 0; i < 200 + random() % 800; ++i) {
      const uint64_t word = kind == 0   ? 0
                            : kind == 1 ? base + i * 16
                            : kind == 2 ? (base & 0xffff00ffff) | (random() & 0xff0000)
                                        : random();
      data.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
  }
  return data;
}

// As of an image: each sample near the one before it.
std::string Image(uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string data;
  int64_t level = 2000;
  while (data.size() < bytes) {
    level = std::clamp<int64_t>(level + static_cast<int64_t>(random() % 41) - 20, 0, 4095);
    data.push_back(static_cast<char>(level & 0xff));
    data.push_back(static_cast<char>(level >> 8));
  }
  return data;
}

}  // namespace

absl::StatusOr<std::vector<CorpusFile>> LoadCorpus(const std::string& directory,
                                                   uint64_t most_bytes, uint64_t seed) {
  std::vector<CorpusFile> files;
  if (directory.empty()) {
    // Sizes differ as those of the paper's corpus do.
    files.push_back({"prose", Prose(most_bytes, seed)});
    files.push_back({"markup", Markup(most_bytes / 2, seed + 1)});
    files.push_back({"binary", Binary(most_bytes * 3 / 4, seed + 2)});
    files.push_back({"image", Image(most_bytes / 3, seed + 3)});
    return files;
  }
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) paths.push_back(entry.path());
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("--corpus ", directory, ": ", error.message(), "; name a directory of files"));
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    std::string data(most_bytes, '\0');
    in.read(data.data(), static_cast<std::streamsize>(data.size()));
    if (in.bad() || (in.gcount() == 0 && !in.eof())) {
      return absl::UnavailableError(absl::StrCat("reading ", path.string(), " failed"));
    }
    data.resize(static_cast<size_t>(in.gcount()));
    if (absl::StartsWith(data, "BZh")) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), " is compressed; unpack it: bunzip2 --keep"));
    }
    if (!data.empty()) files.push_back({path.filename().string(), std::move(data)});
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--corpus ", directory, ": no files in it"));
  }
  return files;
}

std::string MakeAccidents(uint64_t bytes, uint64_t seed) {
  Text text(seed);
  std::string data;
  const auto place = [&] { return absl::StrCat("I-", 1 + text.Number(99), " ", text.Word()); };
  while (data.size() < bytes) {
    switch (text.Number(8)) {
      case 0:
        absl::StrAppend(&data, "At ", place(), " Exit ", text.Number(300), " - Accident.\n");
        break;
      case 1:
        absl::StrAppend(&data, "Accident on ", place(), " at Exit ", text.Number(300), " ",
                        text.Word(), ".\n");
        break;
      case 2:
        absl::StrAppend(&data, "Lane blocked on ", place(), " at ", text.Word(), ".\n");
        break;
      case 3:
        absl::StrAppend(&data, "Ramp to ", place(), ": ", text.Word(), ".\n");
        break;
      default:
        absl::StrAppend(&data, text.Word(), " ", text.Word(), " slow traffic ", text.Word(), " ",
                        text.Word(), " between ", place(), " and ", place(), ".\n");
    }
  }
  return data;
}

const std::vector<Query>& PaperQueries() {
  static const std::vector<Query> queries = {{"Q1", "At (.+)Exit (.+)"},
                                             {"Q2", "(.+) on (.+) at Exit (.+)"},
                                             {"Q3", "on (.+) at (.+)"},
                                             {"Q4", "Ramp to (.+)"}};
  return queries;
}

}  // namespace pulse::bench
