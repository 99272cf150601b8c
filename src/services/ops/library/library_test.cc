// pulse/ops.h as programs use it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "base/testing.h"
#include "pulse/ops.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using operators::Operators;
using operators::Request;
using operators::Result;
using operators::Rules;
using testing_util::TestSeed;

std::string Gunzip(std::string_view bytes) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 32), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string data;
  std::string piece(1 << 20, '\0');
  int got = Z_OK;
  while (got == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    got = inflate(&stream, Z_NO_FLUSH);
    data.append(piece.data(), piece.size() - stream.avail_out);
  }
  EXPECT_EQ(got, Z_STREAM_END);
  inflateEnd(&stream);
  return data;
}

class OpsLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ops_ = Operators::Open(nullptr, &why);
    ASSERT_TRUE(ops_) << why;
  }

  Result Compress(std::string_view data, int32_t format = PULSE_OPS_GZIP) {
    Request request(PULSE_OPS_COMPRESS);
    request.From(data).format = format;
    return ops_.Run(request);
  }

  Operators ops_;
};

constexpr int32_t kFormats[] = {PULSE_OPS_GZIP, PULSE_OPS_ZLIB, PULSE_OPS_BGZF, PULSE_OPS_ZSTD,
                                PULSE_OPS_LZ4};

TEST_F(OpsLibraryTest, Run_EveryFormatAndSize_RoundTrip) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{70000}, size_t{5000000}}) {
    const std::string data = MakeData(Kind::kMixed, size, TestSeed() + size);
    for (const int32_t format : kFormats) {
      const Result packed = Compress(data, format);
      ASSERT_TRUE(packed.ok()) << packed.message();
      EXPECT_EQ(packed.raw().in_bytes, size);
      EXPECT_EQ(packed.raw().out_bytes, packed.data().size());
      Request back(PULSE_OPS_DECOMPRESS);
      back.From(packed.data()).tag = 77;
      const Result plain = ops_.Run(back);
      ASSERT_TRUE(plain.ok()) << format << ", " << size << ": " << plain.message();
      EXPECT_TRUE(plain.data() == data) << format << ", " << size;
      EXPECT_EQ(plain.raw().tag, 77u);
      EXPECT_EQ(plain.raw().in_bytes, packed.data().size());
    }
  }
}

TEST_F(OpsLibraryTest, Run_FunctionsAndDescriptors_AsFromMemory) {
  const std::string data = MakeData(Kind::kText, 3000000, 5);
  struct Reader {
    std::string_view left;
    size_t piece = 1;
  } reader{data};
  Request request(PULSE_OPS_COMPRESS);
  request.read_arg = &reader;
  request.read = [](void* arg, void* to, size_t size) -> int64_t {
    auto* from = static_cast<Reader*>(arg);
    const size_t n = std::min({size, from->left.size(), from->piece});
    from->piece = from->piece * 2 % 300007 + 1;
    std::memcpy(to, from->left.data(), n);
    from->left.remove_prefix(n);
    return static_cast<int64_t>(n);
  };
  const UniqueFd file = MemoryFile("");
  request.out_fd = file.get();
  const Result packed = ops_.Run(request);
  ASSERT_TRUE(packed.ok()) << packed.message();
  EXPECT_EQ(packed.data().size(), 0u);

  lseek(file.get(), 0, SEEK_SET);
  Request back(PULSE_OPS_DECOMPRESS);
  back.in_fd = file.get();
  std::string plain;
  back.write_arg = &plain;
  back.write = [](void* arg, const void* bytes, size_t size) {
    static_cast<std::string*>(arg)->append(static_cast<const char*>(bytes), size);
    return 0;
  };
  const Result unpacked = ops_.Run(back);
  ASSERT_TRUE(unpacked.ok()) << unpacked.message();
  EXPECT_TRUE(plain == data);
  EXPECT_EQ(unpacked.raw().out_bytes, data.size());
}

TEST_F(OpsLibraryTest, Run_FunctionsThatFail_ReturnsAnIoError) {
  Request request(PULSE_OPS_COMPRESS);
  request.read = [](void*, void*, size_t) -> int64_t { return -5; };
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_IO);
  request.read = [](void*, void*, size_t size) { return static_cast<int64_t>(size) + 1; };
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_IO);

  const std::string data = MakeData(Kind::kRandom, 3000000, 9);
  Request writing(PULSE_OPS_COMPRESS);
  writing.From(data).write = [](void*, const void*, size_t) { return 1; };
  const Result failed = ops_.Run(writing);
  EXPECT_EQ(failed.code(), PULSE_OPS_IO);
  EXPECT_NE(failed.message().find("write function"), std::string::npos) << failed.message();
}

TEST_F(OpsLibraryTest, Run_PipeWithoutReader_ErrorAndNoSignal) {
  std::signal(SIGPIPE, SIG_DFL);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const std::string data = MakeData(Kind::kRandom, 3000000, 9);
  Request request(PULSE_OPS_COMPRESS);
  request.From(data).out_fd = ends[1];
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_IO);
  close(ends[1]);
  std::signal(SIGPIPE, SIG_IGN);
}

TEST_F(OpsLibraryTest, Run_DamagedStream_OffsetAndWhatWasGood) {
  const std::string data = MakeData(Kind::kText, 8000000, 3);
  for (const int32_t format : kFormats) {
    const Result packed = Compress(data, format);
    std::string bytes(packed.data());
    const size_t middle = bytes.size() / 2;
    for (size_t i = 0; i < 64; ++i) bytes[middle + i] = static_cast<char>(~bytes[middle + i]);
    Request back(PULSE_OPS_DECOMPRESS);
    const Result damaged = ops_.Run(back.From(bytes));
    ASSERT_EQ(damaged.code(), PULSE_OPS_DAMAGED) << format << ": " << damaged.message();
    EXPECT_NE(damaged.raw().error_offset, PULSE_OPS_NO_OFFSET) << damaged.message();
    EXPECT_LE(damaged.raw().error_offset, bytes.size()) << format;
    EXPECT_TRUE(data.substr(0, damaged.data().size() / 2) ==
                damaged.data().substr(0, damaged.data().size() / 2))
        << format;

    const Result cut = ops_.Run(back.From(std::string_view(bytes).substr(0, middle / 2)));
    ASSERT_EQ(cut.code(), PULSE_OPS_DAMAGED) << format << ": " << cut.message();
    EXPECT_LE(cut.raw().error_offset, middle / 2) << cut.message();
    EXPECT_TRUE(data.substr(0, cut.data().size()) == cut.data()) << format;
  }
}

TEST_F(OpsLibraryTest, Run_NoCompressedInput_ReturnsNotCompressed) {
  Request request(PULSE_OPS_DECOMPRESS);
  EXPECT_EQ(ops_.Run(request.From("plain text, not compressed")).code(), PULSE_OPS_NOT_COMPRESSED);
}

TEST_F(OpsLibraryTest, Run_TrailingGarbage_Flagged) {
  const Result packed = Compress("hello");
  const std::string bytes = std::string(packed.data()) + "garbage";
  Request request(PULSE_OPS_DECOMPRESS);
  const Result plain = ops_.Run(request.From(bytes));
  ASSERT_TRUE(plain.ok()) << plain.message();
  EXPECT_EQ(plain.raw().trailing_garbage, 1);
  EXPECT_EQ(plain.data(), "hello");
  std::string why;
  const Rules rules = Rules::Compile({"hello"}, 0, &why);
  ASSERT_TRUE(rules) << why;
  Request filter(PULSE_OPS_FILTER);
  filter.From(bytes).rules = rules.get();
  EXPECT_EQ(ops_.Run(filter).raw().trailing_garbage, 1);
  EXPECT_EQ(ops_.Submit(filter).get().raw().trailing_garbage, 1);
  filter.From(packed.data());
  EXPECT_EQ(ops_.Run(filter).raw().trailing_garbage, 0);
}

TEST_F(OpsLibraryTest, Run_ProgressThatStops_Cancelled) {
  Request request(PULSE_OPS_COMPRESS);
  // It never ends by itself.
  request.read = [](void*, void* to, size_t size) -> int64_t {
    std::memset(to, 'x', size);
    return static_cast<int64_t>(size);
  };
  request.write = [](void*, const void*, size_t) { return 0; };
  request.progress = [](void*, uint64_t in, uint64_t) { return in > 1000000 ? 1 : 0; };
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_CANCELLED);
}

TEST_F(OpsLibraryTest, Run_Filter_AsLineByLine) {
  std::string why;
  const Rules rules = Rules::Compile({"error [0-9]+", "^fatal"}, 0, &why);
  ASSERT_TRUE(rules) << why;
  std::string data;
  std::string expected;
  uint64_t count = 0;
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 100000; ++i) {
    const uint64_t which = random() % 9;
    const std::string line = which == 0   ? "an error " + std::to_string(random() % 100)
                             : which == 1 ? "fatal: disk"
                             : which == 2 ? "not fatal"
                                          : "fine " + std::to_string(random());
    data += line + "\n";
    if (which < 2) {
      expected += line + "\n";
      ++count;
    }
  }
  Request request(PULSE_OPS_FILTER);
  request.From(data).rules = rules.get();
  const Result plain = ops_.Run(request);
  ASSERT_TRUE(plain.ok()) << plain.message();
  EXPECT_EQ(plain.raw().selected, count);
  EXPECT_TRUE(plain.data() == expected);

  // Compressed on both sides; by run and by submit.
  const Result packed = Compress(data, PULSE_OPS_ZSTD);
  request.From(packed.data()).format = PULSE_OPS_GZIP;
  const Result both = ops_.Run(request);
  ASSERT_TRUE(both.ok()) << both.message();
  EXPECT_TRUE(Gunzip(both.data()) == expected);
  const Result submitted = ops_.Submit(request).get();
  ASSERT_TRUE(submitted.ok()) << submitted.message();
  EXPECT_TRUE(Gunzip(submitted.data()) == expected);
  EXPECT_EQ(submitted.raw().selected, count);

  request.From(data).format = 0;
  request.flags = PULSE_OPS_COUNT | PULSE_OPS_INVERT;
  const Result others = ops_.Submit(request).get();
  ASSERT_TRUE(others.ok()) << others.message();
  EXPECT_EQ(others.raw().selected, 100000 - count);
  EXPECT_EQ(others.data().size(), 0u);
}

TEST_F(OpsLibraryTest, Rules_BadOnes_AllNamed) {
  std::string why;
  EXPECT_FALSE(Rules::Compile({"a(", "fine", "b)("}, 0, &why));
  EXPECT_NE(why.find("rule 0"), std::string::npos) << why;
  EXPECT_NE(why.find("rule 2"), std::string::npos) << why;
  EXPECT_FALSE(Rules::Compile({"fine", std::string("\0b", 2)}, 0, &why));
  EXPECT_NE(why.find("NUL"), std::string::npos) << why;
  pulse_ops_rules* rules = nullptr;
  char line[8];
  const char* texts[] = {"a(", nullptr};
  EXPECT_EQ(pulse_ops_rules_compile(texts, 1, 0, &rules, line, sizeof line), PULSE_OPS_INVALID);
  EXPECT_EQ(line[7], '\0');
  EXPECT_EQ(pulse_ops_rules_compile(texts, 2, 0, &rules, nullptr, 0), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_rules_compile(texts, 0, 64, &rules, nullptr, 0), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_rules_compile(nullptr, 1, 0, &rules, nullptr, 0), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_rules_compile(texts, 0, 0, nullptr, nullptr, 0), PULSE_OPS_INVALID);
}

TEST_F(OpsLibraryTest, Batch_ManyThreads_EveryResultOnceAndRight) {
  constexpr int kThreads = 4;
  constexpr int kEach = 100;
  std::vector<std::string> inputs;
  for (int i = 0; i < kThreads * kEach; ++i) {
    inputs.push_back(MakeData(Kind::kMixed, static_cast<size_t>(i) * 37,
                              TestSeed() + 1 + static_cast<uint64_t>(i)));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t * kEach; i < (t + 1) * kEach; ++i) {
        Request request(PULSE_OPS_COMPRESS);
        request.From(inputs[static_cast<size_t>(i)]).tag = static_cast<uint64_t>(i);
        request.format = kFormats[i % 2 == 0 ? 0 : 1];
        while (pulse_ops_submit(ops_.get(), &request) == PULSE_OPS_BUSY) std::this_thread::yield();
      }
    });
  }
  std::set<uint64_t> seen;
  for (std::thread& thread : threads) thread.join();
  Result result;
  while (pulse_ops_wait(ops_.get(), result.get(), 60000) == PULSE_OPS_OK) {
    ASSERT_TRUE(result.ok()) << result.message();
    const uint64_t tag = result.raw().tag;
    EXPECT_TRUE(seen.insert(tag).second);
    EXPECT_TRUE(Gunzip(result.data()) == inputs[tag]);
    pulse_ops_release(result.get());
  }
  EXPECT_EQ(seen.size(), inputs.size());
  EXPECT_EQ(pulse_ops_under_way(ops_.get()), 0u);
  EXPECT_EQ(pulse_ops_wait(ops_.get(), result.get(), 1000), PULSE_OPS_NOTHING);
}

TEST_F(OpsLibraryTest, Batch_Futures_RoundTripOfForeignAndDamagedInput) {
  const std::string data = MakeData(Kind::kText, 200000, 4);
  // As others write it: one member, no marks.
  std::string foreign(compressBound(data.size()), '\0');
  uLongf size = foreign.size();
  ASSERT_EQ(compress(reinterpret_cast<Bytef*>(foreign.data()), &size,
                     reinterpret_cast<const Bytef*>(data.data()), data.size()),
            Z_OK);
  foreign.resize(size);
  std::string damaged = foreign;
  damaged[size / 2] ^= 0x55;
  std::vector<std::future<Result>> good;
  std::vector<std::future<Result>> bad;
  for (int i = 0; i < 20; ++i) {
    Request request(PULSE_OPS_DECOMPRESS);
    good.push_back(ops_.Submit(request.From(foreign)));
    bad.push_back(ops_.Submit(request.From(damaged)));
  }
  for (auto& one : good) {
    const Result result = one.get();
    ASSERT_TRUE(result.ok()) << result.message();
    EXPECT_TRUE(result.data() == data);
  }
  for (auto& one : bad) EXPECT_EQ(one.get().code(), PULSE_OPS_DAMAGED);
}

TEST_F(OpsLibraryTest, Batch_MostUnderWay_ThenBusy) {
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  options.most_under_way = 3;
  const Operators few = Operators::Open(&options, nullptr);
  ASSERT_TRUE(few);
  Request request(PULSE_OPS_COMPRESS);
  request.From("text");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pulse_ops_submit(few.get(), &request), PULSE_OPS_OK);
  EXPECT_EQ(pulse_ops_submit(few.get(), &request), PULSE_OPS_BUSY);
  EXPECT_EQ(few.Submit(request).get().code(), PULSE_OPS_BUSY);
  Result result;
  EXPECT_EQ(pulse_ops_wait(few.get(), result.get(), 60000), PULSE_OPS_OK);
  EXPECT_EQ(pulse_ops_submit(few.get(), &request), PULSE_OPS_OK);
  // Closed with results that nobody took.
}

TEST_F(OpsLibraryTest, Batch_SplitPlacement_BothSidesWork) {
  const std::vector<int> cpus = MyCpus();
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU: no second side";
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  const std::string host = std::to_string(cpus[0]);
  const std::string agent = std::to_string(cpus[1]);
  options.cpus = host.c_str();
  options.agent_cpus = agent.c_str();
  options.placement = "split=50";
  const Operators both = Operators::Open(&options, nullptr);
  ASSERT_TRUE(both);
  std::mutex mutex;
  std::map<int, int> by_cpu;
  struct Seen {
    std::mutex* mutex;
    std::map<int, int>* by_cpu;
  } seen{&mutex, &by_cpu};
  Request request(PULSE_OPS_COMPRESS);
  request.From("text");
  request.done_arg = &seen;
  request.done = [](void* arg, pulse_ops_result*) {
    const auto* to = static_cast<Seen*>(arg);
    const std::lock_guard lock(*to->mutex);
    ++(*to->by_cpu)[sched_getcpu()];
  };
  for (int i = 0; i < 10; ++i) ASSERT_EQ(pulse_ops_submit(both.get(), &request), PULSE_OPS_OK);
  EXPECT_TRUE(testing_util::Eventually([&] { return pulse_ops_under_way(both.get()) == 0; }));
  EXPECT_EQ(by_cpu, (std::map<int, int>{{cpus[0], 5}, {cpus[1], 5}}));
}

TEST_F(OpsLibraryTest, Stream_PiecesOfAnySize_AsWhole) {
  const std::string data = MakeData(Kind::kMixed, 20000000, TestSeed());
  std::mt19937_64 random(TestSeed());
  Request request(PULSE_OPS_COMPRESS);
  pulse_ops_stream* stream = nullptr;
  ASSERT_EQ(pulse_ops_stream_open(ops_.get(), &request, &stream), PULSE_OPS_OK);
  for (size_t at = 0; at < data.size();) {
    const size_t n = std::min<size_t>(data.size() - at, random() % (random() % 2 ? 6000000 : 100));
    ASSERT_EQ(pulse_ops_stream_write(stream, data.data() + at, n), PULSE_OPS_OK);
    at += n;
  }
  Result result;
  ASSERT_EQ(pulse_ops_stream_finish(stream, result.get()), PULSE_OPS_OK) << result.message();
  EXPECT_EQ(result.raw().in_bytes, data.size());
  EXPECT_TRUE(Gunzip(result.data()) == data);
}

TEST_F(OpsLibraryTest, Stream_DamagedMeanwhile_WritesFailAndFinishSaysWhere) {
  const std::string data = MakeData(Kind::kText, 1000000, 8);
  const Result packed = Compress(data);
  std::string bytes(packed.data());
  bytes[bytes.size() / 2] ^= 0x10;
  bytes.append(30000000, 'x');
  Request request(PULSE_OPS_DECOMPRESS);
  pulse_ops_stream* stream = nullptr;
  ASSERT_EQ(pulse_ops_stream_open(ops_.get(), &request, &stream), PULSE_OPS_OK);
  // More than the stream holds without having failed.
  EXPECT_EQ(pulse_ops_stream_write(stream, bytes.data(), bytes.size()), PULSE_OPS_DAMAGED);
  Result result;
  EXPECT_EQ(pulse_ops_stream_finish(stream, result.get()), PULSE_OPS_DAMAGED);
  EXPECT_LE(result.raw().error_offset, packed.data().size());
}

TEST_F(OpsLibraryTest, Stream_Aborted_NothingLeft) {
  for (const int operation : {PULSE_OPS_COMPRESS, PULSE_OPS_DECOMPRESS}) {
    Request request(operation);
    pulse_ops_stream* stream = nullptr;
    ASSERT_EQ(pulse_ops_stream_open(ops_.get(), &request, &stream), PULSE_OPS_OK);
    pulse_ops_stream_write(stream, "\x1f\x8b\x08", 3);
    pulse_ops_stream_abort(stream);
  }
  pulse_ops_stream_abort(nullptr);
}

TEST_F(OpsLibraryTest, Requests_ThatMakeNoSense_Refused) {
  const auto refused = [&](const pulse_ops_request& request) {
    const Result result = ops_.Run(request);
    EXPECT_FALSE(result.message().empty() && result.code() == PULSE_OPS_INVALID);
    return result.code() == PULSE_OPS_INVALID;
  };
  EXPECT_TRUE(refused(Request(0)));
  EXPECT_TRUE(refused(Request(4)));
  Request request(PULSE_OPS_COMPRESS);
  request.level = 10;
  EXPECT_TRUE(refused(request));
  request.level = -1;
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.format = 6;
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.flags = PULSE_OPS_COUNT;
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.flags = PULSE_OPS_PRIMED;
  request.format = PULSE_OPS_ZSTD;
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.chunk_bytes = 7;
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.in_size = 5;
  EXPECT_TRUE(refused(request));
  request.in = "12345";
  request.in_fd = 0;
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.out_fd = 1;
  request.write = [](void*, const void*, size_t) { return 0; };
  EXPECT_TRUE(refused(request));
  request = Request(PULSE_OPS_COMPRESS);
  request.done = [](void*, pulse_ops_result*) {};
  EXPECT_TRUE(refused(request));
  EXPECT_TRUE(refused(Request(PULSE_OPS_FILTER)));
  request = Request(PULSE_OPS_DECOMPRESS);
  request.format = PULSE_OPS_GZIP;
  EXPECT_TRUE(refused(request));
  // Descriptors that are none.
  request = Request(PULSE_OPS_COMPRESS);
  request.in_fd = 1 << 20;
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_IO);
}

TEST_F(OpsLibraryTest, Requests_ForAnotherWay_Refused) {
  const UniqueFd file = MemoryFile("x");
  Request request(PULSE_OPS_COMPRESS);
  request.in_fd = file.get();
  EXPECT_EQ(pulse_ops_submit(ops_.get(), &request), PULSE_OPS_INVALID);
  pulse_ops_stream* stream = nullptr;
  EXPECT_EQ(pulse_ops_stream_open(ops_.get(), &request, &stream), PULSE_OPS_INVALID);
  EXPECT_EQ(stream, nullptr);
  request = Request(PULSE_OPS_COMPRESS);
  request.progress = [](void*, uint64_t, uint64_t) { return 0; };
  EXPECT_EQ(pulse_ops_submit(ops_.get(), &request), PULSE_OPS_INVALID);
}

TEST_F(OpsLibraryTest, Structs_OfOtherReleases_TakenOrRefused) {
  // Smaller than the first release's: an uninitialised one.
  pulse_ops_request request{};
  EXPECT_EQ(ops_.Run(request).code(), PULSE_OPS_INVALID);
  // Larger: taken while what is unknown is zero.
  struct Later {
    pulse_ops_request now;
    uint64_t more = 0;
  } later;
  pulse_ops_request_init(&later.now);
  later.now.struct_size = sizeof(later);
  later.now.operation = PULSE_OPS_COMPRESS;
  later.now.in = "text";
  later.now.in_size = 4;
  struct LaterResult {
    pulse_ops_result now;
    uint64_t more = 99;
  } result;
  pulse_ops_result_init(&result.now);
  result.now.struct_size = sizeof(result);
  EXPECT_EQ(pulse_ops_run(ops_.get(), &later.now, &result.now), PULSE_OPS_OK);
  EXPECT_EQ(result.more, 0u);
  EXPECT_EQ(result.now.struct_size, sizeof(result));
  pulse_ops_release(&result.now);
  later.more = 1;
  EXPECT_EQ(pulse_ops_run(ops_.get(), &later.now, &result.now), PULSE_OPS_INVALID);
  pulse_ops_result none{};
  EXPECT_EQ(pulse_ops_run(ops_.get(), &later.now, &none), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_wait(ops_.get(), &none, 0), PULSE_OPS_INVALID);
}

TEST_F(OpsLibraryTest, NullArguments_RefusedOrIgnored) {
  Result result;
  const Request request(PULSE_OPS_COMPRESS);
  EXPECT_EQ(pulse_ops_run(nullptr, &request, result.get()), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_run(ops_.get(), nullptr, result.get()), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_run(ops_.get(), &request, nullptr), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_submit(nullptr, &request), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_submit(ops_.get(), nullptr), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_wait(nullptr, result.get(), 0), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_open(nullptr, nullptr, nullptr, 0), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_stream_open(ops_.get(), &request, nullptr), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_stream_write(nullptr, "x", 1), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_stream_finish(nullptr, result.get()), PULSE_OPS_INVALID);
  EXPECT_EQ(pulse_ops_under_way(nullptr), 0u);
  char text[] = "x";
  EXPECT_EQ(pulse_ops_get_metrics(nullptr, text, sizeof text), 0u);
  EXPECT_STREQ(text, "");
  pulse_ops_release(nullptr);
  pulse_ops_move(nullptr, result.get());
  pulse_ops_rules_free(nullptr);
  pulse_ops_close(nullptr);
  EXPECT_STREQ(pulse_ops_text(PULSE_OPS_BUSY), "as much is under way as may be");
  EXPECT_STREQ(pulse_ops_text(-1), "unknown code");
  EXPECT_STREQ(pulse_ops_text(99), "unknown code");
}

TEST(OpsLibraryOpenTest, BadOptions_Refused) {
  for (const char* cpus : {"x", "5000", "0-", "-1"}) {
    pulse_ops_options options;
    pulse_ops_options_init(&options);
    options.cpus = cpus;
    std::string why;
    EXPECT_FALSE(Operators::Open(&options, &why)) << cpus;
    EXPECT_FALSE(why.empty()) << cpus;
  }
  for (const char* placement : {"", "nowhere", "split=101", "agent", "split=50"}) {
    pulse_ops_options options;
    pulse_ops_options_init(&options);
    options.placement = placement;
    std::string why;
    EXPECT_FALSE(Operators::Open(&options, &why)) << placement;
    EXPECT_FALSE(why.empty()) << placement;
  }
}

}  // namespace
}  // namespace pulse::ops
