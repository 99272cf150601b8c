// What tests of recorded histories share. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "checker.h"
#include "redis_load.h"

namespace pulse::linear {

inline std::mt19937_64& Seeds() {
  static std::mt19937_64 seeds(testing_util::TestSeed());
  return seeds;
}

// The load on single keys of an in-memory store.
inline LoadOptions SingleKeys(uint16_t port, int protocol = 2) {
  LoadOptions options;
  options.seed = Seeds()();
  options.port = port;
  options.prefix = absl::StrCat("k", options.seed % 1000, "-");
  options.clients = 6;
  options.protocol = protocol;
  return options;
}

// A directory that goes with the object, for a database, logs and sockets, whose paths are short.
class Directory {
 public:
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "pulse-history-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Directory() {
    std::error_code ignored;
    if (!testing::Test::HasFailure()) std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const char* name) const { return absl::StrCat(path_, "/", name); }

 private:
  std::string path_;
};

// What one wants to know of a server, on a connection of its own.
class Control {
 public:
  explicit Control(uint16_t port, const std::string& password = "") {
    EXPECT_TRUE(connection_.Open(port));
    if (!password.empty()) {
      EXPECT_EQ(connection_.Ask({"AUTH", password}), "+OK\r\n");
    }
  }
  std::string Ask(const std::vector<std::string_view>& words) { return connection_.Ask(words); }
  // A number of INFO's section on offloading; none while the host is away.
  std::optional<uint64_t> Info(const std::string& name) {
    const std::string info = connection_.Ask({"INFO", "offload"});
    const size_t at = info.find(absl::StrCat("\n", name, ":"));
    if (at == std::string::npos) return std::nullopt;
    return strtoull(info.c_str() + at + name.size() + 2, nullptr, 10);
  }

 private:
  RedisConnection connection_;
};

// The load's next `count` answers. False: they do not come.
template <class Load>
bool Answers(const Load& load, uint64_t count) {
  const uint64_t until = load.answered() + count;
  return testing_util::Eventually([&] { return load.answered() >= until; });
}

inline void ExpectLinearizable(const RedisLoad& load) {
  for (const std::string& reply : load.surprises()) ADD_FAILURE() << reply;
  const History history = load.history();
  size_t operations = 0;
  for (const auto& [key, ops] : history) operations += ops.size();
  const Verdict verdict = Check(history);
  EXPECT_TRUE(verdict.ok()) << verdict.report;
  printf(
      "  %zu operations, %llu commands answered, %llu of them reads; %llu outcomes not known, "
      "%llu refused, %llu connections lost\n",
      operations, static_cast<unsigned long long>(load.answered()),
      static_cast<unsigned long long>(load.reads()),
      static_cast<unsigned long long>(load.unknown()),
      static_cast<unsigned long long>(load.refused()),
      static_cast<unsigned long long>(load.lost()));
  fflush(stdout);
}

// Runs `body` once, or for PULSE_TEST_MINUTES.
template <typename Body>
void ForMinutes(Body body) {
  const char* text = getenv("PULSE_TEST_MINUTES");
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::minutes(text == nullptr ? 0 : atoi(text));
  do {
    body();
  } while (std::chrono::steady_clock::now() < until && !testing::Test::HasFailure());
}

}  // namespace pulse::linear
