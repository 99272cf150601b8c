// One fault at every call of a fixed life of a database: host and agent, tables, blobs, log,
// MANIFEST, CURRENT and directories. Whatever fails, RocksDB is told or nothing comes of it; the
// database comes back when the cause is gone, without a lost key; nothing hangs. How RocksDB fares
// on its own file system with the same fault is the measure.
//
// Each run takes a part of the positions, chosen by the seed, since all take many minutes.
//
//   PULSE_FAULT_SHARE  N: every N-th fault of each kind, 60 unless given (180 with tables in a
//                      pool, which has most of it in common); 10 and 30 in long tests
//                      (PULSE_TEST_LONG=1); 1: all
//   PULSE_TEST_SEED    which of them
//   PULSE_FAULT        one fault as a failure names it, such as "EIO at sync of table #3": only
//   that
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/testing.h"
#include "powercut/fault_trace.h"

namespace pulse::powercut {
namespace {

constexpr int kLastingCalls = 12;

// The calls of the trace when nothing fails.
const CallCount& Calls(Setup setup) {
  static std::map<Setup, CallCount> counts;
  const auto [at, fresh] = counts.try_emplace(setup);
  if (fresh) at->second = RunFaultTraceInChild(setup, {}).counts;
  return at->second;
}

// One kind of fault, and the calls that it may strike.
struct Kind {
  const char* name;
  Effect effect;
  int err;
  int calls;
  std::vector<Call> on;
  Setup setup = Setup::kFiles;
};

// Of each call on each class of file every `share`-th, from one on that follows from the seed.
std::vector<Fault> FaultsOf(const Kind& kind, Setup setup, int share = 1, uint64_t seed = 0) {
  std::vector<Fault> faults;
  for (const Call call : kind.on) {
    for (int c = 0; c < kFileClasses; ++c) {
      const auto file_class = static_cast<FileClass>(c);
      // The others are the same with plain files.
      if (setup == Setup::kPool && file_class != FileClass::kPool &&
          file_class != FileClass::kCurrent && file_class != FileClass::kDirectory) {
        continue;
      }
      const int count = Calls(setup).at(call, file_class);
      const int step = std::min(share, std::max(count, 1));
      // Each pair of call and file class has its turn, however rare it is.
      const auto turn = static_cast<int>(
          (seed * 31 + static_cast<uint64_t>(call) * 7 + static_cast<uint64_t>(c) * 3) %
          static_cast<uint64_t>(step));
      for (int n = 1 + turn; n <= count; n += step) {
        faults.push_back({{call, file_class, n}, kind.effect, kind.err, kind.calls});
      }
    }
  }
  return faults;
}

// What stock RocksDB does with a fault of a kind, wherever in the trace.
struct Measure {
  int cases = 0;
  bool always = true;              // it reported an error
  bool reopened = false;           // it had to be opened anew at least once
  std::set<std::string> problems;  // how it crashed or lost keys
  std::vector<Fault> left;         // not yet tried
};

// Without what differs from run to run.
std::string Shape(const std::string& problem) {
  std::string shape;
  for (const char c : problem.substr(0, problem.find('/'))) {
    if (isdigit(static_cast<unsigned char>(c)) == 0) shape += c;
  }
  return shape;
}

bool IsOutput(const Fault& fault) {
  return fault.at.file_class == FileClass::kTable || fault.at.file_class == FileClass::kBlob;
}

// Stock's calls of the same kind; but the plug-in truncates an output to its length as a part of
// making it durable, where stock trims preallocated space and does not mind failing.
std::pair<Call, FileClass> MeasureOf(const Fault& fault, Setup setup) {
  const bool durability = fault.at.call == Call::kTruncate && IsOutput(fault);
  // A pool holds tables. Its guard is looked at wherever CURRENT is replaced.
  if (fault.at.file_class == FileClass::kPool) return {fault.at.call, FileClass::kTable};
  if (setup == Setup::kPool && fault.at.file_class == FileClass::kCurrent) {
    return {Call::kRename, FileClass::kCurrent};
  }
  return {durability ? Call::kSync : fault.at.call, fault.at.file_class};
}

// Not: the plug-in's reading ahead, through descriptors of its own, which falls back on RocksDB's
// reads; a close after a successful sync; and what was interrupted and done again.
bool MustBeReported(const Fault& fault) {
  const Call c = fault.at.call;
  const bool harmless = c == Call::kOpen || c == Call::kRead || c == Call::kClose;
  const bool table = IsOutput(fault) || fault.at.file_class == FileClass::kPool;
  return fault.effect == Effect::kError && fault.err != EINTR && !(harmless && table);
}

std::string Joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& s : all) text += "\n    " + s;
  return text;
}

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class FaultTest : public ::testing::TestWithParam<Kind> {};

// What stock RocksDB does with the faults of one kind, found as far as it is asked for: mostly the
// first has the answer, and they are many.
class Stock {
 public:
  explicit Stock(const Kind& kind) : kind_(kind) {}

  // True when it reports the like of `fault` each time, and there is a like.
  bool AlwaysReports(const Fault& fault) {
    Measure& m = Of(fault);
    while (m.always && RunNext(&m)) {
    }
    return m.cases > 0 && m.always;
  }
  // True when no like of it makes it open the database anew, and there is a like.
  bool AlwaysResumes(const Fault& fault) {
    Measure& m = Of(fault);
    while (!m.reopened && RunNext(&m)) {
    }
    return m.cases > 0 && !m.reopened;
  }
  bool HasProblem(const Fault& fault, const std::string& shape) {
    Measure& m = Of(fault);
    while (!m.problems.contains(shape) && RunNext(&m)) {
    }
    return m.problems.contains(shape);
  }

 private:
  Measure& Of(const Fault& fault) {
    const auto key = MeasureOf(fault, kind_.setup);
    const auto [at, fresh] = measures_.try_emplace(key);
    Measure& m = at->second;
    if (!fresh) return m;
    for (const Fault& f : FaultsOf(kind_, Setup::kStock)) {
      if (f.at.call == key.first && f.at.file_class == key.second) m.left.push_back(f);
    }
    return m;
  }
  // False when there is none left.
  static bool RunNext(Measure* m) {
    if (m->left.empty()) return false;
    const Fault fault = m->left.back();
    m->left.pop_back();
    Run(fault, m);
    return true;
  }
  static void Run(const Fault& fault, Measure* m) {
    const Outcome o = RunFaultTraceInChild(Setup::kStock, fault);
    if (o.hits == 0) return;
    ++m->cases;
    m->always &= !o.errors.empty();
    m->reopened |= o.reopened;
    if (!o.problem.empty() && m->problems.insert(Shape(o.problem)).second) {
      printf("stock, %s: %s%s\n", fault.ToString().c_str(), o.problem.c_str(),
             Joined(o.errors).c_str());
    }
  }

  const Kind& kind_;
  std::map<std::pair<Call, FileClass>, Measure> measures_;
};

// "" or what is wrong with how the plug-in took it.
std::string Judge(const Kind& kind, const Fault& fault, const Outcome& o, Stock* stock) {
  if (!o.problem.empty()) return o.problem;
  if (o.errors.empty() && MustBeReported(fault)) {
    if (stock->AlwaysReports(fault)) return "not reported";
  }
  // A pool that could not record a change wants to be opened anew, which nothing else does.
  if (o.reopened && !o.remounted) {
    if (stock->AlwaysResumes(fault)) return "had to be opened anew, where stock resumes";
  }
  // Delays and short transfers no caller should notice.
  if (kind.effect != Effect::kError && !o.errors.empty()) return "reported";
  const auto named = [&](const std::string& f) { return o.errors[0].find(f) != std::string::npos; };
  if (IsOutput(fault) && !o.errors.empty() && std::none_of(o.files.begin(), o.files.end(), named)) {
    return "the first error names no file that the fault struck";
  }
  return "";
}

// Assertions of RocksDB 7.8's own that fail after I/O errors, with its own file system as well,
// each of them described in docs/evidence/reliability.md. A release build of RocksDB has none.
bool IsAssertionOfRocksDb(const std::string& problem) {
  static constexpr const char* kKnown[] = {
      "AssertFalseAndGetStatusForPrevError",  // a writer is called again after its error
      "TableFileName",                        // ingestion after Resume
  };
  return std::any_of(std::begin(kKnown), std::end(kKnown),
                     [&](const char* name) { return problem.find(name) != std::string::npos; });
}

// RocksDB 7.8 at times takes itself for recovering for ever, when Resume meets its own recovery
// from ENOSPC: Close waits for that, and no thread of RocksDB's is at work. Rare, and on busy
// machines only.
bool WaitsForRecoveryOfNobody(const Outcome& o) {
  const auto seen = [&](const char* name) {
    return std::any_of(o.errors.begin(), o.errors.end(),
                       [&](const std::string& line) { return line.find(name) != line.npos; });
  };
  return o.problem.find("hangs") != std::string::npos && seen("CloseHelper") &&
         !seen("BackgroundFlush") && !seen("BackgroundCompaction") && !seen("BGWork") &&
         !seen("ErrorHandler") && !seen("SstFileManager");
}

int Share(Setup setup) {
  const char* text = getenv("PULSE_FAULT_SHARE");
  if (text != nullptr) return std::max(atoi(text), 1);
  const int share = testing_util::LongTests() ? 10 : 60;
  return setup == Setup::kPool ? 3 * share : share;
}

TEST_P(FaultTest, Fault_AtAnyCall_IsReportedOrHarmlessAndSurvived) {
  const Kind& kind = GetParam();
  const char* only = getenv("PULSE_FAULT");
  const int share = only != nullptr ? 1 : Share(kind.setup);
  const std::vector<Fault> chosen =
      FaultsOf(kind, kind.setup, share, share == 1 ? 0 : testing_util::TestSample());
  Stock stock(kind);
  int cases = 0, missed = 0, told = 0, by_agent = 0, reopened = 0, background = 0, wrong = 0;
  int like_stock = 0, remounted = 0;
  for (const Fault& fault : chosen) {
    if (only != nullptr && fault.ToString() != only) continue;
    const Outcome o = RunFaultTraceInChild(kind.setup, fault);
    if (o.hits == 0) {  // threads met in another order
      ++missed;
      continue;
    }
    ++cases;
    told += o.errors.empty() ? 0 : 1;
    by_agent += o.thread.starts_with("pulse-ag") ? 1 : 0;
    reopened += o.reopened ? 1 : 0;
    remounted += o.remounted ? 1 : 0;
    background += o.background_errors;
    const std::string problem = Judge(kind, fault, o, &stock);
    if (only != nullptr) {
      printf("%s: in %s on %s%s\n", fault.ToString().c_str(), o.thread.c_str(),
             Joined(o.files).c_str(), Joined(o.errors).c_str());
    }
    if (problem.empty()) continue;
    // RocksDB 7.8 does not survive every fault, on any file system.
    if (IsAssertionOfRocksDb(problem) || WaitsForRecoveryOfNobody(o) ||
        stock.HasProblem(fault, Shape(problem))) {
      ++like_stock;
      if (only != nullptr) printf("as stock RocksDB: %s\n", problem.c_str());
      continue;
    }
    ++wrong;
    ADD_FAILURE() << fault.ToString() << " (thread " << o.thread << ", on" << Joined(o.files)
                  << "): " << problem << Joined(o.errors);
  }
  printf(
      "%s: %d faults of %zu, %d of them met by the agent, %d reported, %d background errors, %d "
      "opened anew, %d with their pool, %d not met, %d wrong as stock RocksDB is, %d wrong\n",
      kind.name, cases, FaultsOf(kind, kind.setup).size(), by_agent, told, background, reopened,
      remounted, missed, like_stock, wrong);
  if (only == nullptr) {
    EXPECT_GT(cases, 0);
    // Some transfers cannot be shortened.
    if (kind.effect != Effect::kShort) {
      EXPECT_LE(missed, 1 + cases / 10);
    }
  }
}

const std::vector<Call> kAll = {Call::kCreate,    Call::kOpen,     Call::kRead,    Call::kWrite,
                                Call::kTruncate,  Call::kSync,     Call::kClose,   Call::kRename,
                                Call::kLink,      Call::kUnlink,   Call::kMakeDir, Call::kAllocate,
                                Call::kRangeSync, Call::kDuplicate};
const std::vector<Call> kGrowing = {Call::kCreate, Call::kWrite,   Call::kSync,    Call::kAllocate,
                                    Call::kRename, Call::kMakeDir, Call::kTruncate};

const std::vector<Call> kTransfers = {Call::kRead, Call::kWrite, Call::kSync, Call::kOpen,
                                      Call::kClose};

std::string NameOfKind(const ::testing::TestParamInfo<Kind>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    All, FaultTest,
    ::testing::Values(
        Kind{"Eio", Effect::kError, EIO, 1, kAll},
        Kind{"Enospc", Effect::kError, ENOSPC, 1, kGrowing},
        Kind{"EioLasting", Effect::kError, EIO, kLastingCalls, {Call::kWrite, Call::kSync}},
        Kind{"EnospcLasting",
             Effect::kError,
             ENOSPC,
             kLastingCalls,
             {Call::kCreate, Call::kWrite, Call::kSync}},
        Kind{"Emfile", Effect::kError, EMFILE, 1, {Call::kCreate, Call::kOpen, Call::kDuplicate}},
        Kind{"Eintr",
             Effect::kError,
             EINTR,
             1,
             {Call::kCreate, Call::kOpen, Call::kRead, Call::kWrite, Call::kTruncate, Call::kSync,
              Call::kAllocate, Call::kRangeSync, Call::kClose}},
        Kind{"Short", Effect::kShort, 0, 1, {Call::kRead, Call::kWrite}},
        Kind{"Delay",
             Effect::kDelay,
             0,
             1,
             {Call::kCreate, Call::kRead, Call::kWrite, Call::kSync, Call::kTruncate,
              Call::kClose}}),
    NameOfKind);

// With tables in a pool: faults of the pool, and of what names it.
INSTANTIATE_TEST_SUITE_P(
    Pool, FaultTest,
    ::testing::Values(
        Kind{"Eio", Effect::kError, EIO, 1, kAll, Setup::kPool},
        Kind{"EioLasting", Effect::kError, EIO, kLastingCalls, kTransfers, Setup::kPool},
        Kind{"Enospc", Effect::kError, ENOSPC, 1, kGrowing, Setup::kPool},
        Kind{"Emfile", Effect::kError, EMFILE, 1, {Call::kOpen, Call::kDuplicate}, Setup::kPool},
        Kind{"Eintr", Effect::kError, EINTR, 1, kTransfers, Setup::kPool},
        Kind{"Short", Effect::kShort, 0, 1, {Call::kRead, Call::kWrite}, Setup::kPool},
        Kind{"Delay", Effect::kDelay, 0, 1, kTransfers, Setup::kPool}),
    NameOfKind);

}  // namespace
}  // namespace pulse::powercut
