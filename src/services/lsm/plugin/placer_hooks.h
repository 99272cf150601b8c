// What RocksDB calls of a CompactionPlacer: its CompactionService, and the listener beside it.
// Thread-safe as the placer.
#pragma once

#include <memory>

#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "services/lsm/placement/compaction_placer.h"

namespace pulse::lsm {

// For DBOptions: both share `placer`, and the service needs the listener beside it.
std::shared_ptr<rocksdb::EventListener> NewPlacerListener(std::shared_ptr<CompactionPlacer> placer);
std::shared_ptr<rocksdb::CompactionService> NewPlacerService(
    std::shared_ptr<CompactionPlacer> placer, std::weak_ptr<rocksdb::EventListener> listener);
// Whether they have one already.
bool HasPlacer(const rocksdb::DBOptions& options);
// Behind a service that NewPlacerService made; null for another.
CompactionPlacer* PlacerOf(const rocksdb::CompactionService* service);

}  // namespace pulse::lsm
