// The listener behind pulse::NewWaitListener. Thread-safe; does not block but for RocksDB's logger.
#pragma once

#include <memory>

#include "pulse/rocksdb.h"
#include "rocksdb/listener.h"

namespace pulse::lsm {

// By which RocksDB's options name it.
inline constexpr char kJobListenerName[] = "PulseWaitListener";

std::unique_ptr<rocksdb::EventListener> MakeJobListener(JobCallback callback);

}  // namespace pulse::lsm
