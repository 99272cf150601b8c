// Which CPUs the threads of an operation run on that are no lanes of a queue: those that decode in
// one piece, and those that read and write around them.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "services/ops/byte_stream.h"
#include "services/ops/decompress.h"
#include "services/ops/operation.h"
#include "services/ops/test_data.h"
#include "services/ops/test_decoders.h"

namespace pulse::ops {
namespace {

using Cpus = std::vector<int>;

// Pass bytes on, and keep the CPUs of the threads that do it.
class WatchedSource : public ByteSource {
 public:
  explicit WatchedSource(absl::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<size_t> Read(void* to, size_t size) override {
    cpus.insert(MyCpus());
    return bytes_.Read(to, size);
  }
  std::set<Cpus> cpus;

 private:
  MemorySource bytes_;
};

class WatchedSink : public ByteSink {
 public:
  explicit WatchedSink(Buffer* to) : bytes_(to) {}
  absl::Status Write(absl::string_view bytes) override {
    cpus.insert(MyCpus());
    return bytes_.Write(bytes);
  }
  std::set<Cpus> cpus;

 private:
  BufferSink bytes_;
};

class SerialThreads : public testing::Test {
 protected:
  // Where a foreign gzip stream is decoded on these processors.
  void Run(Processors processors) {
    const std::string data = MakeData(Kind::kMixed, 3'000'000, 1);
    const std::string bytes = ForeignGzip(data);
    WatchedSource source(bytes);
    Buffer out;
    WatchedSink sink(&out);
    DecompressOptions options;
    options.processors = std::move(processors);
    options.processors.progress = [&](uint64_t, uint64_t) {
      decoder_.insert(MyCpus());
      return true;
    };
    const auto report = Decompress(options, source, "IN", sink, "OUT");
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(out.view(), data);
    read_ = source.cpus;
    written_ = sink.cpus;
  }

  const Cpus all_ = MyCpus();
  std::set<Cpus> read_;
  std::set<Cpus> decoder_;
  std::set<Cpus> written_;
};

TEST_F(SerialThreads, HostCpus_HaveAllOfThem) {
  if (all_.size() < 2) GTEST_SKIP() << "one CPU";
  const Cpus one{all_.back()};
  Processors processors;
  processors.host_cpus = one;
  Run(processors);
  EXPECT_EQ(read_, std::set<Cpus>{one});
  EXPECT_EQ(decoder_, std::set<Cpus>{one});
  EXPECT_EQ(written_, std::set<Cpus>{one});
  EXPECT_EQ(MyCpus(), all_) << "the caller stays where it was put";
}

TEST_F(SerialThreads, CpusOfBothSides_DecodeOnTheHostAndDoTheRestOnTheAgent) {
  if (all_.size() < 2) GTEST_SKIP() << "one CPU";
  Processors processors;
  processors.host_cpus = {all_[0]};
  processors.agent_cpus = {all_[1]};
  Run(processors);
  EXPECT_EQ(read_.count({all_[1]}), 1U);
  EXPECT_EQ(read_.count(all_), 0U);
  EXPECT_EQ(decoder_, std::set<Cpus>{{all_[0]}});
  EXPECT_EQ(written_, std::set<Cpus>{{all_[1]}});

  processors.placement.kind = Placement::Kind::kAgent;
  decoder_.clear();
  Run(processors);
  EXPECT_EQ(read_, std::set<Cpus>{{all_[1]}});
  EXPECT_EQ(decoder_, std::set<Cpus>{{all_[1]}});
  EXPECT_EQ(written_, std::set<Cpus>{{all_[1]}});
}

TEST_F(SerialThreads, NoCpus_RunWhereTheCallerDoes) {
  Run({});
  EXPECT_EQ(read_, std::set<Cpus>{all_});
  EXPECT_EQ(written_, std::set<Cpus>{all_});
}

}  // namespace
}  // namespace pulse::ops
