// What libpulse_java.so calls in libpulse_rocksdb_java-VERSION-ABI.so, the plug-in for the RocksDB
// inside RocksJava's JNI library (java/native). Plain C, as the two may have different std::string.
//
// Each function that can fail returns 0, or writes what failed, as a string that ends with a zero
// byte, to `error`. Threads: any. None throws.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pulse/version.h"  // PULSE_VERSION_STRING, which both sides compare

extern "C" {

typedef struct PulseJavaCounter {
  const char* name;  // valid until the next call of `counters` by the same thread
  uint64_t value;
} PulseJavaCounter;

typedef struct PulseJavaApi {
  size_t size;          // of this structure
  const char* version;  // of PulseDB

  // An Env on `uri`, which the caller owns: *env is a rocksdb::Env*, for close_env or `delete`.
  // Blocks as pulse::NewFileSystem.
  int (*open_env)(const char* uri, void** env, char* error, size_t error_size);
  // After the last database on it has been closed.
  void (*close_env)(void* env);
  // pulse::PlaceCompactions and pulse::CompressOnAgent, of a rocksdb::Options*.
  int (*place)(void* options, char* error, size_t error_size);
  // The same, of a rocksdb::DBOptions* and the rocksdb::ColumnFamilyOptions* of `families` families
  // with these names.
  int (*place_families)(void* db_options, const char* const* names, void* const* options,
                        size_t families, char* error, size_t error_size);
  // pulse::CompressOnAgent for databases on `env`, of a rocksdb::ColumnFamilyOptions*.
  void (*compress)(void* env, void* options);
  // pulse::GetTickerMap: at most `room` of them are written; how many there are is returned.
  size_t (*counters)(void* env, PulseJavaCounter* counters, size_t room);
  // Puts the default Env of this RocksDB on PULSE_URI, where that is set.
  void (*install_default_env)(void);
} PulseJavaApi;

// The only name that the plug-in exports.
const PulseJavaApi* pulse_java_api(void);
}
