// The text of users: a users file, and the words of ACL SETUSER. What is accepted is described, and
// read again, as the same; whoever it is can be asked for any command.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "fuzz_input.h"
#include "net/users.h"
#include "services/redis/acl/acl_user.h"
#include "services/redis/commands/commands.h"

namespace {

using pulse::net::Users;
using pulse::redis::AclUser;

// Who may do what does not change by being written down.
void Ask(const AclUser& user, const AclUser& same, const std::string& argument) {
  for (const char* name : {"get", "set", "mget", "client", "acl", "config", "eval"}) {
    const auto* command = pulse::redis::FindCommand(name);
    if (command == nullptr) continue;
    const std::vector<std::string_view> words = {name, argument, "setname", argument};
    FUZZ_CHECK(user.Allows(*command, words) == same.Allows(*command, words));
  }
  FUZZ_CHECK(user.MayHear(argument) == same.MayHear(argument));
}

void ReadFile(const std::string& text, const std::string& argument) {
  const auto users = Users::Parse(text, "users", /*any_words=*/true);
  if (!users.ok()) return;
  for (const auto& [name, of_file] : users->all()) {
    AclUser user(name);
    if (!AclUser::Make(of_file, &user).empty()) continue;
    const std::string line = user.Describe(/*for_file=*/true);
    const auto again = Users::Parse(line + "\n", "again", /*any_words=*/true);
    FUZZ_CHECK(again.ok());
    const auto* found = again->Find(name);
    FUZZ_CHECK(found != nullptr);
    AclUser same(name);
    FUZZ_CHECK(AclUser::Make(*found, &same).empty());
    FUZZ_CHECK(same.Describe(/*for_file=*/true) == line);
    Ask(user, same, argument);
  }
}

void SetUser(const std::string& text, const std::string& argument) {
  const std::vector<std::string> split = absl::StrSplit(text, '\n', absl::SkipEmpty());
  const std::vector<std::string_view> words(split.begin(), split.end());
  AclUser user("name");
  if (!user.Apply(words).empty()) return;
  // A copy of what is there says the same.
  const AclUser same = user;
  FUZZ_CHECK(same.Describe() == user.Describe());
  Ask(user, same, argument);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  const bool is_file = in.Byte() % 2 == 0;
  std::string argument(in.Below(8), 'k');
  in.Bytes(argument.data(), argument.size());
  const std::string text = in.Rest();
  if (is_file) {
    ReadFile(text, argument);
  } else {
    SetUser(text, argument);
  }
  return 0;
}
