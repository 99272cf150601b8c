#include "net/users.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file_calls.h"

namespace pulse::net {
namespace {

std::string_view StdOf(absl::string_view text) { return {text.data(), text.size()}; }

// False for a word that is not known. Letters are of either case, as in Redis, but for passwords.
bool ApplyRule(std::string_view given, User* user) {
  const std::string lower = absl::AsciiStrToLower(absl::string_view(given.data(), given.size()));
  const bool is_secret = given[0] == '>' || given[0] == '#';
  const std::string_view word = is_secret ? given : std::string_view(lower);
  const bool grant = word == "on" || word[0] == '+';
  if (word == "on" || word == "off") {
    user->enabled = grant;
  } else if (word == "nopass") {
    user->no_password = true;
    user->hashes.clear();
  } else if (word == "resetpass") {
    user->no_password = false;
    user->hashes.clear();
  } else if (word == "reset") {
    User fresh;
    fresh.name = std::move(user->name);
    fresh.words = std::move(user->words);
    fresh.line = user->line;
    *user = std::move(fresh);
  } else if (word[0] == '#' && IsSha256(word.substr(1))) {
    user->hashes.emplace_back(word.substr(1));
    user->no_password = false;
  } else if (word[0] == '>') {
    user->hashes.push_back(Sha256(word.substr(1)));
    user->no_password = false;
  } else if (word == "+@all" || word == "-@all" || word == "allcommands" || word == "nocommands") {
    user->may_read = user->may_write = user->may_admin = grant || word[0] == 'a';
  } else if (word == "+@read" || word == "-@read") {
    user->may_read = grant;
  } else if (word == "+@write" || word == "-@write") {
    user->may_write = grant;
  } else if (word == "+@admin" || word == "-@admin") {
    user->may_admin = grant;
  } else {
    // All keys, which is what there is.
    return word == "~*" || word == "allkeys" || word == "&*";
  }
  return true;
}

}  // namespace

std::string Sha256(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex.push_back("0123456789abcdef"[digest[i] >> 4]);
    hex.push_back("0123456789abcdef"[digest[i] & 15]);
  }
  return hex;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsPasswordOf(const std::vector<std::string>* hashes, std::string_view password) {
  const std::string hash = Sha256(password);
  static const std::vector<std::string> kNobodys = {std::string(64, 'x')};
  bool fits = false;
  for (const std::string& known : hashes == nullptr ? kNobodys : *hashes) {
    fits = (CRYPTO_memcmp(known.data(), hash.data(), hash.size()) == 0) || fits;
  }
  return fits;
}

Users Users::WithPassword(std::string_view password) {
  Users users;
  User& user = users.users_["default"];
  user.name = "default";
  user.enabled = user.may_read = user.may_write = user.may_admin = true;
  user.no_password = password.empty();
  if (!password.empty()) user.hashes.push_back(Sha256(password));
  user.words = {"on", password.empty() ? "nopass" : "#" + user.hashes[0], "~*", "&*", "+@all"};
  return users;
}

absl::StatusOr<Users> Users::Parse(std::string_view text, std::string_view path, bool any_words) {
  Users users;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const auto failed = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat(absl::string_view(path.data(), path.size()), ", line ", number, ": ", why));
    };
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    if (words[0] != "user" || words.size() < 2) {
      return failed("expected: user NAME on #SHA256 +@read +@write");
    }
    User user;
    user.name = std::string(words[1]);
    user.line = number;
    for (size_t i = 2; i < words.size(); ++i) {
      user.words.emplace_back(words[i]);
      if (!ApplyRule(StdOf(words[i]), &user) && !any_words) {
        // Not the word itself, which may be a password.
        return failed(absl::StrCat("word ", i + 1,
                                   " is none of on, off, nopass, #SHA256, >PASSWORD, ~*, and +@ "
                                   "or -@ with all, read, write or admin"));
      }
    }
    if (!users.users_.emplace(user.name, user).second) {
      return failed(absl::StrCat("user ", user.name, " comes twice"));
    }
  }
  if (users.users_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(absl::string_view(path.data(), path.size()),
                                                   ": no user in it; nobody could connect"));
  }
  return users;
}

absl::StatusOr<Users> Users::Load(const std::string& path, bool any_words) {
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "reading the users file", path);
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  if (size < 0 || static_cast<size_t>(size) > kMostFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a file of at most ", kMostFileBytes >> 20, " MiB"));
  }
  const auto text =
      ReadFirst(fd.get(), static_cast<uint64_t>(size), "reading the users file", path);
  if (!text.ok()) return text.status();
  return Parse(*text, path, any_words);
}

const User* Users::Find(std::string_view name) const {
  const auto it = users_.find(name);
  return it == users_.end() ? nullptr : &it->second;
}

const User* Users::Check(std::string_view name, std::string_view password) const {
  const User* user = Find(name);
  const bool is_password = IsPasswordOf(user == nullptr ? nullptr : &user->hashes, password);
  return user != nullptr && (is_password || user->no_password) && user->enabled ? user : nullptr;
}

const User* Users::Anonymous() const {
  const User* user = Find("default");
  return user != nullptr && user->enabled && user->no_password ? user : nullptr;
}

const User* Users::WithoutPassword() const {
  for (const auto& [name, user] : users_) {
    if (user.enabled && user.no_password) return &user;
  }
  return nullptr;
}

}  // namespace pulse::net
