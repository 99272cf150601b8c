// The file library in one screen: writes a file, makes it durable, reads it back.
//
//   pulse pool create /data/pool --size 1G
//   pulse agent --socket /run/pulse.sock --store /data/pool &
//   files_example /run/pulse.sock
#include <cstdio>
#include <cstdlib>
#include <string>

#include "pulse/files.h"

using pulse::files::Completion;
using pulse::files::Library;
using pulse::files::Poll;

namespace {

// Waits for one operation. A real program has many outstanding, and tells them apart by cookie.
Completion Finish(Library& library, Poll poll, const absl::Status& submitted) {
  Completion done;
  done.status = submitted;
  if (submitted.ok()) {
    const auto n = library.PollWait(poll, &done, 1, pulse::files::kForever);
    if (!n.ok()) done.status = n.status();
  }
  if (!done.status.ok() && !absl::IsAlreadyExists(done.status)) {
    std::fprintf(stderr, "files_example: %s\n", done.status.ToString().c_str());
    std::exit(1);
  }
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  auto opened = Library::Open({.socket = argc > 1 ? argv[1] : "/run/pulse.sock"});
  if (!opened.ok()) {
    std::fprintf(stderr, "files_example: %s\n", opened.status().ToString().c_str());
    return 1;
  }
  Library& library = **opened;
  const Poll poll = library.CreatePoll().value();
  Finish(library, poll, library.CreateDirectory(poll, "letters", 0));
  Finish(library, poll, library.CreateFile(poll, "letters", "first", 0));
  const auto file = Finish(library, poll, library.OpenFile(poll, "letters", "first", 0)).file;
  const std::string text = "Dear agent, please keep this.";
  Finish(library, poll, library.WriteFile(file, 0, text.data(), text.size(), 1));
  Finish(library, poll, library.SyncFile(file, 2));
  Completion read = Finish(library, poll, library.ReadInPlace(file, 5, 100, 3));
  std::printf("%.*s\n", static_cast<int>(read.bytes), read.data);
  library.Release(poll, &read);
  Finish(library, poll, library.CloseFile(file, 4));
  const absl::Status closed = library.Close();
  if (!closed.ok()) std::fprintf(stderr, "files_example: %s\n", closed.ToString().c_str());
  return closed.ok() ? 0 : 1;
}
