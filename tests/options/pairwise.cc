#include "options/pairwise.h"

#include <algorithm>
#include <random>
#include <utility>

namespace pulse::options_test {

std::vector<std::vector<size_t>> PairwiseRows(
    size_t n, size_t row_size, uint64_t seed,
    const std::function<bool(size_t a, size_t b)>& conflict) {
  std::mt19937_64 rng(seed);
  enum : char { kCovered, kOpen, kForbidden };
  std::vector<std::vector<char>> state(n, std::vector<char>(n, kForbidden));
  std::vector<std::pair<size_t, size_t>> open;
  for (size_t a = 0; a < n; ++a) {
    for (size_t b = a + 1; b < n; ++b) {
      if (conflict(a, b)) continue;
      state[a][b] = state[b][a] = kOpen;
      open.emplace_back(a, b);
    }
  }
  std::shuffle(open.begin(), open.end(), rng);

  std::vector<std::vector<size_t>> rows;
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  for (const auto& [first, second] : open) {
    if (state[first][second] != kOpen) continue;
    std::vector<size_t> row = {first, second};
    std::shuffle(order.begin(), order.end(), rng);
    while (row.size() < row_size) {
      size_t best = n;
      size_t most = 0;
      for (const size_t c : order) {
        size_t gain = 0;
        const bool fits = std::all_of(row.begin(), row.end(), [&](size_t r) {
          gain += state[c][r] == kOpen;
          return state[c][r] != kForbidden;  // nor is any choice twice in a row
        });
        if (fits && gain > most) {
          most = gain;
          best = c;
        }
      }
      if (best == n) break;  // no choice that fits would add a pair
      row.push_back(best);
    }
    for (const size_t a : row) {
      for (const size_t b : row) {
        if (a != b) state[a][b] = kCovered;
      }
    }
    std::sort(row.begin(), row.end());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace pulse::options_test
