// A shared object that, preloaded before librocksdb, makes RocksDB claim another version: the
// plug-in must refuse to serve it.

#include <rocksdb/version.h>

#include <string>

namespace ROCKSDB_NAMESPACE {

std::string GetRocksVersionAsString(bool with_patch) { return with_patch ? "6.66.6" : "6.66"; }

}  // namespace ROCKSDB_NAMESPACE
