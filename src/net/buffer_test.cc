#include "net/buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "net/out_queue.h"
#include "net/ring.h"

namespace pulse::net {
namespace {

TEST(BufferTest, Take_WithHeadroom_IsAlignedWithRoomForAHeader) {
  BufferPool pool({.block_bytes = 8192, .blocks = 2});
  auto buffer = pool.Take(8192, 100);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % BufferPool::kAlignment, 0u);
  EXPECT_GE(buffer->headroom(), 100u);
  EXPECT_EQ(buffer->size(), 8192u);
  memset(buffer->data(), 'd', 8192);
  memcpy(buffer->Prepend(3), "hdr", 3);
  EXPECT_EQ(buffer->view().substr(0, 5), "hdrdd");
  EXPECT_EQ(buffer->size(), 8195u);
  EXPECT_EQ(buffer->tailroom(), 0u);
  buffer->Trim(2, 4);
  EXPECT_EQ(buffer->view(), "rddd");
  memcpy(buffer->Grow(2), "\r\n", 2);
  EXPECT_EQ(buffer->view(), "rddd\r\n");
  EXPECT_FALSE(pool.Take(8193, 0).has_value());
  EXPECT_FALSE(pool.Take(1, BufferPool::kAlignment + 1).has_value());
}

TEST(BufferTest, Buffers_FreedOnAnyThread_ReturnToThePoolAndOutliveIt) {
  Buffer kept;
  {
    BufferPool pool({.block_bytes = 4096, .blocks = 64});
    for (int round = 0; round < 50; ++round) {
      std::vector<Buffer> taken;
      while (auto buffer = pool.Take(4096, 0)) taken.push_back(*std::move(buffer));
      ASSERT_EQ(taken.size(), 64u);
      EXPECT_EQ(pool.in_use(), 64u);
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        std::vector<Buffer> part;
        for (int i = 0; i < 16; ++i) {
          part.push_back(std::move(taken.back()));
          taken.pop_back();
        }
        threads.emplace_back([mine = std::move(part)]() mutable {
          for (Buffer& b : mine) memset(b.data(), 1, b.size());
          mine.clear();
        });
      }
      for (auto& t : threads) t.join();
      EXPECT_EQ(pool.in_use(), 0u);
    }
    kept = *pool.Take(10, 0);
    memcpy(kept.data(), "still here", 10);
  }
  EXPECT_EQ(kept.view(), "still here");
}

TEST(OutQueueTest, OutQueue_ConsumedInPortions_GivesWhatWasAppended) {
  std::mt19937_64 random(testing_util::TestSeed());
  ChunkCache cache;
  BufferPool pool({.block_bytes = 4096, .blocks = 16});
  for (int round = 0; round < 200; ++round) {
    OutQueue queue(&cache);
    std::string expected;
    std::string got;
    for (int step = 0; step < 100; ++step) {
      const std::string bytes(random() % (random() % 8 == 0 ? 200'000 : 100),
                              static_cast<char>('a' + step % 26));
      auto buffer =
          random() % 4 == 0 && bytes.size() <= 4096 ? pool.Take(bytes.size(), 0) : std::nullopt;
      if (buffer.has_value()) {
        memcpy(buffer->data(), bytes.data(), bytes.size());
        queue.Append(*std::move(buffer));
      } else {
        queue.Append(bytes);
      }
      expected += bytes;
      iovec iov[5];
      const size_t n = queue.Peek(iov, 5);
      size_t there = 0;
      for (size_t i = 0; i < n; ++i) there += iov[i].iov_len;
      ASSERT_LE(there, queue.size());
      const size_t take = there == 0 ? 0 : random() % (there + 1);
      // What was peeked at stays where it is while more is appended.
      queue.Append("more");
      expected += "more";
      for (size_t i = 0, left = take; i < n && left > 0; ++i) {
        const size_t part = std::min(left, iov[i].iov_len);
        got.append(static_cast<const char*>(iov[i].iov_base), part);
        left -= part;
      }
      queue.Consume(take);
    }
    EXPECT_EQ(got, expected.substr(0, got.size()));
    EXPECT_EQ(queue.size(), expected.size() - got.size());
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(RingTest, Ring_UsedAndReleased_KeepsOrderAndNoMemory) {
  Ring<std::string> ring;
  EXPECT_EQ(ring.memory(), 0u);
  int in = 0;
  int out = 0;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < round % 13; ++i) ring.push_back(std::to_string(in++));
    while (out < in && ring.size() > static_cast<size_t>(round % 5)) {
      ASSERT_EQ(ring.front(), std::to_string(out++));
      ring.pop_front();
    }
  }
  ring.clear();
  EXPECT_GT(ring.memory(), 0u);
  ring.Release();
  EXPECT_EQ(ring.memory(), 0u);
}

}  // namespace
}  // namespace pulse::net
