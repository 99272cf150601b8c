// The threads of pulse/ops.h: on which CPUs they call the functions of a program, when they start,
// and that none of them leaves a request to another one that sleeps.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu_list.h"
#include "base/test_no_threads.h"
#include "base/testing.h"
#include "pulse/ops.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using operators::Operators;
using operators::Request;
using operators::Result;
using operators::Rules;
using testing_util::Eventually;

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

TEST(OpsThreadsTest, Filter_WithoutMemoryInAnyThread_FailsAndGoesOn) {
  const Operators all = Operators::Open(nullptr, nullptr);
  ASSERT_TRUE(all);
  const Rules rules = Rules::Compile({"x"}, 0, nullptr);
  Request reads(PULSE_OPS_FILTER);
  reads.rules = rules.get();
  reads.read = [](void*, void*, size_t) -> int64_t { throw std::bad_alloc(); };
  EXPECT_EQ(all.Run(reads).code(), PULSE_OPS_FAILED);
  Request writes(PULSE_OPS_FILTER);
  writes.rules = rules.get();
  writes.From("x\n");
  writes.write = [](void*, const void*, size_t) -> int { throw std::bad_alloc(); };
  EXPECT_EQ(all.Run(writes).code(), PULSE_OPS_FAILED);
  writes.operation = PULSE_OPS_COMPRESS;
  writes.rules = nullptr;
  EXPECT_EQ(all.Run(writes).code(), PULSE_OPS_FAILED);
}

TEST(OpsThreadsTest, Submit_WhereNoThreadStarts_FailsUntilOneDoes) {
  const Operators all = Operators::Open(nullptr, nullptr);
  ASSERT_TRUE(all);
  Request request(PULSE_OPS_COMPRESS);
  request.From("text");
  {
    const testing_util::NoThreads no_threads;
    EXPECT_EQ(pulse_ops_submit(all.get(), &request), PULSE_OPS_FAILED);
  }
  EXPECT_EQ(pulse_ops_submit(all.get(), &request), PULSE_OPS_OK);
  Result result;
  EXPECT_EQ(pulse_ops_wait(all.get(), result.get(), 60000), PULSE_OPS_OK);
  EXPECT_TRUE(result.ok()) << result.message();
}

// A request whose output is not taken until Open.
class HeldRequest {
 public:
  explicit HeldRequest(const Operators& ops) : ops_(ops) {
    request_.From("text");
    request_.write_arg = this;
    request_.write = [](void* arg, const void*, size_t) {
      auto* of = static_cast<HeldRequest*>(arg);
      std::unique_lock lock(of->mutex_);
      of->begun_ = true;
      of->changed_.notify_all();
      of->changed_.wait(lock, [&] { return of->open_; });
      return 0;
    };
  }
  void Submit() { ASSERT_EQ(pulse_ops_submit(ops_.get(), &request_), PULSE_OPS_OK); }
  void AwaitBegin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // The next result, of whichever request.
  void AwaitOne() {
    Result result;
    ASSERT_EQ(pulse_ops_wait(ops_.get(), result.get(), 30000), PULSE_OPS_OK);
    EXPECT_TRUE(result.ok()) << result.message();
  }

 private:
  const Operators& ops_;
  Request request_{PULSE_OPS_COMPRESS};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;
  bool open_ = false;
};

TEST(OpsThreadsTest, Submit_WhereTheFasterSideBecomesTheSlower_IsDoneByTheOther) {
  using Clock = std::chrono::steady_clock;
  const std::string cpu = std::to_string(MyCpus().front());
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  options.cpus = options.agent_cpus = cpu.c_str();
  const Operators both = Operators::Open(&options, nullptr);
  ASSERT_TRUE(both);
  // One side holds a request while the other one does many: it counts as the slower one.
  HeldRequest slow(both);
  const auto begun = Clock::now();
  slow.Submit();
  slow.AwaitBegin();
  for (int i = 0; i < 10; ++i) {
    HeldRequest quick(both);
    quick.Open();
    quick.Submit();
    quick.AwaitOne();
  }
  slow.Open();
  slow.AwaitOne();
  const auto took = Clock::now() - begun;
  // The faster one takes a request, and needs so long for it that it is the slower one then.
  HeldRequest longer(both);
  longer.Submit();
  longer.AwaitBegin();
  const auto since = Clock::now();
  // The other one leaves this to it meanwhile.
  HeldRequest left(both);
  left.Open();
  left.Submit();
  EXPECT_TRUE(Eventually([&] { return Clock::now() - since > 10 * took; }));
  longer.Open();
  longer.AwaitOne();
  left.AwaitOne();
}

}  // namespace
}  // namespace pulse::ops
