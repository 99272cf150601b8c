#include "services/graph/model/properties.h"

#include <algorithm>

namespace pulse::graph {
namespace {

struct Entry {
  uint64_t key = 0;
  std::string_view all;  // key and value
  std::string_view value;
};

// Takes the next entry off *in. False: the end, or damage, in which case *in is not empty.
bool Next(std::string_view* in, Entry* entry) {
  if (in->empty()) return false;
  std::string_view rest = *in;
  if (!cypher::ReadVarint(&rest, &entry->key)) return false;
  const size_t value_at = in->size() - rest.size();
  if (!cypher::SkipValue(&rest)) return false;
  const size_t length = in->size() - rest.size();
  entry->all = in->substr(0, length);
  entry->value = in->substr(value_at, length - value_at);
  *in = rest;
  return true;
}

constexpr std::string_view kNull("\0", 1);

}  // namespace

std::string EncodeProperties(const Properties& properties, bool changes) {
  std::string out;
  const auto append = [&](const std::pair<Token, Value>& property) {
    if (property.second.is_null() && !changes) return;
    cypher::AppendVarint(property.first, &out);
    cypher::AppendValue(property.second, &out);
  };
  if (properties.size() == 1) {
    append(properties[0]);
    return out;
  }
  std::vector<const std::pair<Token, Value>*> sorted;
  sorted.reserve(properties.size());
  for (const auto& property : properties) sorted.push_back(&property);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->first < b->first; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i + 1 < sorted.size() && sorted[i + 1]->first == sorted[i]->first) continue;
    append(*sorted[i]);
  }
  return out;
}

bool DecodeProperties(std::string_view bytes, Properties* out) {
  out->clear();
  while (!bytes.empty()) {
    uint64_t key;
    Value value;
    if (!cypher::ReadVarint(&bytes, &key) || !cypher::ReadValue(&bytes, &value)) return false;
    out->emplace_back(static_cast<Token>(key), std::move(value));
  }
  return true;
}

std::string_view FindProperty(std::string_view bytes, Token key) {
  return cypher::FindKey(bytes, key);
}

Value PropertyValue(std::string_view bytes, Token key) {
  std::string_view found = FindProperty(bytes, key);
  Value value;
  if (!found.empty()) cypher::ReadValue(&found, &value);
  return value;
}

bool HasValues(std::string_view bytes, std::span<const Token> keys, std::span<const Value> values) {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (cypher::Equals(PropertyValue(bytes, keys[i]), values[i]) != 1) return false;
  }
  return true;
}

bool ChangeProperties(std::string_view bytes, std::string_view changes, std::string* out) {
  out->clear();
  Entry old, fresh;
  bool have_old = Next(&bytes, &old), have_fresh = Next(&changes, &fresh);
  while (have_old || have_fresh) {
    if (have_fresh && (!have_old || fresh.key <= old.key)) {
      if (fresh.value != kNull) *out += fresh.all;
      if (have_old && old.key == fresh.key) have_old = Next(&bytes, &old);
      have_fresh = Next(&changes, &fresh);
    } else {
      *out += old.all;
      have_old = Next(&bytes, &old);
    }
  }
  return bytes.empty() && changes.empty();
}

}  // namespace pulse::graph
