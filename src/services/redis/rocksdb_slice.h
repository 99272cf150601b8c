// RocksDB's slices and the library's views of the same bytes. Any thread; nothing is owned.
#pragma once

#include <string_view>

#include "rocksdb/slice.h"

namespace pulse::redis {

inline rocksdb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view ViewOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

}  // namespace pulse::redis
