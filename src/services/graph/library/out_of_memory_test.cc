// What a program sees of a result when the system refuses memory: at every allocation in turn.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "pulse/graph.h"
#include "services/graph/library/arrow.h"

namespace {

// Of this thread; below 0: any number.
thread_local int64_t allocations_left = -1;

void* AllocateCounted(size_t size) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(size == 0 ? 1 : size);
}

void* AllocateOrThrow(size_t size) {
  void* const memory = AllocateCounted(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// All that go together: a sanitizer's own may not meet these.
void* operator new(size_t size) { return AllocateOrThrow(size); }
void* operator new[](size_t size) { return AllocateOrThrow(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return AllocateCounted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return AllocateCounted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace pulse::graph {
namespace {

// More than any call here needs.
constexpr int64_t kManyAllocations = 100'000;

template <typename Call>
auto WithAllocations(int64_t number, const Call& call) {
  allocations_left = number;
  auto result = call();
  allocations_left = -1;
  return result;
}

class OutOfMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pulse_graph_open(nullptr, nullptr, &graph_, nullptr), PULSE_GRAPH_OK);
  }
  void TearDown() override {
    pulse_graph_result_free(result_);
    pulse_graph_free(graph_);
  }
  void Run(const char* query) {
    pulse_graph_error error;
    pulse_graph_error_init(&error);
    ASSERT_EQ(pulse_graph_execute(graph_, query, SIZE_MAX, nullptr, &result_, &error),
              PULSE_GRAPH_OK)
        << error.message;
  }

  pulse_graph* graph_ = nullptr;
  pulse_graph_result* result_ = nullptr;
};

TEST_F(OutOfMemoryTest, NextRow_IsNullAndStaysTheNext) {
  Run("UNWIND [1, 2] AS i RETURN i, [range(1, 6000), range(1, 6000)] AS lists");
  for (int64_t taken = 0; taken < 2; ++taken) {
    const pulse_graph_value* row = nullptr;
    int refused = 0;
    for (int64_t n = 0; row == nullptr && n < kManyAllocations; ++n) {
      row = WithAllocations(n, [&] { return pulse_graph_next(result_); });
      if (row == nullptr) ++refused;
    }
    ASSERT_NE(row, nullptr);
    // The second has the first one's room, but for what a huge row is given.
    EXPECT_GT(refused, 0);
    EXPECT_EQ(row[0].as.integer, taken + 1);
    ASSERT_EQ(row[1].size, 2u);
    for (size_t list = 0; list < 2; ++list) {
      ASSERT_EQ(row[1].as.items[list].size, 6000u);
      EXPECT_EQ(row[1].as.items[list].as.items[5999].as.integer, 6000);
    }
  }
  EXPECT_EQ(pulse_graph_next(result_), nullptr);
}

TEST_F(OutOfMemoryTest, ArrowStream_SaysSoAndGoesOn) {
  Run("UNWIND range(1, 40) AS i RETURN i, 'a text of some length: ' + i AS s, [i, i + 1] AS l, "
      "{a: i, b: 'another text of some length'} AS m");
  ArrowArrayStream stream;
  ASSERT_EQ(pulse_graph_arrow(result_, &stream, nullptr), PULSE_GRAPH_OK);
  const auto try_all = [&](auto* out, const auto& call) {
    int refused = 0;
    for (int64_t n = 0; n < kManyAllocations; ++n) {
      const int code = WithAllocations(n, call);
      if (code == 0) break;
      ++refused;
      ASSERT_EQ(code, ENOMEM);
      ASSERT_EQ(out->release, nullptr);
      ASSERT_STREQ(stream.get_last_error(&stream), "out of memory");
    }
    EXPECT_GT(refused, 5);
    ASSERT_NE(out->release, nullptr);
  };
  ArrowSchema schema;
  try_all(&schema, [&] { return stream.get_schema(&stream, &schema); });
  ArrowArray array;
  try_all(&array, [&] { return stream.get_next(&stream, &array); });
  ASSERT_EQ(schema.n_children, 4);
  EXPECT_STREQ(schema.children[3]->children[1]->name, "b");
  ASSERT_EQ(array.n_children, 4);
  EXPECT_EQ(array.length, 40);
  int64_t last = 0;
  std::memcpy(&last, static_cast<const int64_t*>(array.children[0]->buffers[1]) + 39, sizeof last);
  EXPECT_EQ(last, 40);
  schema.release(&schema);
  array.release(&array);
  ASSERT_EQ(stream.get_next(&stream, &array), 0);
  EXPECT_EQ(array.release, nullptr) << "the end";
  stream.release(&stream);
}

}  // namespace
}  // namespace pulse::graph
