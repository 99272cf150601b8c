// One line of `pulse doctor`: what was looked at, what was found, and the remedy. The checks change
// nothing on the machine, apart from a nameless probe file in the database directory.
#pragma once

#include <sys/statvfs.h>

#include <string>
#include <vector>

namespace pulse {
struct DsaPaths;
}

namespace pulse::doctor {

// kWarn: PulseDB works, with less than it could have. kFail: it does not work.
enum class Verdict { kOk, kWarn, kFail };

struct Check {
  Verdict verdict = Verdict::kOk;
  std::string name;
  std::string found;
  std::string remedy;  // empty when the verdict is kOk
};

using Checks = std::vector<Check>;

inline Check Ok(std::string name, std::string found) {
  return {Verdict::kOk, std::move(name), std::move(found), ""};
}
inline Check Warn(std::string name, std::string found, std::string remedy) {
  return {Verdict::kWarn, std::move(name), std::move(found), std::move(remedy)};
}
inline Check Fail(std::string name, std::string found, std::string remedy) {
  return {Verdict::kFail, std::move(name), std::move(found), std::move(remedy)};
}

// Kernel, processors, process_vm_readv, locked memory, open files, huge pages.
Checks CheckSystem();

// What single services can use: of `pulse kv` a tmpfs, datagrams, connections; of `pulse filter`
// its engine, of `pulse compress` the module for DPDK's devices.
Checks CheckServices();
Check CheckMemoryFiles(const std::string& dir);

// What other programs and libraries give: libcurl for `pulse kv --etcd`, nbdkit with the plug-in, a
// JVM for the Java package. `path` as in PATH; `java_home` as in JAVA_HOME, empty where it is not
// set; `temp`: java.io.tmpdir; `stat_vfs`: another one in tests. Runs none of them.
Checks CheckPrograms();
Check CheckEtcdClient();
Check CheckNbd(const std::string& path, const std::vector<std::string>& plugin_dirs);
using StatVfs = int (*)(const char* path, struct statvfs* result);
Checks CheckJava(const std::string& path, const std::string& java_home, const std::string& temp,
                 StatVfs stat_vfs = &statvfs);

// Of `pulse graph`: Intel's DSA; and the directory of a database, which need not be there yet.
Check CheckDsa(const DsaPaths& paths);
Checks CheckGraph(const std::string& dir);

// Whether io_uring is allowed here and which of the operations we use it has.
Checks CheckIoUring();

// The RocksDB that this program was built for against the one it runs with.
Checks CheckRocksDb();

// The directory that will hold the database (or already does).
Checks CheckDirectory(const std::string& dir);

// Whether an agent listens on the Unix socket `path` and would take a host of this user and
// version. Takes a session for a moment; waits a few seconds at most.
Checks CheckAgentSocket(const std::string& path);

// layout=pool: a pool, of which one that is in use is not read; and what the guard of a database
// says, if it has one.
Checks CheckPool(const std::string& path);
Checks CheckGuard(const std::string& dir);

// The first line of a small text file, without its newline; empty when it cannot be read.
std::string FirstLineOf(const std::string& path);

}  // namespace pulse::doctor
