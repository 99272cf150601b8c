// A store on the simulated disk, without background work. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {

class SimStoreTest : public ::testing::Test {
 protected:
  SimStoreTest() {
    options_.files = &files_;
    options_.background = false;
  }
  // Again, too: what the former one has written is there.
  void Open() {
    store_.reset();
    auto store = GraphStore::Open("db", options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  SimFiles files_;
  StoreOptions options_;
  std::unique_ptr<GraphStore> store_;
};

}  // namespace pulse::graph
