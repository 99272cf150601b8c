#include "services/offload/containment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "services/offload/program.h"
#include "services/offload/test_bench.h"

namespace pulse::offload::test {
namespace {

using testing_util::Eventually;
using testing_util::kThreadSanitizer;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = kThreadSanitizer;
#endif

constexpr char kObject[] = PULSE_TEST_FAULTY_PROGRAM;

const Program* Faulty() { return LoadProgram(kObject).value(); }

TEST(ContainmentTest, Run_FaultyCode_IsLeftAndTheThreadGoesOn) {
  if (kSanitized) GTEST_SKIP() << "sanitizers report faults that are made on purpose, and end";
  ASSERT_EQ(Containment::Install(), absl::OkStatus());
  volatile int* volatile nowhere = nullptr;
  volatile bool never = false;
  const auto once = [&] {
    int done = 0;
    EXPECT_EQ(Containment::Run([&] { done = 1; }), Containment::End::kReturned);
    EXPECT_EQ(done, 1);
    EXPECT_EQ(Containment::Run([&] { *nowhere = 1; }), Containment::End::kCrashed);
    EXPECT_EQ(Containment::Run([&] { abort(); }), Containment::End::kCrashed);
    EXPECT_EQ(Containment::Run([&] { throw 1; }), Containment::End::kThrew);
    EXPECT_EQ(Containment::Run([&] {
                while (!never) {
                }
              }),
              Containment::End::kTooLong);
    // Many short calls are no long one.
    volatile uint64_t n = 0;
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(Containment::Run([&] {
                  for (int k = 0; k < 200000; ++k) n = n + 1;
                }),
                Containment::End::kReturned);
    }
  };
  once();
  std::thread other(once);
  other.join();
  once();
}

TEST(ContainmentTest, OwnCode_BeyondTheBudget_IsFinished) {
  if (kThreadSanitizer) GTEST_SKIP() << "signals come late under ThreadSanitizer";
  ASSERT_EQ(Containment::Install(), absl::OkStatus());
  bool finished = false;
  volatile uint64_t n = 0;
  const Containment::End end = Containment::Run([&] {
    {
      const Containment::Own own;
      timespec begin, now;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      do {
        n = n + 1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      } while ((now.tv_sec - begin.tv_sec) * 1'000'000'000 + now.tv_nsec - begin.tv_nsec <
               3 * Containment::kBudgetNanos);
      finished = true;
    }
    while (true) n = n + 1;
  });
  EXPECT_EQ(end, Containment::End::kTooLong);
  EXPECT_TRUE(finished);
}

// Nor is it a place to stay for ever.
TEST(ContainmentTest, OwnCode_InAnEndlessLoop_IsLeft) {
  if (kThreadSanitizer) GTEST_SKIP() << "signals come late under ThreadSanitizer";
  ASSERT_EQ(Containment::Install(), absl::OkStatus());
  volatile uint64_t n = 0;
  const Containment::End end = Containment::Run([&] {
    while (true) {
      const Containment::Own own;
      for (int i = 0; i < 100'000; ++i) n = n + 1;
    }
  });
  EXPECT_EQ(end, Containment::End::kTooLong);
}

TEST(ProgramTest, Objects_OfWrongKinds_AreRefused) {
  ASSERT_TRUE(LoadProgram(kObject).ok());
  EXPECT_EQ(LoadProgram("./nothing-there.so").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadProgram("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadProgram("libc.so.6").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadProgram("/lib/x86_64-linux-gnu/libc.so.6").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(CheckProgram(MakeProgram(Order::kAny)).ok());

  const auto refused = [](auto change) {
    Program p = MakeProgram(Order::kAny);
    change(&p);
    return CheckProgram(p).code() == absl::StatusCode::kFailedPrecondition;
  };
  EXPECT_TRUE(refused([](Program* p) { p->version = 2; }));
  EXPECT_TRUE(refused([](Program* p) { p->size = 8; }));
  EXPECT_TRUE(refused([](Program* p) { p->name = nullptr; }));
  EXPECT_TRUE(refused([](Program* p) { p->key_size = 65; }));
  EXPECT_TRUE(refused([](Program* p) { p->item_size = 257; }));
  EXPECT_TRUE(refused([](Program* p) { p->max_request = 0; }));
  EXPECT_TRUE(refused([](Program* p) { p->max_request = 4097; }));
  EXPECT_TRUE(refused([](Program* p) { p->max_reply_header = 1025; }));
  EXPECT_TRUE(refused([](Program* p) { p->max_reply_trailer = 65; }));
  EXPECT_TRUE(refused([](Program* p) { p->order = static_cast<Order>(2); }));
  EXPECT_TRUE(refused([](Program* p) { p->split_request = nullptr; }));
  EXPECT_TRUE(refused([](Program* p) { p->split_reply = nullptr; }));
  EXPECT_TRUE(refused([](Program* p) { p->read = nullptr; }));
  EXPECT_TRUE(refused([](Program* p) { p->key_size = 0; }));
}

// What a function says that cannot be: the host answers, and the program goes on.
TEST(FaultyProgramTest, Program_SaysNonsense_HostAnswersAndItGoesOn) {
  Setting s({.program = Faulty()});
  TestClient client = s.NewClient();
  uint64_t id = 0;
  for (const uint64_t fault : {20, 21, 22, 23, 24, 25, 26, 27, 28, 40, 41, 42, 43, 44, 62, 63}) {
    const Answer a = client.Do({++id, s.file_id, fault, 4096, Op::kFault});
    ASSERT_FALSE(a.ended) << fault;
    EXPECT_EQ(a.header.by_agent, 0u) << fault;
    EXPECT_EQ(a.header.id, id) << fault;
    EXPECT_FALSE(s.engine->runtime()->off()) << fault;
    EXPECT_EQ(client.Do(s.ReadOf(++id, 0, 10)).header.by_agent, 1u) << fault;
  }
}

// A crash, an exception, an endless loop, in each of the functions: the request in hand and all
// later ones go to the host.
TEST(FaultyProgramTest, Program_CrashesThrowsOrLoops_IsSwitchedOff) {
  if (kSanitized) GTEST_SKIP() << "sanitizers report faults that are made on purpose, and end";
  std::vector<uint64_t> faults = {1, 2, 3, 4, 5, 29, 45, 60, 61, 64};
#if !defined(__SANITIZE_ADDRESS__)
  faults.push_back(6);  // the sanitizer has its own mind about stacks
#endif
  for (const uint64_t fault : faults) {
    Setting s({.program = Faulty()});
    TestClient client = s.NewClient();
    EXPECT_EQ(client.Do(s.ReadOf(1, 0, 10)).header.by_agent, 1u);
    const Answer a = client.Do({2, s.file_id, fault, 4096, Op::kFault});
    ASSERT_FALSE(a.ended) << fault;
    EXPECT_EQ(a.header.by_agent, 0u) << fault;
    EXPECT_EQ(a.header.id, 2u) << fault;
    EXPECT_TRUE(s.engine->runtime()->off()) << fault;
    const Answer later = client.Do(s.ReadOf(3, 0, 16));
    EXPECT_EQ(later.header.by_agent, 0u) << fault;
    EXPECT_EQ(later.data, Stamped(1000, 16)) << fault;
    TestClient other = s.NewClient();
    EXPECT_EQ(other.Do(s.ReadOf(4, 4096, 16)).data, Stamped(1001, 16)) << fault;
  }
}

TEST(FaultyProgramTest, Program_FaultInSplitRequest_EndsTheConnection) {
  if (kSanitized) GTEST_SKIP() << "sanitizers report faults that are made on purpose, and end";
  for (const uint64_t fault : {80, 81, 82}) {
    Setting s({.program = Faulty()});
    TestClient client = s.NewClient();
    EXPECT_EQ(client.Do(s.ReadOf(1, 0, 10)).header.by_agent, 1u);
    ASSERT_TRUE(client.Ask({{2, s.file_id, fault, 4096, Op::kFault}}));
    while (!client.Next().ended) {
    }
    EXPECT_EQ(s.engine->runtime()->broken(), fault == 80);
    TestClient other = s.NewClient();
    EXPECT_EQ(other.Do(s.ReadOf(3, 0, 10)).ended, fault == 80);
  }
}

TEST(FaultyProgramTest, Program_FaultInItsCache_FileServiceIsUnharmed) {
  if (kSanitized) GTEST_SKIP() << "sanitizers report faults that are made on purpose, and end";
  for (const uint64_t block : {100, 101}) {
    Setting s({.program = Faulty()});
    EXPECT_EQ(s.files->Write(s.file, block * 4096, Stamped(1, 4096)).status, absl::OkStatus());
    EXPECT_TRUE(s.engine->runtime()->off());
    EXPECT_EQ(s.files->Read(s.file, block * 4096, 4096), Stamped(1, 4096));
    EXPECT_EQ(s.files->Write(s.file, block * 4096, Stamped(2, 4096)).status, absl::OkStatus());
    EXPECT_EQ(s.files->Read(s.file, block * 4096, 4096), Stamped(2, 4096));
  }
}

}  // namespace
}  // namespace pulse::offload::test
