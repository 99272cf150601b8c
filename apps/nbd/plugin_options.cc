#include "apps/nbd/plugin_options.h"

#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/uri_options.h"

namespace pulse::nbd {
namespace {

constexpr uint32_t kMostSeconds = 24 * 3600;
constexpr char kKnown[] = "socket=, dir=, file=, size=, create=true, timeout=, readonly";

absl::Status ParseBool(absl::string_view key, absl::string_view value, bool* out) {
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (absl::EqualsIgnoreCase(value, yes)) return *out = true, absl::OkStatus();
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (absl::EqualsIgnoreCase(value, no)) return *out = false, absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(key, "=", value, ": expected ", key, "=true or ", key, "=false"));
}

absl::Status SetText(absl::string_view key, absl::string_view value, std::string* out) {
  if (value.empty()) return absl::InvalidArgumentError(absl::StrCat(key, "= is empty"));
  if (!out->empty()) return absl::InvalidArgumentError(absl::StrCat(key, "= is given twice"));
  *out = std::string(value);
  return absl::OkStatus();
}

}  // namespace

const char kPluginHelp[] =
    "socket=PATH      (required) Socket of the agent: pulse agent --socket PATH --store STORE.\n"
    "dir=NAME         (required) Directory in the store.\n"
    "file=NAME        File to export, also as the default export. Without it, each\n"
    "                 file of the directory is an export under its own name.\n"
    "create=true      Create the file, and its directory, if it is not there. Takes\n"
    "                 space for all of size= at once, so that no write runs out of it.\n"
    "size=SIZE        Size of the file to create, such as 1G (powers of 1024). A file\n"
    "                 that is there with another size is refused and left as it is.\n"
    "timeout=SECONDS  A request ends with EIO when the agent has shown no sign of life\n"
    "                 for so long; default 30, 0 waits for ever. An agent that is alive\n"
    "                 is waited for as long as its device takes.\n"
    "readonly         Refuse writes; as nbdkit -r.\n"
    "\n"
    "Flush and FUA wait until data and sizes are durable in the store, and cover all\n"
    "connections. If the agent ends, each request fails with EIO; clients that connect\n"
    "after it was started again are served, unless writes had been acknowledged that\n"
    "no flush had followed: then check the data, and start nbdkit again. After a\n"
    "timeout requests are refused with EIO until the agent has answered all that it\n"
    "was asked.";

absl::Status SetOption(absl::string_view key, absl::string_view value, PluginOptions* options) {
  if (key == "socket") {
    std::string path;
    if (absl::Status st = SetText(key, value, &path); !st.ok()) return st;
    // nbdkit changes to / when it goes into the background.
    std::error_code error;
    path = std::filesystem::absolute(path, error).string();
    if (error) {
      return absl::InvalidArgumentError(absl::StrCat("socket=", value, ": ", error.message()));
    }
    return SetText(key, path, &options->socket);
  }
  if (key == "dir") return SetText(key, value, &options->directory);
  if (key == "file") return SetText(key, value, &options->file);
  if (key == "create") return ParseBool(key, value, &options->create);
  if (key == "readonly") return ParseBool(key, value, &options->readonly);
  if (key == "size") {
    const auto size = ParseBytes(value);
    if (!size.ok() || *size == 0 || *size > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return absl::InvalidArgumentError(
          absl::StrCat("size=", value, ": expected a size, such as 1G or 512M"));
    }
    options->size = *size;
    return absl::OkStatus();
  }
  if (key == "timeout") {
    if (!absl::SimpleAtoi(value, &options->timeout) || options->timeout > kMostSeconds) {
      return absl::InvalidArgumentError(
          absl::StrCat("timeout=", value, ": expected seconds, 0 (for ever) to ", kMostSeconds));
    }
    return absl::OkStatus();
  }
  if (key == kBareWord && value == "readonly") {
    options->readonly = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no parameter ",
                                                 key == kBareWord ? value : key, "; there are ",
                                                 kKnown, " (nbdkit PLUGIN --help)"));
}

absl::Status CheckOptions(const PluginOptions& o) {
  if (o.socket.empty()) {
    return absl::InvalidArgumentError(
        "socket=PATH is missing: the socket of the agent (pulse agent --socket PATH --store "
        "STORE)");
  }
  if (o.directory.empty()) {
    return absl::InvalidArgumentError("dir=NAME is missing: the directory in the store");
  }
  if (o.create && o.file.empty()) {
    return absl::InvalidArgumentError("create=true needs file=NAME, the file to create");
  }
  if (o.create != (o.size != 0)) {
    return absl::InvalidArgumentError(
        "create=true and size=SIZE go together: the size is that of the file to create");
  }
  return absl::OkStatus();
}

}  // namespace pulse::nbd
