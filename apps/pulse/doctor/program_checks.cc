// What other programs and libraries give PulseDB: libcurl for --etcd, nbdkit with the plug-in, a
// JVM for RocksJava. Nobody needs all of them: what is not there at all is no shortcoming.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "apps/pulse/doctor/check.h"
#include "fmt/format.h"
#include "services/kv/etcd/http_client.h"

namespace pulse::doctor {
namespace {

namespace fs = std::filesystem;

// As the shell finds it; empty where it is in no directory of `path`.
std::string FindProgram(const std::string& path, const std::string& name) {
  for (const std::string& directory : std::vector<std::string>(absl::StrSplit(path, ':'))) {
    if (directory.empty()) continue;
    std::string program = fmt::format("{}/{}", directory, name);
    std::error_code error;
    if (fs::is_regular_file(program, error) && access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

// JAVA_VERSION="..." in a JDK's file `release`.
std::string VersionOf(const std::string& home) {
  constexpr absl::string_view kKey = "JAVA_VERSION=\"";
  std::ifstream file(home + "/release");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, kKey)) continue;
    return line.substr(kKey.size(), line.find('"', kKey.size()) - kKey.size());
  }
  return "";
}

// 17 of "17.0.15"; 8 of "1.8.0_402"; 0 of what is no version.
int MajorOf(absl::string_view version) {
  version = absl::StripPrefix(version, "1.");
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

}  // namespace

Check CheckEtcdClient() {
  const char* const name = "kv: --etcd";
  // Opens no connection.
  const auto client = kv::HttpClient::Open("http://127.0.0.1:2379");
  if (client.ok()) return Ok(name, "libcurl loads");
  return Warn(name, std::string(client.status().message()),
              "install libcurl (Debian's package libcurl4), or do without --etcd");
}

Check CheckNbd(const std::string& path, const std::vector<std::string>& plugin_dirs) {
  const char* const name = "files: NBD";
  const std::string nbdkit = FindProgram(path, "nbdkit");
  if (nbdkit.empty()) return Ok(name, "nbdkit is not installed; not needed");
  for (const std::string& dir : plugin_dirs) {
    const std::string plugin = dir + "/nbdkit-pulse-plugin.so";
    if (access(plugin.c_str(), R_OK) == 0)
      return Ok(name, fmt::format("{} with {}", nbdkit, plugin));
  }
  return Warn(name, fmt::format("{} is there, and its plug-in for PulseDB is not", nbdkit),
              "build PulseDB where nbdkit-plugin-dev is installed, or install the package pulsedb");
}

Checks CheckJava(const std::string& path, const std::string& java_home, const std::string& temp,
                 StatVfs stat_vfs) {
  const char* const name = "java: JVM";
  const std::string java =
      java_home.empty() ? FindProgram(path, "java") : FindProgram(java_home + "/bin", "java");
  if (java.empty()) {
    if (java_home.empty()) return {Ok(name, "java is not installed; not needed")};
    return {Warn(name, fmt::format("JAVA_HOME={} has no bin/java", java_home),
                 "set JAVA_HOME to a JDK of version 11 or newer, or unset it")};
  }
  Checks checks;
  std::error_code error;
  const fs::path real = fs::canonical(java, error);
  const std::string home = error ? "" : real.parent_path().parent_path().string();
  const std::string version = VersionOf(home);
  if (const int major = MajorOf(version); major == 0) {
    checks.push_back(Warn(name, fmt::format("{}: {}/release names no version", java, home),
                          "see that `java -version` says 11 or newer"));
  } else if (major < 11) {
    checks.push_back(Warn(name, fmt::format("{} is of version {}", java, version),
                          "install a JDK of version 11 or newer: pulsedb-rocksdb.jar needs it"));
  } else {
    checks.push_back(Ok(name, fmt::format("{}, version {}", java, version)));
  }
  const char* const unpacked = "java: java.io.tmpdir";
  struct statvfs system {};
  const char* const remedy =
      "run Java with -Djava.io.tmpdir=DIR on a file system that may execute, or with "
      "-Dpulsedb.library.path=DIR of the jar's libraries";
  if (stat_vfs(temp.c_str(), &system) != 0) {
    checks.push_back(Warn(unpacked, fmt::format("{}: {}", temp, strerror(errno)), remedy));
  } else if ((system.f_flag & ST_NOEXEC) != 0) {
    checks.push_back(Warn(
        unpacked, temp + " is mounted noexec: the jar's libraries cannot be loaded there", remedy));
  } else if (access(temp.c_str(), W_OK) != 0) {
    checks.push_back(Warn(unpacked, fmt::format("{}: {}", temp, strerror(errno)), remedy));
  } else {
    checks.push_back(Ok(unpacked, temp + " may hold the jar's libraries"));
  }
  return checks;
}

Checks CheckPrograms() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string prefix = error ? "" : self.parent_path().parent_path().string();
  Checks checks = {
      CheckEtcdClient(),
      CheckNbd(variable("PATH"), {prefix + "/lib", prefix + "/lib/nbdkit/plugins",
                                  prefix + "/lib/x86_64-linux-gnu/nbdkit/plugins",
                                  prefix + "/lib/aarch64-linux-gnu/nbdkit/plugins",
                                  "/usr/lib/x86_64-linux-gnu/nbdkit/plugins",
                                  "/usr/lib/aarch64-linux-gnu/nbdkit/plugins",
                                  "/usr/lib/nbdkit/plugins", "/usr/lib64/nbdkit/plugins"})};
  // Where the JVM unpacks to, unless it is told otherwise; it takes no notice of TMPDIR.
  for (Check& check : CheckJava(variable("PATH"), variable("JAVA_HOME"), "/tmp")) {
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace pulse::doctor
