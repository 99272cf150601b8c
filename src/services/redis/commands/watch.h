// WatchTable: which connections have asked, by WATCH, to be told when a key changes before their
// EXEC. A write that nobody watches costs one load.
//
// Touch is called after the write and within its lock; WATCH registers before it reads. So a
// connection that has seen a value is told of every later write before EXEC can take the key's
// lock. Thread-safe; short critical sections only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace pulse::redis {

// Told of every change of a key, as watches are.
class KeyListener {
 public:
  virtual ~KeyListener() = default;
  virtual bool active() const = 0;  // cheap: asked for each write
  // Not `by_client`: the store has given it up, while whoever changed another one.
  virtual void OnChange(std::string_view key, bool by_client) = 0;
  // The store has noticed that it is over. It may have been told of before, or be noticed never.
  virtual void OnExpiry(std::string_view key) = 0;
  virtual void OnClear() = 0;  // of all keys, or all of one node
};

class WatchTable {
 public:
  // One connection's watches. Destroyed, or cleared, they are gone. Belongs to one thread at a
  // time.
  class Set {
   public:
    explicit Set(WatchTable* table)
        : table_(table), touched_(std::make_shared<std::atomic<bool>>(false)) {}
    ~Set() { Clear(); }
    Set(const Set&) = delete;
    Set& operator=(const Set&) = delete;

    void Add(std::string_view key, int64_t expires_ms);
    void Clear();
    bool empty() const { return keys_.empty(); }
    bool Has(std::string_view key) const { return keys_.count(std::string(key)) != 0; }
    // When the first of them expires; 0: none does.
    int64_t first_expiry_ms() const { return first_expiry_ms_; }
    // About what the keys take, here and in the table.
    uint64_t bytes() const { return bytes_; }
    static uint64_t BytesOf(std::string_view key) { return 256 + 2 * key.size(); }
    // Whether a key has changed since, or has expired by `now_ms`.
    bool Broken(int64_t now_ms) const;
    const std::unordered_set<std::string>& keys() const { return keys_; }

   private:
    WatchTable* table_;
    std::unordered_set<std::string> keys_;
    uint64_t bytes_ = 0;
    int64_t first_expiry_ms_ = 0;
    std::shared_ptr<std::atomic<bool>> touched_;
  };

  bool active() const {
    return watches_.load(std::memory_order_seq_cst) > 0 || listener() != nullptr;
  }
  // Before clients change keys; the listener outlives that.
  void SetListener(KeyListener* listener) { listener_.store(listener, std::memory_order_release); }
  void Touch(std::string_view key, bool by_client = true);
  // Of a key that has expired, which a Set knows by itself.
  void TellOfExpiry(std::string_view key) {
    if (KeyListener* const who = listener()) who->OnExpiry(key);
  }
  // Those that `which` names; all without it.
  void TouchAll(const std::function<bool(std::string_view key)>& which = nullptr);
  size_t watches() const { return watches_.load(std::memory_order_relaxed); }

 private:
  // Null unless it is active.
  KeyListener* listener() const {
    KeyListener* const who = listener_.load(std::memory_order_acquire);
    return who != nullptr && who->active() ? who : nullptr;
  }
  void Remove(const std::string& key, const std::shared_ptr<std::atomic<bool>>& who);

  // Keys may expire before it is set.
  std::atomic<KeyListener*> listener_{nullptr};
  std::atomic<size_t> watches_{0};
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<std::shared_ptr<std::atomic<bool>>>> keys_;
};

}  // namespace pulse::redis
