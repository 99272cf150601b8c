#include "services/graph/core/names.h"

#include <mutex>

namespace pulse::graph {

std::optional<Token> NameTable::Find(NameKind kind, std::string_view name) const {
  std::shared_lock lock(mu_);
  const Table& table = tables_[static_cast<size_t>(kind)];
  const auto it = table.tokens.find(name);
  if (it == table.tokens.end()) return std::nullopt;
  return it->second;
}

std::string NameTable::NameOf(NameKind kind, Token token) const {
  std::shared_lock lock(mu_);
  const Table& table = tables_[static_cast<size_t>(kind)];
  return token < table.entries.size() ? table.entries[token].name : std::string();
}

Token NameTable::Add(NameKind kind, std::string_view name, bool* durable) {
  std::unique_lock lock(mu_);
  Table& table = tables_[static_cast<size_t>(kind)];
  const auto it = table.tokens.find(name);
  if (it != table.tokens.end()) {
    *durable = table.entries[it->second].durable;
    return it->second;
  }
  const auto token = static_cast<Token>(table.entries.size());
  table.entries.push_back({std::string(name), true, false});
  table.tokens.emplace(table.entries.back().name, token);
  *durable = false;
  return token;
}

bool NameTable::SetDurable(NameKind kind, Token token, std::string_view name) {
  std::unique_lock lock(mu_);
  Table& table = tables_[static_cast<size_t>(kind)];
  // Tokens that no commit brought with it leave gaps.
  while (token >= table.entries.size()) table.entries.emplace_back();
  Entry& entry = table.entries[token];
  if (entry.known && entry.name != name) return false;
  if (!entry.known) {
    if (table.tokens.contains(name)) return false;
    entry.name = name;
    entry.known = true;
    table.tokens.emplace(entry.name, token);
  }
  entry.durable = true;
  return true;
}

std::vector<std::pair<Token, std::string>> NameTable::Durable(NameKind kind) const {
  std::shared_lock lock(mu_);
  const Table& table = tables_[static_cast<size_t>(kind)];
  std::vector<std::pair<Token, std::string>> out;
  for (size_t i = 0; i < table.entries.size(); ++i) {
    if (table.entries[i].durable) out.emplace_back(static_cast<Token>(i), table.entries[i].name);
  }
  return out;
}

}  // namespace pulse::graph
