#include "base/trace.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/log.h"
#include "base/shortage.h"
#include "base/unique_fd.h"

namespace pulse::trace {
namespace internal {
std::atomic<bool> on{false};
}
namespace {

constexpr size_t kMaxBuffered = size_t{64} << 20;
constexpr uint64_t kMaxFile = uint64_t{2} << 30;
constexpr auto kInterval = std::chrono::milliseconds(250);

// Leaked on purpose, as the log is: agent threads may trace while static destructors run.
struct Writer {
  std::mutex open_mu;  // held while a timeline begins or ends
  std::weak_ptr<Timeline> timeline;
  std::string given;  // as the user wrote it

  std::mutex mu;
  std::condition_variable wake;
  std::string buffer;
  uint64_t dropped = 0;
  bool stop = false;
  uint64_t number = 0;  // of the timeline: threads introduce themselves to each

  std::string path;
  UniqueFd file;
  uint64_t written = 0;
  bool failed = false;
  std::thread thread;
};

Writer& Get() {
  static auto* w = new Writer;
  return *w;
}

pid_t ThisThread() {
  static thread_local const pid_t id = static_cast<pid_t>(syscall(SYS_gettid));
  return id;
}

void AppendEscaped(std::string* out, absl::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned char>(c));
      out->append(code);
    } else {
      out->push_back(c);
    }
  }
}

// The unit of the format is the microsecond.
void AppendTime(std::string* out, absl::string_view key, int64_t nanos) {
  char text[40];
  std::snprintf(text, sizeof(text), "%lld.%03lld", static_cast<long long>(nanos / 1000),
                static_cast<long long>(nanos % 1000));
  absl::StrAppend(out, ",\"", key, "\":", text);
}

void AppendHead(std::string* out, char phase, const char* name, int64_t at) {
  absl::StrAppend(out, "{\"ph\":\"", absl::string_view(&phase, 1), "\",\"name\":\"");
  AppendEscaped(out, name);
  absl::StrAppend(out, "\",\"pid\":", getpid(), ",\"tid\":", ThisThread());
  AppendTime(out, "ts", at);
}

void AppendDetail(std::string* out, const Detail& d) {
  std::string args;
  const auto add = [&args](absl::string_view key, const auto& value) {
    absl::StrAppend(&args, args.empty() ? "" : ",", "\"", key, "\":", value);
  };
  if (!d.file.empty()) {
    std::string quoted = "\"";
    AppendEscaped(&quoted, d.file);
    quoted += '"';
    add("file", quoted);
  }
  if (d.offset != 0) add("offset", d.offset);
  if (d.bytes != 0) add("bytes", d.bytes);
  if (d.result != 0) add("result", d.result);
  if (!args.empty()) absl::StrAppend(out, ",\"args\":{", args, "}");
}

// A thread's name as it is now, once for each timeline.
void IntroduceLocked(Writer& w) {
  static thread_local uint64_t introduced = 0;
  if (introduced == w.number) return;
  introduced = w.number;
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  absl::StrAppend(&w.buffer, "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", getpid(),
                  ",\"tid\":", ThisThread(), ",\"args\":{\"name\":\"");
  AppendEscaped(&w.buffer, name);
  w.buffer += "\"}},\n";
}

void Add(const std::string& event) {
  Writer& w = Get();
  std::lock_guard lock(w.mu);
  if (!On()) return;  // it ended meanwhile
  if (w.buffer.size() + event.size() > kMaxBuffered) {
    ++w.dropped;
    return;
  }
  IntroduceLocked(w);
  w.buffer += event;
}

// On the writer's thread, without its lock.
void WriteOut(Writer& w, const std::string& text) {
  if (w.failed || text.empty()) return;
  if (w.written + text.size() > kMaxFile) {
    Log(LogLevel::kWarn, absl::StrCat("timeline ", w.path, " ends here: it has reached ",
                                      kMaxFile >> 30, " GiB; trace a shorter run"));
    w.failed = true;
    return;
  }
  if (absl::Status st = WriteAll(w.file.get(), text, "writing the timeline", w.path); !st.ok()) {
    Log(LogLevel::kWarn, absl::StrCat(st.message(), "; it ends here"));
    w.failed = true;
    return;
  }
  w.written += text.size();
}

void Run() {
  pthread_setname_np(pthread_self(), "pulse-trace");
  Writer& w = Get();
  std::unique_lock lock(w.mu);
  std::string text;
  while (true) {
    w.wake.wait_for(lock, kInterval, [&w] { return w.stop; });
    const bool last = w.stop;
    text.clear();
    text.swap(w.buffer);
    lock.unlock();
    WriteOut(w, text);
    lock.lock();
    // A file that takes no more is not worth the traced threads' time.
    if (w.failed) internal::on.store(false, std::memory_order_relaxed);
    if (last) return;
  }
}

std::string FileName(const std::string& given) {
  std::string name = given;
  for (size_t at = 0; (at = name.find("%p", at)) != std::string::npos;) {
    name.replace(at, 2, absl::StrCat(getpid()));
  }
  return name;
}

// Under open_mu, with a timeline that has not ended.
void End(Writer& w) {
  uint64_t dropped;
  {
    std::lock_guard events(w.mu);
    internal::on.store(false, std::memory_order_relaxed);
    // The format has a comma behind each event but the last.
    absl::StrAppend(&w.buffer, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":", getpid(),
                    ",\"args\":{\"sort_index\":0}}]\n");
    w.stop = true;
    dropped = w.dropped;
  }
  w.wake.notify_one();
  w.thread.join();
  w.file.reset();
  if (dropped > 0) {
    Log(LogLevel::kWarn,
        absl::StrCat("timeline ", w.path, ": ", dropped,
                     " events were dropped, since its disk is slower than they came"));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<Timeline>> Timeline::Open(const std::string& given) {
  Writer& w = Get();
  // Goes after the lock: a last reference's destructor takes it, too.
  std::shared_ptr<Timeline> current;
  std::lock_guard lock(w.open_mu);
  if (current = w.timeline.lock(); current != nullptr) {
    if (w.given == given) return current;
    return absl::FailedPreconditionError(
        absl::StrCat("trace=", given, ": this process writes its timeline to ", w.given,
                     " already; give all databases of a process the same file"));
  }
  if (w.thread.joinable()) End(w);  // the last one's destructor is just coming
  std::string path = FileName(given);
  // Not emptied before it is known to be nobody's.
  UniqueFd fd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0640));
  if (!fd.valid()) {
    return ErrnoError(errno, "opening the timeline", path, "name a file that can be written");
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the timeline ", path,
                     " is being written by another process; give each its own file, or have %p "
                     "in its name, which becomes the process id"));
  }
  if (ftruncate(fd.get(), 0) != 0 && errno != EINVAL) {  // a pipe, say, has no length
    return ErrnoError(errno, "emptying the timeline", path);
  }
  w.given = given;
  w.path = std::move(path);
  w.file = std::move(fd);
  w.written = 0;
  w.failed = w.stop = false;
  {
    std::lock_guard events(w.mu);
    w.dropped = 0;
    ++w.number;
    w.buffer = absl::StrCat("[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", getpid(),
                            ",\"args\":{\"name\":\"");
    AppendEscaped(&w.buffer, program_invocation_short_name);
    w.buffer += "\"}},\n";
  }
  if (absl::Status started = StartThread("a timeline", &Run, &w.thread); !started.ok()) {
    w.file.reset();
    return started;
  }
  current.reset(new Timeline(w.number));
  w.timeline = current;
  internal::on.store(true, std::memory_order_release);
  return current;
}

Timeline::~Timeline() {
  Writer& w = Get();
  std::lock_guard lock(w.open_mu);
  if (w.thread.joinable() && w.number == number_) End(w);
}

void Slice(const char* name, int64_t begin, int64_t end, const Detail& detail) {
  if (!On()) return;
  std::string event;
  AppendHead(&event, 'X', name, begin);
  AppendTime(&event, "dur", end - begin);
  AppendDetail(&event, detail);
  event += "},\n";
  Add(event);
}

void Flight(const char* stage, const char* name, int64_t begin, int64_t end, const Detail& detail) {
  if (!On()) return;
  static std::atomic<uint64_t> next{1};
  const uint64_t id = next.fetch_add(1, std::memory_order_relaxed);
  std::string events;
  AppendHead(&events, 'b', name, begin);
  absl::StrAppend(&events, ",\"cat\":\"", stage, "\",\"id\":", id);
  AppendDetail(&events, detail);
  events += "},\n";
  AppendHead(&events, 'e', name, end);
  absl::StrAppend(&events, ",\"cat\":\"", stage, "\",\"id\":", id, "},\n");
  Add(events);
}

void Instant(const char* name, absl::string_view what) {
  if (!On()) return;
  std::string event;
  AppendHead(&event, 'i', name, NowNanos());
  event += ",\"s\":\"p\",\"args\":{\"what\":\"";
  AppendEscaped(&event, what);
  event += "\"}},\n";
  Add(event);
}

Scope::Scope(const char* name, Detail detail)
    : name_(name), detail_(detail), begin_(On() ? NowNanos() : 0) {}

Scope::~Scope() {
  if (begin_ != 0) Slice(name_, begin_, NowNanos(), detail_);
}

}  // namespace pulse::trace
