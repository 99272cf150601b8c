#include "base/private_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

namespace pulse {
namespace {

TEST(PrivateMemoryTest, Memory_IsZeroedAndRoundedUpToPages) {
  auto m = PrivateMemory::Create(5000);
  ASSERT_TRUE(m.ok()) << m.status();
  EXPECT_EQ(m->size(), 8192u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(m->data()) % 4096, 0u);
  for (size_t i = 0; i < m->size(); ++i) ASSERT_EQ(m->data()[i], 0) << i;
  m->data()[8191] = 1;
}

TEST(PrivateMemoryTest, ImpossibleSize_IsAnError) {
  EXPECT_FALSE(PrivateMemory::Create(size_t{1} << 60).ok());
}

TEST(PrivateMemoryTest, MovedMemory_HasOneOwner) {
  PrivateMemory a = PrivateMemory::Create(4096).value();
  char* const data = a.data();
  PrivateMemory b = std::move(a);
  EXPECT_EQ(b.data(), data);
  PrivateMemory c;
  c = std::move(b);
  EXPECT_EQ(c.data(), data);
  c.data()[0] = 1;
}

}  // namespace
}  // namespace pulse
