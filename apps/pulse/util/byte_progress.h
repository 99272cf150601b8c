// Progress of work that is counted in bytes, on standard error: done and total, rate, time left.
// Silent for the first two seconds. On a terminal one line is redrawn; elsewhere a line now and
// then. Main thread only.
#pragma once

#include <cstdint>
#include <string>

namespace pulse {

class ByteProgress {
 public:
  ByteProgress();
  ~ByteProgress();
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  // `what` is being done, "copying"; so many bytes of `total` are.
  void Update(const char* what, uint64_t done, uint64_t total);
  // Since the construction.
  double Seconds() const;

 private:
  void ClearLine();

  const int64_t start_;
  const bool terminal_;
  int64_t line_at_ = 0;
  bool line_open_ = false;
};

}  // namespace pulse
