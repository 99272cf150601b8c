// Codes of errors as drivers see them: what a full disk is, and what is a limit of memory.
#include "services/graph/session/failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>

#include "base/errors.h"
#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

constexpr std::string_view kNoSpaceCode = "Neo.DatabaseError.General.OutOfDiskSpace";
constexpr std::string_view kMemoryCode = "Neo.ClientError.General.TransactionOutOfMemoryError";

TEST(FailureOf, FullDisk_HasACodeThatIsNotTriedAgain) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    const absl::Status full = ErrnoError(error, "writing", "db/00000001.wal");
    EXPECT_TRUE(IsDiskFull(full)) << full;
    for (const Doing doing : {Doing::kStore, Doing::kQuery, Doing::kSchema, Doing::kCommit}) {
      const Failure failure = FailureOf(full, doing);
      EXPECT_EQ(failure.code, kNoSpaceCode) << full;
      EXPECT_NE(failure.message.find("db/00000001.wal"), std::string::npos) << full;
      EXPECT_NE(failure.message.find("; "), std::string::npos) << "no remedy: " << full;
    }
    EXPECT_EQ(FailureOf(OfKind(full, "ExternalResourceFailed"), Doing::kSchema).code, kNoSpaceCode);
  }
  const absl::Status spilled =
      LimitError(absl::StatusCode::kResourceExhausted, "no space left in /tmp", kDiskFull);
  EXPECT_EQ(FailureOf(spilled, Doing::kQuery).code, kNoSpaceCode);
}

TEST(FailureOf, LimitsOfOtherThings_KeepTheirCodes) {
  for (const absl::Status& status :
       {ErrnoError(ENOMEM, "mapping", "db/00000001.run"),
        absl::ResourceExhaustedError("nodes may take 4096 bytes of memory (node_memory)"),
        LimitError(absl::StatusCode::kResourceExhausted, "the limit of memory")}) {
    EXPECT_FALSE(IsDiskFull(status)) << status;
    EXPECT_EQ(FailureOf(status, Doing::kQuery).code, kMemoryCode) << status;
    EXPECT_EQ(FailureOf(status, Doing::kCommit).code, kMemoryCode) << status;
  }
  EXPECT_EQ(FailureOf(LimitError(absl::StatusCode::kResourceExhausted, "the pool", "PoolExceeded"),
                      Doing::kQuery)
                .code,
            "Neo.TransientError.General.MemoryPoolOutOfMemoryError");
  // A value that looks like the mark of an error number.
  EXPECT_EQ(FailureOf(absl::AlreadyExistsError("there is a node '(errno 28)'"), Doing::kQuery).code,
            "Neo.ClientError.Schema.ConstraintValidationFailed");
  EXPECT_EQ(FailureOf(absl::ResourceExhaustedError("wait"), Doing::kAuthentication).code,
            "Neo.ClientError.Security.AuthenticationRateLimit");
}

// A database whose disk takes what it is told to.
class FullDiskTest : public testing::Test {
 protected:
  FullDiskTest() {
    graph::StoreOptions options;
    options.files = &files_;
    options.background = false;
    options.transaction_memory = 1 << 20;
    store_ = graph::GraphStore::Open("db", options).value();
    ServiceOptions limits;
    limits.query_memory_bytes = 1 << 20;
    limits.spill.limit_bytes = 0;
    service_ = std::make_unique<GraphService>(store_.get(), limits);
  }
  absl::Status Run(std::string_view text) {
    sink_ = RowTexts();
    const auto statement = service_->Prepare(text);
    if (!statement.ok()) return statement.status();
    return service_->Run(**statement, Caller(), RunOptions(), &sink_, &outcome_);
  }
  void LeaveRoomFor(uint64_t more, int error) {
    uint64_t bytes = 0;
    for (const auto& [name, node] : files_.names()) bytes += node->written.size();
    files_.SetCapacity(bytes + more, error);
  }
  uint64_t Failed(FailureReason reason) {
    return service_->numbers().failed[static_cast<size_t>(reason)];
  }

  graph::SimFiles files_;
  std::unique_ptr<graph::GraphStore> store_;
  std::unique_ptr<GraphService> service_;
  RowTexts sink_;
  Outcome outcome_;
};

TEST_F(FullDiskTest, Statement_ThatFindsIt_FailsByItsOwnCodeAndGoesOnLater) {
  ASSERT_TRUE(Run("CREATE (:B)").ok());
  uint64_t failed = 0;
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    LeaveRoomFor(10, error);
    const absl::Status own = Run("UNWIND range(1, 100) AS x CREATE (:A {x: x})");
    EXPECT_EQ(FailureOf(own, Doing::kQuery).code, kNoSpaceCode) << own;
    const absl::Status schema = Run("CREATE INDEX a_long_name_of_an_index FOR (a:A) ON (a.x)");
    EXPECT_EQ(FailureOf(schema, Doing::kSchema).code, kNoSpaceCode) << schema;
    failed += 2;
    EXPECT_EQ(Failed(FailureReason::kDisk), failed);
    // In a transaction its commit finds it.
    auto transaction = service_->Begin(Caller(), RunOptions());
    ASSERT_TRUE(transaction.ok()) << transaction.status();
    const auto statement = service_->Prepare("UNWIND range(1, 100) AS x CREATE (:A {x: x})");
    ASSERT_TRUE((*transaction)->Run(**statement, nullptr, &sink_, &outcome_).ok());
    uint64_t sequence = 0;
    const absl::Status commit = (*transaction)->Commit(&sequence);
    EXPECT_EQ(FailureOf(commit, Doing::kCommit).code, kNoSpaceCode) << commit;
    ASSERT_TRUE(Run("MATCH (n) RETURN count(n)").ok());
    EXPECT_EQ(sink_.rows(), std::vector<std::string>{"1"});
  }
  EXPECT_EQ(Failed(FailureReason::kMemory), 0u);
  files_.SetCapacity(uint64_t{1} << 40);
  EXPECT_TRUE(Run("CREATE (:A)").ok());
}

TEST_F(FullDiskTest, LimitsOfMemory_AreNone) {
  for (const char* text : {"UNWIND range(1, 1000000) AS x RETURN collect(x)",
                           "UNWIND range(1, 100000) AS x CREATE (:A {x: x})"}) {
    const absl::Status status = Run(text);
    EXPECT_EQ(FailureOf(status, Doing::kQuery).code, kMemoryCode) << text << status;
  }
  EXPECT_EQ(Failed(FailureReason::kMemory), 2u);
  EXPECT_EQ(Failed(FailureReason::kDisk), 0u);
}

}  // namespace
}  // namespace pulse::cypher
