#include "services/redis/acl/acl_users.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

constexpr size_t kMostUsers = 10'000;
constexpr size_t kMostUserNameBytes = 256;

}  // namespace

AclUsers::AclUsers() {
  const absl::Status begun = Begin(net::Users::WithPassword(""), "");
  PULSE_CHECK(begun.ok());
}

absl::StatusOr<AclUsers::Map> AclUsers::Read(const net::Users& users, absl::string_view path) {
  Map map;
  for (const auto& [name, of_file] : users.all()) {
    auto user = std::make_shared<AclUser>(name);
    if (const std::string error = AclUser::Make(of_file, user.get()); !error.empty()) {
      const std::string where =
          of_file.line > 0 ? absl::StrCat(path, ", line ", of_file.line, ": ") : "";
      return absl::InvalidArgumentError(absl::StrCat(where, "user ", name, ": ", error));
    }
    map.emplace(name, std::move(user));
  }
  return map;
}

absl::Status AclUsers::Begin(const net::Users& users, std::string_view path) {
  PULSE_ASSIGN_OR_RETURN(Map map, Read(users, {path.data(), path.size()}));
  const std::lock_guard<std::mutex> lock(mutex_);
  path_ = path;
  Replace(std::move(map));
  return absl::OkStatus();
}

// Those of a name that there is stay who they are.
void AclUsers::Replace(Map map) {
  for (auto& [name, user] : map) {
    const User before = FindLocked(name);
    auto identified = std::make_shared<AclUser>(*user);
    identified->set_id(before == nullptr ? ++last_id_ : before->id());
    user = std::move(identified);
  }
  users_ = std::move(map);
  Changed();
}

void AclUsers::Changed() {
  version_.fetch_add(1, std::memory_order_release);
  const User user = FindLocked("default");
  anonymous_has_all_data_.store(
      user != nullptr && user->enabled() && user->no_password() && user->has_all_data(),
      std::memory_order_relaxed);
}

AclUsers::User AclUsers::FindLocked(std::string_view name) const {
  const auto it = users_.find(name);
  return it == users_.end() ? nullptr : it->second;
}

AclUsers::User AclUsers::Find(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return FindLocked(name);
}

AclUsers::User AclUsers::Check(std::string_view name, std::string_view password) const {
  User user = Find(name);
  const bool is_password = net::IsPasswordOf(user == nullptr ? nullptr : &user->hashes(), password);
  if (user == nullptr || !user->enabled()) return nullptr;
  return is_password || user->no_password() ? user : nullptr;
}

AclUsers::User AclUsers::Anonymous() const {
  User user = Find("default");
  return user != nullptr && user->enabled() && user->no_password() ? user : nullptr;
}

std::vector<AclUsers::User> AclUsers::List() const {
  std::vector<User> list;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, user] : users_) list.push_back(user);
  return list;
}

std::string AclUsers::Set(std::string_view name, const std::vector<std::string_view>& words) {
  if (name.empty()) return "Usernames can't be empty here, as a users file cannot have them";
  if (name.find_first_of(std::string_view(" \t\r\n\0", 5)) != std::string_view::npos) {
    return "Usernames can't contain spaces or null characters";
  }
  if (name.size() > kMostUserNameBytes) return "Usernames have at most 256 bytes here";
  // Changes wait for each other; a new user is seen when it is whole.
  const std::lock_guard<std::mutex> file_lock(file_mutex_);
  const User before = Find(name);
  auto user =
      before == nullptr ? std::make_shared<AclUser>(name) : std::make_shared<AclUser>(*before);
  if (std::string error = user->Apply(words); !error.empty()) return error;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (before == nullptr && users_.size() >= kMostUsers) return "There are too many users";
  user->set_id(before == nullptr ? ++last_id_ : before->id());  // `reset` leaves none
  users_.insert_or_assign(std::string(name), std::move(user));
  Changed();
  return "";
}

bool AclUsers::Delete(std::string_view name) {
  const std::lock_guard<std::mutex> file_lock(file_mutex_);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = users_.find(name);
  if (it == users_.end()) return false;
  users_.erase(it);
  Changed();
  return true;
}

absl::Status AclUsers::Load() {
  const std::lock_guard<std::mutex> file_lock(file_mutex_);
  PULSE_ASSIGN_OR_RETURN(const net::Users users, net::Users::Load(path_, /*any_words=*/true));
  PULSE_ASSIGN_OR_RETURN(Map map, Read(users, path_));
  const std::lock_guard<std::mutex> lock(mutex_);
  Replace(std::move(map));
  return absl::OkStatus();
}

// What Load would not take is not written: a server could not start with it.
absl::Status AclUsers::CheckText(const std::string& text) const {
  if (text.size() > net::Users::kMostFileBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the users take ", text.size(),
                     " bytes, more than a users file may have; nothing is saved"));
  }
  PULSE_ASSIGN_OR_RETURN(const auto users, net::Users::Parse(text, path_, /*any_words=*/true));
  const absl::StatusOr<Map> again = Read(users, path_);
  if (!again.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "nothing is saved, as it could not be read again: ", again.status().message()));
  }
  return absl::OkStatus();
}

// Beside the file, and then in its place: it is never half written. Where its name is a link, the
// file that this leads to is replaced.
absl::Status AclUsers::Save() const {
  const std::lock_guard<std::mutex> file_lock(file_mutex_);
  std::string text;
  for (const User& user : List()) absl::StrAppend(&text, user->Describe(/*for_file=*/true), "\n");
  PULSE_RETURN_IF_ERROR(CheckText(text));
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path_, error);
  if (error) return ErrnoError(error.value(), "finding the users file", path_);
  const std::string fresh = real.string() + ".new";
  struct stat st {};
  const mode_t mode = stat(real.c_str(), &st) == 0 ? st.st_mode & 0777 : 0600;
  // Nobody else reads it before it has the mode of the one before it.
  return ReplaceFile(real.string(), fresh, 0600, text, [&](int fd) {
    return fchmod(fd, mode) == 0 ? absl::OkStatus()
                                 : ErrnoError(errno, "setting the mode of", fresh);
  });
}

}  // namespace pulse::redis
