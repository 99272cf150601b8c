// AclUser: who somebody is, and what they may do, in the words of Redis 7.0: commands and
// subcommands, categories, patterns of keys to read and to write, channels, selectors. Rules of
// commands are kept as they were given, as Redis does since 7.2.
//
// A value; once it is shared it is constant, and any thread may ask it. Nothing blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/users.h"
#include "services/redis/acl/acl_units.h"

namespace pulse::redis {

// What one selector allows; a user has one, and may have more.
class AclSelector {
 public:
  // One word. Empty, or what is wrong with it.
  std::string Apply(std::string_view word);

  enum class Verdict { kAllowed, kCommand, kKey, kChannel };
  // `object`: what is denied, and `place`: how many keys or channels are before it.
  Verdict Check(int unit, const CommandInfo& command,
                const std::vector<std::string_view>& arguments, std::string_view* object,
                size_t* place) const;
  bool allows(int unit) const { return units_.test(static_cast<size_t>(unit)); }
  bool allows_all(const AclUnitSet& units) const { return (units & ~units_).none(); }
  bool allows_any(const AclUnitSet& units) const { return (units & units_).any(); }
  bool all_units() const { return units_.count() == AclUnits().size(); }
  bool all_keys() const { return all_keys_; }
  bool all_channels() const { return all_channels_; }
  bool MayHear(std::string_view channel) const;

  std::string commands() const;  // "-@all +get"
  std::string keys() const;      // "~a %R~b"
  std::string channels() const;
  // As in ACL LIST.
  std::string Describe() const;

 private:
  struct Pattern {
    std::string text;
    bool read = false;
    bool write = false;
    std::string Describe() const;
  };
  std::string ApplyKeys(std::string_view word);
  std::string ApplyChannel(std::string_view pattern);
  std::string ApplyCommands(std::string_view word);
  void AddRule(std::string_view word);
  bool MayKey(std::string_view key, KeyNeed need) const;

  AclUnitSet units_;
  bool begins_with_all_ = false;  // the rules: with +@all, not with -@all
  std::vector<std::string> rules_;
  bool all_keys_ = false;
  std::vector<Pattern> patterns_;
  bool all_channels_ = false;
  std::vector<std::string> channels_;
};

class AclUser {
 public:
  explicit AclUser(std::string_view name) : name_(name), selectors_(1) {}

  // Words as of ACL SETUSER, one after the other. Empty, or what is wrong, with the word. Then
  // nothing is to be done with it.
  std::string Apply(const std::vector<std::string_view>& words);
  // A user of a file or a password. If a line says neither +@all nor -@all, PING and the like are
  // allowed, too, and +@write without +@read does not let them read what they write; if it names no
  // keys, or no channels, all are meant.
  static std::string Make(const net::User& of_file, AclUser* user);

  const std::string& name() const { return name_; }
  // Who is deleted, and made again under the same name, is another one. 0: not among AclUsers.
  uint64_t id() const { return id_; }
  void set_id(uint64_t id) { id_ = id; }
  bool enabled() const { return enabled_; }
  bool no_password() const { return no_password_; }
  const std::vector<std::string>& hashes() const { return hashes_; }
  std::vector<std::string_view> flags() const;
  const std::vector<AclSelector>& selectors() const { return selectors_; }
  // As a line of ACL LIST, or of a users file that Make reads.
  std::string Describe(bool for_file = false) const;

  using Verdict = AclSelector::Verdict;
  Verdict Check(const CommandInfo& command, const std::vector<std::string_view>& arguments,
                std::string_view* object) const {
    return unrestricted_ ? Verdict::kAllowed : CheckSelectors(command, arguments, object);
  }
  bool Allows(const CommandInfo& command, const std::vector<std::string_view>& arguments) const {
    std::string_view object;
    return Check(command, arguments, &object) == Verdict::kAllowed;
  }
  // GET, and SET without options, of any key.
  bool may_get_all() const { return may_get_all_; }
  bool may_set_all() const { return may_set_all_; }
  // Every command that reads or writes, and any key.
  bool has_all_data() const { return has_all_data_; }
  // Whether it may subscribe to a channel, if to anything.
  bool MayHear(std::string_view channel) const;
  // It may read any key by any command, or none by none.
  bool reads_all_or_nothing() const { return reads_all_or_nothing_; }

 private:
  Verdict CheckSelectors(const CommandInfo& command, const std::vector<std::string_view>& arguments,
                         std::string_view* object) const;
  std::string ApplyWord(std::string_view word);
  std::string ApplyPassword(std::string_view word);
  std::string ApplySelector(std::string_view words);
  void Reset();
  void Settle();

  std::string name_;
  uint64_t id_ = 0;
  bool enabled_ = false;
  bool no_password_ = false;
  std::string_view sanitizes_;  // the word; nothing depends on it
  std::vector<std::string> hashes_;
  std::vector<AclSelector> selectors_;
  bool unrestricted_ = false;
  bool may_get_all_ = false;
  bool may_set_all_ = false;
  bool has_all_data_ = false;
  bool reads_all_or_nothing_ = true;
};

}  // namespace pulse::redis
