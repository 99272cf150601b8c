// Filters a log and compresses what matches, piece by piece as it comes: pulse/ops.h in C++.
//
//   ops_filter_example PATTERN <app.log >hits.gz
#include <unistd.h>

#include <cstdio>
#include <string>

#include "pulse/ops.h"

int main(int argc, char** argv) {
  using pulse::operators::Operators;
  using pulse::operators::Request;
  using pulse::operators::Result;
  using pulse::operators::Rules;
  if (argc != 2) {
    std::fprintf(stderr, "usage: ops_filter_example PATTERN <LOG >HITS.gz\n");
    return 2;
  }
  std::string why;
  const Operators ops = Operators::Open(nullptr, &why);
  const Rules rules = ops ? Rules::Compile({argv[1]}, 0, &why) : Rules();
  if (!rules) {
    std::fprintf(stderr, "ops_filter_example: %s\n", why.c_str());
    return 2;
  }

  Request request(PULSE_OPS_FILTER);
  request.rules = rules.get();
  request.format = PULSE_OPS_GZIP;
  request.out_fd = STDOUT_FILENO;
  pulse_ops_stream* stream = nullptr;
  if (pulse_ops_stream_open(ops.get(), &request, &stream) != PULSE_OPS_OK) return 2;
  char buffer[1 << 16];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) {
    if (pulse_ops_stream_write(stream, buffer, got) != PULSE_OPS_OK) break;
  }
  Result result;
  if (pulse_ops_stream_finish(stream, result.get()) != PULSE_OPS_OK) {
    std::fprintf(stderr, "ops_filter_example: %s\n", result.message().c_str());
    return 2;
  }
  std::fprintf(stderr, "%llu lines match\n",
               static_cast<unsigned long long>(result.raw().selected));
  return result.raw().selected > 0 ? 0 : 1;
}
