#include "powercut/faults.h"

#include <cerrno>
#include <cstring>

namespace pulse::powercut {

FileClass ClassOf(std::string_view name) {
  if (name.ends_with(".sst")) return FileClass::kTable;
  if (name.ends_with(".blob")) return FileClass::kBlob;
  if (name.ends_with(".log")) return FileClass::kWal;
  if (name.starts_with("MANIFEST-")) return FileClass::kManifest;
  if (name == "CURRENT" || name.ends_with(".dbtmp")) return FileClass::kCurrent;
  if (name.starts_with("OPTIONS-")) return FileClass::kOptions;
  if (name == "pool") return FileClass::kPool;
  return FileClass::kOther;
}

const char* NameOf(Call call) {
  static constexpr const char* kNames[kCalls] = {
      "create", "open",  "read",   "write", "truncate", "allocate", "range_sync",
      "sync",   "close", "rename", "link",  "unlink",   "mkdir",    "dup"};
  return kNames[static_cast<int>(call)];
}

const char* NameOf(FileClass file_class) {
  static constexpr const char* kNames[kFileClasses] = {
      "table", "blob", "wal", "manifest", "current", "options", "directory", "pool", "other"};
  return kNames[static_cast<int>(file_class)];
}

std::string Position::ToString() const {
  return std::string(NameOf(call)) + " of " + NameOf(file_class) + " #" + std::to_string(nth);
}

std::string Fault::ToString() const {
  std::string what;
  switch (effect) {
    case Effect::kNone:
      return "no fault";
    case Effect::kError:
      what = strerrorname_np(err);
      break;
    case Effect::kShort:
      what = "short";
      break;
    case Effect::kDelay:
      what = "delay";
      break;
  }
  return what + " at " + at.ToString() + (calls > 1 ? " and later" : "");
}

}  // namespace pulse::powercut
