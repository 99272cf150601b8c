#include "services/graph/nodes/index.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/hash.h"
#include "services/graph/model/literal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr uint64_t kAllKeys = 1, kFirstKey = 2;  // seeds

uint64_t HashOf(std::span<const Value> values, uint64_t seed) {
  uint64_t hash = seed;
  for (const Value& value : values) {
    const uint64_t one = cypher::Hash(value);
    hash = XXH3_64bits_withSeed(&one, sizeof(one), hash);
  }
  return hash;
}

}  // namespace

bool Index::Indexable(const Value& value) {
  return !value.is_null() && !(value.is_float() && std::isnan(value.as_float()));
}

uint64_t Index::HashAll(std::span<const Value> values) const { return HashOf(values, kAllKeys); }

std::optional<std::vector<Value>> Index::ValuesOf(const NodeVersion& version) const {
  if (version.deleted() || !version.HasLabel(label_)) return std::nullopt;
  std::vector<Value> values;
  for (const Token key : keys_) {
    values.push_back(PropertyValue(version.properties(), key));
    if (!Indexable(values.back())) return std::nullopt;
  }
  return values;
}

bool Index::HasAllKeys(const NodeVersion& version) const {
  return std::none_of(keys_.begin(), keys_.end(), [&version](Token key) {
    return PropertyValue(version.properties(), key).is_null();
  });
}

bool Index::Concerns(Token token, bool is_label) const {
  return is_label ? token == label_ : std::find(keys_.begin(), keys_.end(), token) != keys_.end();
}

std::string Index::Lacking(size_t key, const Value& value) const {
  const std::string& name = definition_.keys[key];
  if (definition_.required && value.is_null()) return Concat(" must have ", name);
  if (!value_type_ || cypher::FitsType(value, *value_type_)) return {};
  return Concat(" must have ", name, " of type ", definition_.type, ", and has ",
                cypher::ShortText(cypher::LiteralText(value).value_or("another value")));
}

std::string Index::Lacking(std::string_view properties) const {
  std::string lacking;
  for (size_t i = 0; i < keys_.size() && lacking.empty(); ++i) {
    lacking = Lacking(i, PropertyValue(properties, keys_[i]));
  }
  return lacking;
}

uint64_t Index::memory() const {
  const bool ordered = kept_order_.load(std::memory_order_relaxed) != nullptr;
  return entries_.load(std::memory_order_relaxed) * (kEntryBytes + (ordered ? kPlaceBytes : 0));
}

uint64_t Index::MemoryFor(std::span<const Token> labels, std::string_view properties) const {
  if (definition_.IsExtended()) return 0;
  if (std::find(labels.begin(), labels.end(), label_) == labels.end()) return 0;
  uint64_t keys = 0;
  while (keys < keys_.size() && Indexable(PropertyValue(properties, keys_[keys]))) ++keys;
  // As HashesOf().
  uint64_t entries = keys == keys_.size() ? 1 : 0;
  if (keys_.size() > 1 && keys > 0) ++entries;
  const bool ordered = kept_order_.load(std::memory_order_relaxed) != nullptr;
  return entries * (kEntryBytes + (ordered ? kPlaceBytes : 0));
}

void Index::HashesOf(const NodeVersion& version, std::vector<uint64_t>* out) const {
  out->clear();
  if (definition_.IsExtended() || version.deleted() || !version.HasLabel(label_)) return;
  std::vector<Value> values;
  for (const Token key : keys_) {
    Value value = PropertyValue(version.properties(), key);
    if (!Indexable(value)) break;
    values.push_back(std::move(value));
  }
  if (values.size() == keys_.size()) out->push_back(HashAll(values));
  if (keys_.size() > 1 && !values.empty()) out->push_back(HashOf({values.data(), 1}, kFirstKey));
}

void Index::Add(NodeId node, const NodeVersion& version) {
  std::vector<uint64_t> hashes;
  HashesOf(version, &hashes);
  for (const uint64_t hash : hashes) {
    Part& part = PartOf(hash);
    std::lock_guard lock(part.mu);
    const auto [it, added] = part.first.try_emplace(hash, node);
    const bool another = !added && it->second != node && part.others.emplace(hash, node).second;
    if (added || another) entries_.fetch_add(1, std::memory_order_relaxed);
  }
  // The version is in the table by now: who makes an order sees it there, or is seen here.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  IndexOrder* const order = kept_order_.load(std::memory_order_acquire);
  if (order == nullptr) return;
  if (const auto place = PlaceIn(version)) order->Add({*place, node});
}

void Index::Drop(NodeId node, const NodeVersion& dropped, const NodeVersion* newest) {
  std::vector<uint64_t> gone, kept;
  HashesOf(dropped, &gone);
  for (const NodeVersion* left = newest; left != nullptr && !gone.empty();
       left = left->previous()) {
    HashesOf(*left, &kept);
    std::erase_if(gone, [&kept](uint64_t hash) {
      return std::find(kept.begin(), kept.end(), hash) != kept.end();
    });
  }
  for (const uint64_t hash : gone) {
    Part& part = PartOf(hash);
    std::lock_guard lock(part.mu);
    const auto it = part.first.find(hash);
    if (it == part.first.end()) continue;
    if (it->second != node) {
      entries_.fetch_sub(part.others.erase({hash, node}), std::memory_order_relaxed);
      continue;
    }
    entries_.fetch_sub(1, std::memory_order_relaxed);
    const auto other = part.others.lower_bound({hash, 0});
    if (other == part.others.end() || other->first != hash) {
      part.first.erase(it);
      continue;
    }
    it->second = other->second;
    part.others.erase(other);
  }
  IndexOrder* const order = kept_order_.load(std::memory_order_acquire);
  const auto place = order == nullptr ? std::nullopt : PlaceIn(dropped);
  if (!place) return;
  for (const NodeVersion* left = newest; left != nullptr; left = left->previous()) {
    if (PlaceIn(*left) == place) return;
  }
  order->Drop({*place, node});
}

std::optional<OrderPlace> Index::PlaceIn(const NodeVersion& version) const {
  if (version.deleted() || !version.HasLabel(label_)) return std::nullopt;
  return PlaceOf(PropertyValue(version.properties(), keys_[0]));
}

const IndexOrder& Index::MakeOrder(const NodeTable& nodes, uint64_t sequence) const {
  const std::lock_guard lock(order_mu_);
  if (order_ != nullptr) return *order_;
  order_ = std::make_unique<IndexOrder>(sequence);
  kept_order_.store(order_.get(), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with the one in Add()
  std::vector<IndexOrder::Entry> entries;
  for (NodeId first = 0; first < nodes.end(); first += 64) {
    for (uint64_t word = nodes.LabelWord(label_, first); word != 0; word &= word - 1) {
      const NodeId node = first + static_cast<NodeId>(std::countr_zero(word));
      // What is behind the version that the snapshot sees may be freed meanwhile.
      for (const NodeVersion* v = nodes.Latest(node); v != nullptr; v = v->previous()) {
        if (const auto place = PlaceIn(*v)) entries.push_back({*place, node});
        if (v->begin() <= sequence) break;
      }
    }
  }
  order_->Complete(std::move(entries));
  return *order_;
}

bool Index::FindRange(const NodeTable& nodes, uint64_t sequence, const OrderRange& range,
                      size_t most, std::vector<NodeId>* out) const {
  const IndexOrder* order = kept_order_.load(std::memory_order_acquire);
  if (order == nullptr || !order->Serves(sequence)) order = &MakeOrder(nodes, sequence);
  return order->Serves(sequence) && order->Find(range, most, out);
}

void Index::Find(uint64_t hash, std::vector<NodeId>* out) const {
  const Part& part = PartOf(hash);
  std::lock_guard lock(part.mu);
  const auto first = part.first.find(hash);
  if (first == part.first.end()) return;
  out->push_back(first->second);
  for (auto it = part.others.lower_bound({hash, 0}); it != part.others.end() && it->first == hash;
       ++it) {
    out->push_back(it->second);
  }
}

void Index::FindBy(std::span<const Value> values, std::vector<NodeId>* out) const {
  if (!std::all_of(values.begin(), values.end(), Indexable)) return;
  Find(HashOf(values, values.size() < keys_.size() ? kFirstKey : kAllKeys), out);
}

std::shared_ptr<Index> IndexSet::FindByName(const std::string& name) const {
  for (const auto& index : list()) {
    if (index->definition().name == name) return index;
  }
  return nullptr;
}

std::shared_ptr<const Index> IndexSet::FindFor(Token label, std::span<const Token> keys) const {
  std::shared_ptr<const Index> found;
  for (const auto& index : list()) {
    if (index->label() != label || index->definition().IsExtended()) continue;
    if (keys.size() > 1) {
      if (std::equal(keys.begin(), keys.end(), index->keys().begin(), index->keys().end()))
        return index;
      continue;
    }
    if (index->keys()[0] != keys[0]) continue;
    // The one whose hits are fewest.
    if (found == nullptr || index->keys().size() < found->keys().size()) found = index;
  }
  return found;
}

absl::Status CheckDefinition(const IndexDefinition& definition) {
  if (definition.name.empty() || definition.label.empty() || definition.keys.empty()) {
    return absl::InvalidArgumentError("an index has a name, a label, and one key at least");
  }
  if (!definition.IsExtended()) return absl::OkStatus();
  if (definition.unique || !definition.constraint ||
      definition.required != definition.type.empty()) {
    return absl::InvalidArgumentError(
        "a constraint of relationships or of types requires a value or its type, and is no index");
  }
  if (definition.type.empty()) return absl::OkStatus();
  if (definition.keys.size() == 1 && cypher::ParsePropertyType(definition.type)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Concat(
      "a constraint of types has one key and one type of properties, and not ", definition.type));
}

std::vector<std::vector<Token>> IndexSet::WideFor(Token label) const {
  std::vector<std::vector<Token>> found;
  for (const auto& index : list()) {
    if (index->label() != label || index->definition().IsExtended()) continue;
    if (index->keys().size() > 1) found.push_back(index->keys());
  }
  return found;
}

bool IndexSet::AnyExtended() const {
  const auto all = list();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& index) { return index->definition().IsExtended(); });
}

void IndexSet::Add(std::shared_ptr<Index> index) {
  std::unique_lock lock(mu_);
  auto list = std::make_shared<List>(*list_);
  list->push_back(std::move(index));
  list_ = std::move(list);
}

void IndexSet::Remove(const std::string& name) {
  std::unique_lock lock(mu_);
  auto list = std::make_shared<List>(*list_);
  std::erase_if(*list, [&name](const auto& index) { return index->definition().name == name; });
  list_ = std::move(list);
}

}  // namespace pulse::graph
