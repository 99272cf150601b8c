// Logs to compare engines on: those of the folder PULSE_TEST_LOGS, or, without it, logs that are
// made in the shapes that real ones have. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pulse::filter {

struct LogFile {
  std::string name;
  std::string block;
};

// System log, web server, storage service, and an application with stack traces: few shapes of
// lines, whose numbers, addresses and names vary; some lines end with a carriage return, are empty,
// very long, or no UTF-8.
inline std::vector<LogFile> MakeLogs(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](uint64_t n) { return random() % n; };
  const auto one_of = [&](const std::vector<const char*>& all) { return all[pick(all.size())]; };
  const auto address = [&] {
    return absl::StrCat("10.", pick(4), ".", pick(256), ".", pick(256), ":", 1024 + pick(60000));
  };
  std::vector<LogFile> logs = {{"system", ""}, {"web", ""}, {"storage", ""}, {"application", ""}};
  for (uint64_t i = 0; i < 1500; ++i) {
    const std::string time = absl::StrFormat("%02d:%02d:%02d", i / 600 % 24, i / 10 % 60, i % 60);
    absl::StrAppend(
        &logs[0].block, one_of({"Jun", "Jul"}), " ", 1 + pick(30), " ", time, " combo ",
        one_of({"sshd(pam_unix)", "kernel", "su", "ftpd", "cron"}), "[", pick(32768), "]: ",
        one_of({"authentication failure; logname= uid=0 euid=0 tty=NODEVssh ruser= rhost=",
                "session opened for user ", "connection from ", "Out of Memory: Killed process "}),
        pick(2) == 0 ? address() : one_of({"root", "guest", "cyrus", "J\xc3\xbcrgen"}), "\n");
    absl::StrAppend(&logs[1].block, address(), " - - [27/Nov/2026:", time, " +0000] \"",
                    one_of({"GET", "POST", "HEAD"}), " /",
                    one_of({"index.html", "api/v1/items/", "%e9"}), pick(1000), " HTTP/1.1\" ",
                    one_of({"200", "304", "404", "503"}), " ", pick(100000),
                    " \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"", pick(10) == 0 ? "\r\n" : "\n");
    absl::StrAppend(&logs[2].block, "081109 ", 203000 + i, " ", pick(40),
                    one_of({" INFO dfs.DataNode$PacketResponder: ", " WARN dfs.FSNamesystem: ",
                            " INFO dfs.DataNode$DataXceiver: "}),
                    one_of({"Received block blk_", "PacketResponder 1 for block blk_-",
                            "BLOCK* NameSystem.addStoredBlock: blockMap updated: blk_"}),
                    random(), " of size ", pick(67108864), " from /", address(), "\n");
    absl::StrAppend(&logs[3].block, "2026-11-27T", time, "Z\t", one_of({"INFO", "WARN", "ERROR"}),
                    "\trequest_id=", absl::Hex(random(), absl::kZeroPad16),
                    "\t{\"user\": ", pick(500), ", \"took_ms\": ", pick(9000), "}\n");
    switch (pick(40)) {
      case 0:
        absl::StrAppend(&logs[3].block, "java.io.IOException: Broken pipe\n\tat sun.nio.ch.write(",
                        "Native Method)\n\t... ", pick(30), " more\n");
        break;
      case 1:
        logs[3].block += "\n";
        break;
      case 2:
        absl::StrAppend(&logs[3].block, "DEBUG payload \xff\xfe", std::string(pick(5000), 'A'),
                        "\n");
        break;
    }
  }
  logs[3].block.pop_back();  // the last line has no newline
  return logs;
}

inline std::vector<LogFile> TestLogs(uint64_t seed) {
  const char* folder = std::getenv("PULSE_TEST_LOGS");
  if (folder == nullptr) return MakeLogs(seed);
  std::vector<LogFile> logs;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    logs.push_back({entry.path(), std::string(std::istreambuf_iterator<char>(file), {})});
  }
  EXPECT_FALSE(logs.empty()) << "PULSE_TEST_LOGS=" << folder << " has no files";
  return logs;
}

}  // namespace pulse::filter
