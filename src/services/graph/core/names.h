// Labels, relationship types and property keys: names and their tokens. A token never changes its
// name. A name is known from the moment at which a transaction asks for its token, and durable once
// one that did was committed: until then each transaction that uses it logs it, too.
//
// Any thread; a lock, held for a look-up.
#pragma once

#include <deque>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "services/graph/core/operations.h"

namespace pulse::graph {

class NameTable {
 public:
  std::optional<Token> Find(NameKind kind, std::string_view name) const;
  std::string NameOf(NameKind kind, Token token) const;  // "" where there is none
  // *durable: whether it need not be logged.
  Token Add(NameKind kind, std::string_view name, bool* durable);
  // What the log says. False for a token that has another name. The caller has checked its size.
  bool SetDurable(NameKind kind, Token token, std::string_view name);
  // In the order of tokens, those that are durable.
  std::vector<std::pair<Token, std::string>> Durable(NameKind kind) const;

 private:
  struct Entry {
    std::string name;
    bool known = false;
    bool durable = false;
  };
  struct Table {
    std::deque<Entry> entries;
    std::unordered_map<std::string_view, Token> tokens;
  };

  mutable std::shared_mutex mu_;
  Table tables_[3];
};

}  // namespace pulse::graph
