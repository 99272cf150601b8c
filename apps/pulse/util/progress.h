// Progress with an estimated time of arrival, on standard error, for work made of known steps, or
// counted in bytes. Silent for the first two seconds, so that short work stays quiet. On a terminal
// that can, one line is redrawn; elsewhere long work says every ten seconds that it goes on. Main
// thread only.
#pragma once

#include <cstdint>
#include <string>

namespace pulse {

class Progress {
 public:
  // `steps` is the number of Begin/End pairs to come; they should take about equally long, unless
  // it is said how long: `seconds` for all of them, about, and Expect() for the next ones.
  explicit Progress(int steps, double seconds = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Each step from now on takes so long, about.
  void Expect(double seconds) { each_ = seconds; }

  void Begin(const std::string& what);

  // Call now and then while a step runs.
  void Tick();

  // Ends the step; `result` is shown after its name.
  void End(const std::string& result);

  // In place of steps: `what` is being done, "copying"; so many bytes of `total` are.
  void Bytes(const char* what, uint64_t done, uint64_t total);
  // The same without a rate: "writing nodes", so many of `total`; without the number where `done`
  // is 0.
  void Items(const char* what, uint64_t done, uint64_t total);
  // Since the construction.
  double Elapsed() const;

 private:
  std::string Eta() const;
  bool Quiet() const;
  void ClearLine();
  // Replaces the line, unless that is too early. False: it is.
  bool Due(int64_t now, int64_t redraw_every);
  void Show(const std::string& line);

  const int64_t start_;
  const int steps_;
  const bool estimated_;
  const double all_;  // in units of each_: seconds if estimated, else steps
  const bool terminal_;
  int done_ = 0;
  double each_ = 1;
  double of_done_ = 0;
  bool running_ = false;  // between Begin() and End()
  int64_t step_start_ = 0;
  int64_t line_at_ = 0;  // when it was last printed
  bool line_open_ = false;
  std::string what_;
};

// What is left of work of size `all` when `done` of it took `seconds_done` and the present step, of
// size `step`, runs for `seconds_of_this`; negative while none is done, since nothing is known
// then.
double SecondsLeft(double all, double done, double seconds_done, double seconds_of_this,
                   double step = 1);

// "48 s", "12 min", "1 h 20 min".
std::string FormatDuration(double seconds);

}  // namespace pulse
