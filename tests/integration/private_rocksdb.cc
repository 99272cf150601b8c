// A shared object with the constants by which the plug-in tells a RocksDB that is linked in
// statically. With PULSE_ONLY_COUNTER those of a library that only reads a counter.

extern "C" {

__attribute__((visibility("default"))) extern const char* const pulse_test_constants[];
const char* const pulse_test_constants[] = {
    "rocksdb.block.cache.index.miss",
#ifndef PULSE_ONLY_COUNTER
    "leveldb.BytewiseComparator",
#endif
};

}  // extern "C"
