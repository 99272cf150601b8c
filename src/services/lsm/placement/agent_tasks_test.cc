// Whole compactions on the agent, with a function that stands for RocksDB; and what the two sides
// say about them.
#include "services/lsm/placement/agent_tasks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/testing.h"
#include "services/lsm/placement/cpu_share.h"
#include "services/lsm/placement/host_task.h"
#include "services/lsm/placement/task_slots.h"
#include "services/lsm/placement/test_cpus.h"

namespace pulse::lsm {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::TestSeed;

TaskRequest SomeRequest() {
  TaskRequest r;
  r.db = "/data/db";
  r.output_dir = "/data/db/pulse-tasks/1";
  r.column_family = "default";
  r.input.assign(5000, 'x');
  r.input.append("\0y", 2);
  r.version = "7.8.3";
  r.device = 7;
  r.inode = ~uint64_t{0};
  r.manual = true;
  r.urgent = true;
  return r;
}

TaskRequest Deeper() {
  TaskRequest r = SomeRequest();
  r.urgent = false;
  return r;
}

TEST(TaskSlots, Take_UpToTheMost_GivesBackOnce) {
  TaskSlots slots;
  auto a = slots.Take(2);
  auto b = slots.Take(2);
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(slots.Take(2), nullptr);
  EXPECT_EQ(slots.Take(0), nullptr);
  a->GiveBack();
  EXPECT_EQ(slots.taken(), 1);
  a.reset();
  EXPECT_EQ(slots.taken(), 1);
  EXPECT_NE(slots.Take(2), nullptr);
  b.reset();
  EXPECT_EQ(slots.taken(), 0);
}

TEST(TaskWire, Request_RoundTrip_IsEqual) {
  const TaskRequest r = SomeRequest();
  auto fd = WriteTask(r);
  ASSERT_TRUE(fd.ok()) << fd.status();
  auto back = ReadTask(fd->get());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->db, r.db);
  EXPECT_EQ(back->output_dir, r.output_dir);
  EXPECT_EQ(back->column_family, r.column_family);
  EXPECT_EQ(back->input, r.input);
  EXPECT_EQ(back->version, r.version);
  EXPECT_EQ(back->device, r.device);
  EXPECT_EQ(back->inode, r.inode);
  EXPECT_TRUE(back->manual);
  EXPECT_TRUE(back->urgent);
  TaskRequest automatic = r;
  automatic.manual = false;
  back = DecodeTask(EncodeTask(automatic));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_FALSE(back->manual);
  EXPECT_TRUE(back->urgent);
  back = DecodeTask(EncodeTask(Deeper()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->manual);
  EXPECT_FALSE(back->urgent);
}

TEST(TaskWire, Request_CutOrChanged_IsRefusedOrHarmless) {
  const std::string good = EncodeTask(SomeRequest());
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(DecodeTask(absl::string_view(good.data(), n)).ok()) << n;
  }
  EXPECT_FALSE(DecodeTask(good + "x").ok());
  std::string older = good;
  --older[3];
  EXPECT_EQ(ErrnoOf(DecodeTask(older).status()), EOPNOTSUPP);
  std::mt19937_64 rng(TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (uint64_t k = rng() % 8 + 1; k > 0; --k) {
      bad[rng() % std::min<size_t>(bad.size(), 120)] = static_cast<char>(rng());
    }
    auto r = DecodeTask(bad);
    if (r.ok()) {
      EXPECT_EQ(r->output_dir.compare(0, r->db.size() + 1, r->db + "/"), 0);
    }
  }
}

TEST(TaskWire, Request_OutputsOutsideTheDatabase_IsRefused) {
  for (const char* dir : {"/data/dbx/1", "/data/db", "/etc", "data/db/1", "/data/db/../x", ""}) {
    TaskRequest r = SomeRequest();
    r.output_dir = dir;
    EXPECT_FALSE(DecodeTask(EncodeTask(r)).ok()) << dir;
  }
}

TEST(TaskWire, Request_Unsealed_IsRefused) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string bytes = EncodeTask(SomeRequest());
  ASSERT_EQ(write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_THAT(std::string(ReadTask(fd.get()).status().message()), HasSubstr("sealed"));
  UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(ReadTask(null.get()).ok());
}

TaskRunnerOptions Tasks(size_t n) {
  TaskRunnerOptions o;
  o.max_tasks = n;
  return o;
}

// A task on `runner`, which gets the request as an agent does: by descriptors that are passed.
absl::StatusOr<std::unique_ptr<HostTask>> StartOn(TaskRunner* runner, const TaskRequest& request) {
  return HostTask::Start(
      [&](int memory, int reply) {
        return runner->Start(UniqueFd(fcntl(memory, F_DUPFD_CLOEXEC, 0)),
                             UniqueFd(fcntl(reply, F_DUPFD_CLOEXEC, 0)));
      },
      request);
}

// Runs until it is let go or cancelled.
struct Gate {
  std::atomic<bool> open{false};
  std::atomic<int> started{0};
  std::atomic<int> cancelled{0};
  TaskFunction function() {
    return [this](const TaskRequest& r, std::atomic<bool>* c) -> absl::StatusOr<std::string> {
      ++started;
      Eventually([&] { return open || *c; });
      if (*c) {
        ++cancelled;
        return absl::CancelledError("cancelled");
      }
      return r.input;
    };
  }
};

TEST(TaskRunner, Start_TaskSucceeds_AnswersWithTheResult) {
  Gate gate;
  TaskRunner runner(Tasks(1), gate.function());
  auto task = StartOn(&runner, SomeRequest());
  ASSERT_TRUE(task.ok()) << task.status();
  gate.open = true;
  auto result = (*task)->Wait(-1);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, SomeRequest().input);
  EXPECT_EQ(runner.counters()->running.load(), 0u);
  EXPECT_EQ(runner.counters()->done.load(), 1u);
  EXPECT_EQ(runner.counters()->failed.load(), 0u);
}

TEST(TaskRunner, Start_LargeResult_ArrivesWhole) {
  std::string large;
  large.resize(20'000'000);
  std::mt19937_64 rng(TestSeed());
  for (char& c : large) c = static_cast<char>(rng());
  TaskRunner runner(Tasks(1), [&](const TaskRequest&, std::atomic<bool>*) {
    return absl::StatusOr<std::string>(large);
  });
  auto task = StartOn(&runner, SomeRequest());
  ASSERT_TRUE(task.ok()) << task.status();
  auto result = (*task)->Wait(-1);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(*result == large);
}

TEST(TaskRunner, Start_AllSlotsTaken_IsBusy) {
  Gate gate;
  TaskRunner runner(Tasks(2), gate.function());
  auto a = StartOn(&runner, SomeRequest());
  auto b = StartOn(&runner, SomeRequest());
  ASSERT_TRUE(a.ok() && b.ok());
  const auto c = StartOn(&runner, SomeRequest());
  EXPECT_EQ(ErrnoOf(c.status()), EBUSY) << c.status();
  EXPECT_EQ(runner.counters()->most.load(), 2u);
  EXPECT_EQ(runner.counters()->running.load(), 2u);
  EXPECT_EQ(runner.counters()->refused.load(), 1u);
  gate.open = true;
  EXPECT_TRUE((*a)->Wait(-1).ok());
  EXPECT_TRUE((*b)->Wait(-1).ok());
  // Who has the answer may ask for the next at once.
  EXPECT_TRUE(StartOn(&runner, SomeRequest()).ok());
}

TEST(TaskSlots, Take_NotUrgent_LeavesTheLastSlot) {
  TaskSlots slots;
  auto a = slots.Take(3, false);
  auto b = slots.Take(3, false);
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(slots.Take(3, false), nullptr);
  EXPECT_EQ(slots.taken(), 2);
  EXPECT_NE(slots.Take(3, true), nullptr);
  a->GiveBack();
  a->GiveBack();
  EXPECT_NE(slots.Take(3, false), nullptr);
  b.reset();
  auto c = slots.Take(1, false);
  EXPECT_NE(c, nullptr);
  EXPECT_EQ(slots.Take(1, false), nullptr);
  EXPECT_EQ(slots.Take(0, false), nullptr);
  c.reset();
  a.reset();
  EXPECT_EQ(slots.taken(), 0);
}

// For writers wait for level 0. One place alone is for all.
TEST(TaskRunner, Start_NotUrgent_LeavesTheLastSlot) {
  Gate gate;
  TaskRunner runner(Tasks(3), gate.function());
  std::vector<std::unique_ptr<HostTask>> tasks;
  const auto starts = [&](const TaskRequest& request) {
    auto task = StartOn(&runner, request);
    if (task.ok()) {
      tasks.push_back(*std::move(task));
      return true;
    }
    EXPECT_EQ(ErrnoOf(task.status()), EBUSY) << task.status();
    return false;
  };
  EXPECT_TRUE(starts(Deeper()));
  EXPECT_TRUE(starts(Deeper()));
  EXPECT_FALSE(starts(Deeper()));
  EXPECT_TRUE(starts(SomeRequest()));
  EXPECT_FALSE(starts(SomeRequest()));
  gate.open = true;
  for (auto& task : tasks) EXPECT_TRUE(task->Wait(-1).ok());
  tasks.clear();
  gate.open = false;
  // Level 0 may have them all.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(starts(SomeRequest()));
  EXPECT_FALSE(starts(Deeper()));
  gate.open = true;
  for (auto& task : tasks) EXPECT_TRUE(task->Wait(-1).ok());
  TaskRunner one(Tasks(1), gate.function());
  EXPECT_TRUE(StartOn(&one, Deeper()).ok());
}

TEST(TaskRunner, Start_Urgent_HasTheHigherPriority) {
  const int usual = getpriority(PRIO_PROCESS, 0);
  TaskRunnerOptions options = Tasks(2);
  options.nice = usual + 2;
  options.deeper_nice = 3;
  TaskRunner runner(options, [](const TaskRequest&, std::atomic<bool>*) {
    return absl::StatusOr<std::string>(
        absl::StrCat(getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()))));
  });
  const auto nice = [&](const TaskRequest& request) -> std::string {
    return StartOn(&runner, request).value()->Wait(-1).value();
  };
  constexpr int kLeast = 19;
  EXPECT_EQ(nice(SomeRequest()), absl::StrCat(std::min(usual + 2, kLeast)));
  EXPECT_EQ(nice(Deeper()), absl::StrCat(std::min(usual + 5, kLeast)));
}

TEST(TaskRunner, HostLeaves_RunningTask_IsCancelled) {
  Gate gate;
  TaskRunner runner(Tasks(1), gate.function());
  StartOn(&runner, SomeRequest()).value().reset();
  EXPECT_TRUE(Eventually([&] { return runner.running() == 0; }));
  EXPECT_EQ(gate.cancelled, gate.started);
}

TEST(TaskRunner, Destructor_RunningTasks_AreCancelledAndTold) {
  Gate gate;
  auto runner = std::make_unique<TaskRunner>(Tasks(3), gate.function());
  std::vector<std::unique_ptr<HostTask>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(StartOn(runner.get(), SomeRequest()).value());
  }
  runner.reset();
  for (auto& task : tasks) EXPECT_TRUE(absl::IsCancelled(task->Wait(-1).status()));
}

TEST(HostTask, Cancel_WhileWaiting_EndsTheWait) {
  Gate gate;
  TaskRunner runner(Tasks(1), gate.function());
  auto task = StartOn(&runner, SomeRequest()).value();
  auto waiting = std::async(std::launch::async, [&] { return task->Wait(-1); });
  task->Cancel();
  EXPECT_TRUE(absl::IsCancelled(waiting.get().status()));
}

// The agent beats while it works: a wait with a deadline lasts as long as the task does.
TEST(HostTask, Wait_LongerThanTheDeadline_BeatsKeepItAlive) {
  Gate gate;
  TaskRunnerOptions options = Tasks(1);
  options.beat_ms = 10;
  TaskRunner runner(options, gate.function());
  auto task = StartOn(&runner, SomeRequest()).value();
  auto waiting = std::async(std::launch::async, [&] { return task->Wait(800); });
  // sleep: for longer than the deadline
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(1000)), std::future_status::timeout);
  gate.open = true;
  EXPECT_TRUE(waiting.get().ok());
}

// Its host is told what others leave of the agent's CPUs.
TEST(HostTask, Wait_ContendedAgent_IsTold) {
  if (!CpuShare::IsSupported()) GTEST_SKIP() << "this kernel keeps no account of it (schedstat)";
  const int cpu = MyCpus().front();
  TaskRunnerOptions options = Tasks(1);
  options.cpus = {cpu};
  std::atomic<bool> ended{false};
  const auto busy = [&](const TaskRequest&, std::atomic<bool>* canceled) {
    while (!*canceled) {
    }
    ended = true;
    return absl::StatusOr<std::string>(absl::CancelledError("cancelled"));
  };
  TaskRunner runner(options, busy);
  const test::BusyProcesses others(4, cpu);
  auto task = StartOn(&runner, SomeRequest()).value();
  int told = 0;
  double least = 1;
  const absl::Status why = task->Wait(-1,
                                      [&](double share) {
                                        least = std::min(least, share);
                                        if (++told == 3) task->Cancel();
                                      })
                               .status();
  EXPECT_TRUE(absl::IsCancelled(why)) << why;
  EXPECT_GE(told, 3) << "it goes on after the first";
  EXPECT_GT(least, 0);
  EXPECT_LT(least, 0.45);
  task->Abandon(60'000);
  EXPECT_TRUE(Eventually([&] { return ended.load(); }));
}

TEST(HostTask, Wait_TaskFails_KeepsCodeAndReason) {
  TaskRunner runner(Tasks(1), [](const TaskRequest&, std::atomic<bool>*) {
    return absl::StatusOr<std::string>(absl::UnimplementedError("no such comparator"));
  });
  auto task = StartOn(&runner, SomeRequest()).value();
  const absl::Status st = (*task).Wait(-1).status();
  EXPECT_TRUE(absl::IsUnimplemented(st)) << st;
  EXPECT_THAT(std::string(st.message()), HasSubstr("no such comparator"));
  EXPECT_EQ(runner.counters()->failed.load(), 1u);
  EXPECT_EQ(runner.counters()->done.load(), 0u);
}

}  // namespace
}  // namespace pulse::lsm
