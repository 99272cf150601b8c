// Limits of pulse/ops.h on what a request becomes.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pulse/ops.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using operators::Operators;
using operators::Request;
using operators::Result;
using operators::Rules;

class OpsLimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ops_ = Operators::Open(nullptr, &why);
    ASSERT_TRUE(ops_) << why;
  }

  Result Compress(std::string_view data) {
    Request request(PULSE_OPS_COMPRESS);
    return ops_.Run(request.From(data));
  }

  Operators ops_;
};

TEST_F(OpsLimitsTest, Run_Limits_Refused) {
  std::string zeros;
  zeros.resize(30000000);
  const Result bomb = Compress(zeros);
  Request request(PULSE_OPS_DECOMPRESS);
  request.From(bomb.data()).max_output = 1000000;
  const Result refused = ops_.Run(request);
  EXPECT_EQ(refused.code(), PULSE_OPS_TOO_LARGE);
  EXPECT_LE(refused.data().size(), 1000000u);
  request.max_output = zeros.size();
  EXPECT_TRUE(ops_.Run(request).ok());

  const std::string random = MakeData(Kind::kRandom, 100000, 1);
  Request packing(PULSE_OPS_COMPRESS);
  packing.From(random).max_output = 50000;
  EXPECT_EQ(ops_.Run(packing).code(), PULSE_OPS_TOO_LARGE);
}

TEST_F(OpsLimitsTest, Filter_OfABomb_Refused) {
  std::string lines;
  while (lines.size() < 10'000'000) lines += "nothing\n";
  const Result bomb = Compress(lines);
  std::string why;
  const Rules rules = Rules::Compile({"hit"}, 0, &why);
  ASSERT_TRUE(rules) << why;
  Request request(PULSE_OPS_FILTER);
  request.From(bomb.data()).rules = rules.get();
  // Nothing matches: no limit of the output is reached.
  request.max_output = 1;
  EXPECT_TRUE(ops_.Run(request).ok());
  request.max_decompressed = lines.size() - 1;
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_TOO_LARGE);
  EXPECT_EQ(ops_.Submit(request).get().code(), PULSE_OPS_TOO_LARGE);
  request.max_decompressed = lines.size();
  EXPECT_TRUE(ops_.Run(request).ok());
  // A program of the header before has no such member.
  request.max_decompressed = 1;
  request.struct_size = offsetof(pulse_ops_request, max_decompressed);
  EXPECT_TRUE(ops_.Run(request).ok());
  Request other(PULSE_OPS_COMPRESS);
  other.From(lines).max_decompressed = 1;
  EXPECT_EQ(ops_.Run(other).code(), PULSE_OPS_INVALID);
}

TEST_F(OpsLimitsTest, Filter_OfALongLine_RefusedByRunAndBySubmit) {
  std::string why;
  const Rules rules = Rules::Compile({"hit"}, 0, &why);
  ASSERT_TRUE(rules) << why;
  const std::string lines = "a hit\n" + std::string(3'000'000, 'x') + " hit\n";
  Request request(PULSE_OPS_FILTER);
  request.From(lines).rules = rules.get();
  request.max_record = 2'000'000;
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_TOO_LARGE);
  const Result refused = ops_.Submit(request).get();
  EXPECT_EQ(refused.code(), PULSE_OPS_TOO_LARGE);
  EXPECT_NE(refused.message().find("max_record"), std::string::npos) << refused.message();
  request.max_record = 3'000'100;
  EXPECT_EQ(ops_.Submit(request).get().data(), lines);
}

TEST_F(OpsLimitsTest, Filter_Plain_TakesALengthThatLooksCompressedForOne) {
  std::string why;
  const Rules rules = Rules::Compile({"hit"}, PULSE_OPS_PREFIXED, &why);
  ASSERT_TRUE(rules) << why;
  constexpr uint32_t kLength = 0x00088b1f;  // as gzip begins
  std::string record("\x1f\x8b\x08\0hit", 7);
  record.resize(4 + kLength, 'x');
  Request request(PULSE_OPS_FILTER);
  request.From(record).rules = rules.get();
  for (const uint32_t more :
       {uint32_t{0}, uint32_t{PULSE_OPS_COUNT}, uint32_t{PULSE_OPS_EXTRACT}}) {
    request.flags = PULSE_OPS_PLAIN | more;
    for (const Result& result : {ops_.Run(request), ops_.Submit(request).get()}) {
      EXPECT_TRUE(result.ok()) << result.message();
      EXPECT_EQ(result.raw().selected, 1U);
    }
  }
  Request other(PULSE_OPS_COMPRESS);
  other.From(record).flags = PULSE_OPS_PLAIN;
  EXPECT_EQ(ops_.Run(other).code(), PULSE_OPS_INVALID);
}

}  // namespace
}  // namespace pulse::ops
