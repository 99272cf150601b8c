#include "services/kv/core/hash.h"

#include <sys/random.h>

#include <exception>

namespace pulse::kv {
namespace {

uint64_t DrawSeed() {
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) std::terminate();  // cannot fail so early
  return seed;
}

}  // namespace

uint64_t hash_seed = DrawSeed();

}  // namespace pulse::kv
