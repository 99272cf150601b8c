#include "powercut/history.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace pulse::powercut {

uint32_t History::BeginStep(size_t now, bool marked) {
  begun_.push_back(now);
  marked_.push_back(marked ? 1 : 0);
  return states();
}

void History::Add(const std::string& family, const std::string& key, bool exists,
                  std::string value) {
  std::vector<Version>& v = versions_[family][key];
  if (!v.empty() && v.back().state == states()) v.pop_back();
  v.push_back({states(), exists, std::move(value)});
}

void History::Put(const std::string& family, const std::string& key, const std::string& value) {
  Add(family, key, true, value);
}

void History::Delete(const std::string& family, const std::string& key) {
  Add(family, key, false, "");
}

void History::Merge(const std::string& family, const std::string& key, const std::string& operand) {
  const std::vector<Version>& v = versions_[family][key];
  const bool fresh = v.empty() || !v.back().exists;
  Add(family, key, true, fresh ? operand : v.back().value + "," + operand);
}

void History::DeleteRange(const std::string& family, const std::string& from,
                          const std::string& to) {
  auto& keys = versions_[family];
  for (auto it = keys.lower_bound(from); it != keys.end() && it->first < to; ++it) {
    if (it->second.back().exists) Add(family, it->first, false, "");
  }
}

void History::Promise(size_t now) { promises_.emplace_back(now, states()); }

void History::BeginCreateFamily(const std::string& name, size_t now) {
  families_[name].create_begun = now;
}
void History::EndCreateFamily(const std::string& name, size_t now) {
  families_[name].created = now;
}
void History::BeginDropFamily(const std::string& name, size_t now) {
  families_[name].drop_begun = now;
}
void History::EndDropFamily(const std::string& name, size_t now) { families_[name].dropped = now; }

std::vector<std::string> History::families() const {
  std::vector<std::string> names;
  for (const auto& [name, f] : families_) {
    if (f.created != kNever && f.drop_begun == kNever) names.push_back(name);
  }
  return names;
}

void History::AddCheckpoint(const std::string& path, size_t now) {
  checkpoints_.push_back({path, now, states()});
}

std::vector<size_t> History::promises() const {
  std::vector<size_t> at;
  for (const auto& [position, state] : promises_) at.push_back(position);
  for (const Checkpoint& c : checkpoints_) at.push_back(c.done);
  for (const auto& [name, f] : families_) {
    if (f.created != kNever) at.push_back(f.created);
    if (f.dropped != kNever) at.push_back(f.dropped);
  }
  return at;
}

bool History::FamilyMustExist(const std::string& name, size_t cut) const {
  const auto it = families_.find(name);
  return it != families_.end() && it->second.created <= cut &&
         (it->second.drop_begun == kNever || it->second.drop_begun >= cut);
}

bool History::FamilyMayExist(const std::string& name, size_t cut) const {
  const auto it = families_.find(name);
  return it != families_.end() && it->second.create_begun < cut &&
         (it->second.dropped == kNever || it->second.dropped > cut);
}

std::string History::CheckState(rocksdb::DB* db,
                                const std::vector<rocksdb::ColumnFamilyHandle*>& handles,
                                uint32_t state) const {
  const std::string in = "state " + std::to_string(state) + ", ";
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    static const std::map<std::string, std::vector<Version>> kNone;
    const auto found = versions_.find(handle->GetName());
    const auto& keys = found == versions_.end() ? kNone : found->second;
    auto want = keys.begin();
    const Version* version = nullptr;
    // To the next key that exists in this state.
    const auto settle = [&] {
      for (; want != keys.end(); ++want) {
        const auto after =
            std::upper_bound(want->second.begin(), want->second.end(), state,
                             [](uint32_t s, const Version& v) { return s < v.state; });
        if (after == want->second.begin()) continue;
        version = &*std::prev(after);
        if (version->exists) return;
      }
    };
    settle();
    std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(read, handle));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      if (it->key() == kStateKey) continue;
      const std::string where = in + handle->GetName() + ": ";
      if (want == keys.end() || it->key() != want->first) {
        return where + "found key " + it->key().ToString() + ", wanted " +
               (want == keys.end() ? "none"
                                   : want->first + " of state " + std::to_string(version->state));
      }
      if (it->value() != version->value) {
        return where + "wrong value of " + want->first + " of state " +
               std::to_string(version->state);
      }
      ++want;
      settle();
    }
    if (!it->status().ok()) return in + handle->GetName() + ": " + it->status().ToString();
    if (want != keys.end()) return in + handle->GetName() + ": missing key " + want->first;
  }
  return "";
}

std::string History::Check(rocksdb::DB* db,
                           const std::vector<rocksdb::ColumnFamilyHandle*>& handles, size_t cut,
                           uint32_t* state) const {
  for (rocksdb::ColumnFamilyHandle* h : handles) {
    if (h->GetName() != rocksdb::kDefaultColumnFamilyName && !FamilyMayExist(h->GetName(), cut)) {
      return "column family " + h->GetName() + " should not exist";
    }
  }
  for (const auto& [name, f] : families_) {
    if (!FamilyMustExist(name, cut)) continue;
    if (std::none_of(handles.begin(), handles.end(),
                     [&name = name](const auto* h) { return h->GetName() == name; })) {
      return "column family " + name + " is missing";
    }
  }
  uint32_t oldest = 0;
  for (const auto& [at, promised] : promises_) {
    if (at <= cut) oldest = std::max(oldest, promised);
  }
  const auto newest =
      static_cast<uint32_t>(std::lower_bound(begun_.begin(), begun_.end(), cut) - begun_.begin());

  std::string text;
  const rocksdb::Status s = db->Get(rocksdb::ReadOptions(), kStateKey, &text);
  if (!s.ok() && !s.IsNotFound()) return "reading the state's number: " + s.ToString();
  *state = s.ok() ? static_cast<uint32_t>(strtoul(text.c_str(), nullptr, 10)) : 0;
  const std::string limits =
      " (promised " + std::to_string(oldest) + ", begun " + std::to_string(newest) + ")";
  std::string first_problem;
  // Ingestions do not tell the state's number.
  for (;; ++*state) {
    if (*state > newest) {
      if (first_problem.empty()) return "found state " + std::to_string(*state) + limits;
      break;
    }
    std::string problem = *state < oldest
                              ? "lost acknowledged steps: found state " + std::to_string(*state)
                              : CheckState(db, handles, *state);
    if (problem.empty()) return "";
    if (first_problem.empty()) first_problem = std::move(problem);
    if (*state >= begun_.size() || marked_[*state] != 0) break;
  }
  return first_problem + limits;
}

}  // namespace pulse::powercut
