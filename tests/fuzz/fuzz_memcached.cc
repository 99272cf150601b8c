// memcached's protocol: what a client says to `pulse kv`. What is found does not depend on how the
// bytes arrived, and lies within them; whatever it is, it can be carried out.
#include <algorithm>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "services/kv/memcached/commands.h"

namespace {

using pulse::kv::memcached::Request;
using pulse::kv::memcached::RequestSplitter;

constexpr uint64_t kMaxValue = 300;

// The requests of a stream, which arrives in pieces; an error ends it.
std::vector<std::string> Split(const std::string& stream, size_t piece) {
  RequestSplitter splitter(kMaxValue);
  std::vector<std::string> found;
  size_t begin = 0;
  size_t arrived = 0;
  size_t skipped = 0;
  while (true) {
    const auto size = splitter.Next(std::string_view(stream).substr(begin, arrived - begin));
    if (!size.ok()) {
      found.push_back("error");
      break;
    }
    FUZZ_CHECK(*size <= arrived - begin);
    if (*size == 0) {
      if (arrived == stream.size()) break;
      arrived = std::min(arrived + piece, stream.size());
      continue;
    }
    if (splitter.skipped()) {
      skipped += *size;
    } else {
      found.push_back(stream.substr(begin, *size));
    }
    begin += *size;
  }
  found.push_back(std::to_string(skipped));
  return found;
}

pulse::kv::KvStore* Store() {
  static const auto store = [] {
    pulse::kv::KvStoreOptions options;
    options.memory_bytes = uint64_t{32} << 20;
    options.partitions = 2;
    options.clock = [] { return int64_t{1'700'000'000'000}; };
    options.ticks = false;
    options.seed = 1;
    return *pulse::kv::KvStore::Open(options);
  }();
  return store.get();
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pulse::kv::memcached::Counters;
  using pulse::kv::memcached::Executor;
  using pulse::kv::memcached::LooksLikeMemcached;
  pulse::fuzz::Input in(data, size);
  const size_t piece = 1 + in.Below(64);
  const std::string bytes = in.Rest();
  bool undecided = false;
  const bool is_memcached = LooksLikeMemcached(bytes, &undecided);
  FUZZ_CHECK(!is_memcached || !undecided);
  // The first bytes that decide, decide as all of them do.
  bool still = true;
  for (size_t arrived = 0; still && arrived < bytes.size(); ++arrived) {
    const bool early = LooksLikeMemcached(std::string_view(bytes).substr(0, arrived), &still);
    FUZZ_CHECK(still ? !early : early == is_memcached && !undecided);
  }
  const auto requests = Split(bytes, bytes.size() + 1);
  FUZZ_CHECK(Split(bytes, piece) == requests);
  pulse::kv::KvStore* store = Store();
  FUZZ_CHECK(store->ClearAt(0, true));
  Counters counters;
  const Executor executor(store, &counters, {kMaxValue, 0});
  for (const std::string& text : requests) {
    Request request;
    request.Parse(text);
    for (const std::string_view word : request.words) {
      FUZZ_CHECK(word.data() >= text.data() &&
                 word.data() + word.size() <= text.data() + text.size());
    }
    std::string out;
    FUZZ_CHECK(executor.Run(request, true, &out));
    FUZZ_CHECK(out.empty() || out.ends_with("\r\n"));
  }
  return 0;
}
