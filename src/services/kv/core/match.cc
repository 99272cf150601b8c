// The comparison of tags, for each set of instructions.
#include <array>

#include "services/kv/core/batch.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace pulse::kv {
namespace {

inline __attribute__((always_inline)) void Choose(const Partition& partition, Bucket* bucket,
                                                  uint32_t mask, size_t span,
                                                  Candidate* candidate) {
  if (mask == 0) {
    candidate->at = nullptr;
    candidate->word = 0;
    if (bucket->next != 0) __builtin_prefetch(partition.Next(*bucket));
    return;
  }
  candidate->at = &bucket->slots[__builtin_ctz(mask)];
  candidate->word = *candidate->at;
  partition.PrefetchItem(candidate->word, span);
}

}  // namespace

// Keys in overflow buckets, which were fetched meanwhile.
void ResolveChains(const Partition& partition, const uint64_t* hashes, size_t count,
                   Candidate* candidates) {
  for (size_t i = 0; i < count; ++i) {
    if (candidates[i].at != nullptr) continue;
    const uint64_t tag = TagOf(hashes[i]);
    for (Bucket* bucket = partition.Next(*partition.BucketOf(hashes[i])); bucket != nullptr;
         bucket = partition.Next(*bucket)) {
      const uint32_t mask = MatchTag(*bucket, tag);
      if (mask == 0) continue;
      Choose(partition, bucket, mask, partition.TypicalSpan(), &candidates[i]);
      break;
    }
  }
}

namespace {

// Which GCC vectorizes, by NEON on ARM.
void MatchPortable(const Partition& partition, const uint64_t* hashes, size_t count,
                   Candidate* candidates) {
  const size_t span = partition.TypicalSpan();
  for (size_t i = 0; i < count; ++i) {
    Bucket* bucket = partition.BucketOf(hashes[i]);
    Choose(partition, bucket, MatchTag(*bucket, TagOf(hashes[i])), span, &candidates[i]);
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void MatchAvx2(const Partition& partition, const uint64_t* hashes,
                                               size_t count, Candidate* candidates) {
  const size_t span = partition.TypicalSpan();
  for (size_t i = 0; i < count; ++i) {
    Bucket* bucket = partition.BucketOf(hashes[i]);
    const auto* words = reinterpret_cast<const __m256i*>(bucket);
    const __m256i tag = _mm256_set1_epi64x(static_cast<int64_t>(TagOf(hashes[i])));
    const __m256i low = _mm256_cmpeq_epi64(_mm256_srli_epi64(_mm256_load_si256(words), 48), tag);
    const __m256i high =
        _mm256_cmpeq_epi64(_mm256_srli_epi64(_mm256_load_si256(words + 1), 48), tag);
    const auto mask = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
                                            _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4);
    Choose(partition, bucket, mask >> 1, span, &candidates[i]);  // the first word is no slot
  }
}

__attribute__((target("avx512f"))) void MatchAvx512(const Partition& partition,
                                                    const uint64_t* hashes, size_t count,
                                                    Candidate* candidates) {
  const size_t span = partition.TypicalSpan();
  for (size_t i = 0; i < count; ++i) {
    Bucket* bucket = partition.BucketOf(hashes[i]);
    const __m512i words = _mm512_load_si512(bucket);
    const __m512i tag = _mm512_set1_epi64(static_cast<int64_t>(TagOf(hashes[i])));
    const uint32_t mask = _mm512_cmpeq_epi64_mask(_mm512_maskz_srli_epi64(0xff, words, 48), tag);
    Choose(partition, bucket, mask >> 1, span, &candidates[i]);
  }
}
#endif

}  // namespace

const std::array<Matcher, 3>& Matchers() {
#if defined(__x86_64__)
  static const std::array<Matcher, 3> matchers = {
      {{"portable", MatchPortable, true},
       {"avx2", MatchAvx2, __builtin_cpu_supports("avx2") != 0},
       {"avx512", MatchAvx512, __builtin_cpu_supports("avx512f") != 0}}};
#else
  static const std::array<Matcher, 3> matchers = {
      {{"portable", MatchPortable, true}, {"avx2", nullptr, false}, {"avx512", nullptr, false}}};
#endif
  return matchers;
}

MatchFunction BestMatch() {
  static const MatchFunction best = [] {
    MatchFunction last = MatchPortable;
    for (const Matcher& matcher : Matchers()) {
      if (matcher.usable) last = matcher.match;
    }
    return last;
  }();
  return best;
}

}  // namespace pulse::kv
