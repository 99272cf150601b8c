// PairwiseRows: a covering array. Each pair of choices that may stand together is in some row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace pulse::options_test {

// Rows of at most `row_size` of the numbers 0 .. n-1, chosen greedily: each next choice adds most
// pairs that no row has yet, ties by `seed`. The same arguments give the same rows. `conflict` is
// symmetric; no row holds two choices that conflict.
std::vector<std::vector<size_t>> PairwiseRows(
    size_t n, size_t row_size, uint64_t seed,
    const std::function<bool(size_t a, size_t b)>& conflict);

}  // namespace pulse::options_test
