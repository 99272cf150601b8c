#include "services/redis/key_locks.h"

#include <algorithm>
#include <functional>

namespace pulse::redis {

KeyLocks::KeyLocks() : stripes_(new Stripe[kStripes]) {
  pthread_rwlockattr_t attributes;
  pthread_rwlockattr_init(&attributes);
  // Or a FLUSHALL would wait for as long as others write.
  pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
  pthread_rwlock_init(&gate_, &attributes);
  pthread_rwlockattr_destroy(&attributes);
}

KeyLocks::~KeyLocks() { pthread_rwlock_destroy(&gate_); }

uint16_t KeyLocks::StripeOf(std::string_view key) {
  const size_t hash = std::hash<std::string_view>()(key);
  return static_cast<uint16_t>(hash % kStripes);
}

void KeyLocks::Held::Release() {
  if (owner_ == nullptr) return;
  for (const uint16_t stripe : stripes_) owner_->stripes_[stripe].mutex.unlock();
  pthread_rwlock_unlock(&owner_->gate_);
  stripes_.clear();
  owner_ = nullptr;
}

bool KeyLocks::Take(Wanted wanted, bool may_block, Held* held) {
  auto& stripes = wanted.stripes_;
  if (stripes.size() > 1) {
    std::sort(stripes.begin(), stripes.end());
    stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  }
  if (wanted.all_ || stripes.size() > kMostStripes) {
    const int error = may_block ? pthread_rwlock_wrlock(&gate_) : pthread_rwlock_trywrlock(&gate_);
    if (error != 0) return false;
    held->owner_ = this;
    return true;
  }
  if ((may_block ? pthread_rwlock_rdlock(&gate_) : pthread_rwlock_tryrdlock(&gate_)) != 0) {
    return false;
  }
  held->owner_ = this;
  for (const uint16_t stripe : stripes) {
    if (may_block) {
      stripes_[stripe].mutex.lock();
    } else if (!stripes_[stripe].mutex.try_lock()) {
      held->Release();
      return false;
    }
    held->stripes_.push_back(stripe);
  }
  return true;
}

}  // namespace pulse::redis
