// The commands that `pulse serve` knows: names, arity, which arguments are keys, and whether they
// read or write. One table for the host server, for COMMAND, and for the agent, which has to know
// of every request whether it writes, and which keys.
//
// Constant data; any thread; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::redis {

enum class Command : uint8_t {
#define PULSE_REDIS_COMMAND(id, ...) k##id,
#include "services/redis/commands/commands.inc"
#undef PULSE_REDIS_COMMAND
};

inline constexpr size_t kCommands = 0
#define PULSE_REDIS_COMMAND(id, ...) +1
#include "services/redis/commands/commands.inc"
#undef PULSE_REDIS_COMMAND
    ;

enum CommandFlag : uint32_t {
  kRead = 1,        // reads values of keys
  kWrite = 2,       // may change keys
  kKeyspace = 4,    // concerns keys that its arguments do not name
  kConnection = 8,  // the connection's own state
  kNoAuth = 16,     // allowed before AUTH
  kNoQueue = 32,    // carried out at once within MULTI
  kPrivate = 64,    // for a director on a private listener only
  kAdmin = 128,
};

// `arity`: with the name; negative: at least.
inline bool ArityFits(int arity, size_t arguments) {
  return arity >= 0 ? arguments == static_cast<size_t>(arity)
                    : arguments >= static_cast<size_t>(-arity);
}

struct CommandInfo {
  Command id;
  std::string_view name;  // in lower case
  int arity;              // with the name; negative: at least
  uint32_t flags;
  // Arguments that are keys, as in Redis's COMMAND: 0 when there are none; a negative last counts
  // from the end.
  int first_key;
  int last_key;
  int key_step;
  std::string_view group;
  std::string_view summary;

  bool reads() const { return (flags & kRead) != 0; }
  bool writes() const { return (flags & kWrite) != 0; }
  bool ArityFits(size_t arguments) const { return redis::ArityFits(arity, arguments); }
};

// Null for a name that is none. Names have no case.
const CommandInfo* FindCommand(std::string_view name);

// Of what the commands are, to whom the keys of each belong, and what they do: of host and agent,
// it must be the same, or the agent would misjudge what a request has written.
const std::string& CommandsDigest();

// All of them, by name.
const std::vector<const CommandInfo*>& AllCommands();

// Calls `use(key)` for each key of a request whose arity fits. `arguments` is indexed from 0, the
// command's name.
template <typename Arguments, typename Use>
void ForEachKey(const CommandInfo& command, const Arguments& arguments, Use use) {
  if (command.first_key == 0) return;
  const auto size = static_cast<int>(arguments.size());
  const int last = command.last_key >= 0 ? command.last_key : size + command.last_key;
  for (int i = command.first_key; i <= last && i < size; i += command.key_step) {
    use(arguments[static_cast<size_t>(i)]);
  }
}

bool EqualsIgnoringCase(std::string_view text, std::string_view lower_case);

}  // namespace pulse::redis
