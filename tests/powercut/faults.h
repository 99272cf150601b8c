// Faults that the simulated disk injects, and how positions in a trace are named: the n-th call of
// one kind on one kind of file. Such a position means the same in every run of a trace, and on
// stock RocksDB as on the plug-in, though threads interleave differently.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

namespace pulse::powercut {

enum class Call : uint8_t {
  kCreate,  // open with O_CREAT
  kOpen,    // any other
  kRead,
  kWrite,
  kTruncate,
  kAllocate,
  kRangeSync,
  kSync,
  kClose,
  kRename,
  kLink,
  kUnlink,
  kMakeDir,
  kDuplicate,
};
inline constexpr int kCalls = 14;

enum class FileClass : uint8_t {
  kTable,
  kBlob,
  kWal,
  kManifest,
  kCurrent,  // and the *.dbtmp that becomes it
  kOptions,
  kDirectory,
  kPool,  // the store that tables are in, with layout=pool
  kOther,
};
inline constexpr int kFileClasses = 9;

FileClass ClassOf(std::string_view file_name);
const char* NameOf(Call call);
const char* NameOf(FileClass file_class);

struct Position {
  Call call = Call::kWrite;
  FileClass file_class = FileClass::kTable;
  int nth = 1;  // from 1

  std::string ToString() const;
  bool operator<(const Position& o) const {
    return std::tie(call, file_class, nth) < std::tie(o.call, o.file_class, o.nth);
  }
};

enum class Effect : uint8_t {
  kNone,
  kError,  // fails with `err`; nothing happens to the file (close closes all the same)
  kShort,  // reads and writes transfer half, in whole sectors where there is one
  kDelay,  // succeeds, late
};

struct Fault {
  Position at;
  Effect effect = Effect::kNone;
  int err = 0;
  // How many calls of the kind it strikes, from the n-th on.
  int calls = 1;

  std::string ToString() const;
};

}  // namespace pulse::powercut
