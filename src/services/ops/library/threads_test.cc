// On which CPUs pulse/ops.h calls the functions of a program.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_list.h"
#include "pulse/ops.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using operators::Operators;
using operators::Request;
using operators::Rules;

TEST(OpsThreadsTest, Filter_WithCpus_CallsTheProgramsFunctionsOnThem) {
  const std::vector<int> all = MyCpus();
  if (all.size() < 2) GTEST_SKIP() << "one CPU: no other place";
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  const std::string cpu = std::to_string(all.back());
  options.cpus = cpu.c_str();
  const Operators one = Operators::Open(&options, nullptr);
  ASSERT_TRUE(one);
  std::string why;
  const Rules rules = Rules::Compile({"hit"}, 0, &why);
  ASSERT_TRUE(rules) << why;
  struct Seen {
    std::vector<int> read;
    std::vector<int> write;
    bool given = false;
  } seen;
  Request request(PULSE_OPS_FILTER);
  request.rules = rules.get();
  request.read_arg = request.write_arg = &seen;
  request.read = [](void* arg, void* to, size_t) -> int64_t {
    auto* of = static_cast<Seen*>(arg);
    of->read = MyCpus();
    if (std::exchange(of->given, true)) return 0;
    std::memcpy(to, "hit\n", 4);
    return 4;
  };
  request.write = [](void* arg, const void*, size_t) {
    static_cast<Seen*>(arg)->write = MyCpus();
    return 0;
  };
  EXPECT_TRUE(one.Run(request).ok());
  EXPECT_EQ(seen.read, std::vector<int>{all.back()});
  EXPECT_EQ(seen.write, std::vector<int>{all.back()});
  EXPECT_EQ(MyCpus(), all) << "the caller stays where it was";
}

}  // namespace
}  // namespace pulse::ops
