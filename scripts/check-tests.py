#!/usr/bin/env python3
"""check-tests.py [FILE...]: fails on a sleep in a test that does not say why it is there, and on a
test whose name does not say what it shows.

A name is Subject_Condition_Result, or Subject_Result: TEST(Store, TornTail_Reopened_EndsTheLog). What
is disabled is a tool that stands among tests.

A test that sleeps is slow where that was too long, and fails for nothing where it was too short. It
waits for a condition instead (Eventually, SettledValue, Stays, StaysBlocked: base/testing.h), or
moves a clock (TestClock). A wait for a future that must not be ready is a sleep, too. Where time
itself is the subject, a comment says so, on the same line or just above:

    // sleep: a device's sync takes its time, in which others come
    std::this_thread::sleep_for(std::chrono::microseconds(500));

Looks at the C++ of unit tests and their helpers (x_test.cc, test_x.h, testing.h) and of tests/; or
at the files given.
"""
import os
import re
import subprocess
import sys

SLEEP = re.compile(r"(?<!int )\b(sleep_for|sleep_until|u?sleep|(clock_)?nanosleep|SleepFor\w*)\s*\(|"
                   # A wait of a given length, for a future that must not be ready or for nothing.
                   r"\bwait_for\((\w+, )?(std::chrono::\w+\((?!0\))[^()]*\)|[1-9]\d*[mun]?s)\)"
                   r"(?! == std::future_status::ready)")
REASON = re.compile(r"//\s*sleep: \S+ \S+")
NAME = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*\w+,\s*(?!DISABLED_)(\w+)\s*\)")
GOOD_NAME = re.compile(r"[A-Z][A-Za-z0-9]*(_[A-Z0-9][A-Za-z0-9]*)+$")
TEST_FILE = re.compile(r"(_test\.(cc|cpp|c)|_suite\.h|(^|/)(test_[^/]*|testing)\.(cc|h))$|"
                       r"^tests/.*\.(cc|h)$")


def test_files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, text=True, check=True)
    names = [n for n in listed.stdout.splitlines() if TEST_FILE.search(n)]
    return [n for n in names if os.path.exists(os.path.join(root, n))]


def without_comment(line):
    return line.split("//", 1)[0]


def has_reason(lines, at):
    """On the line, or in the comment above the statement that the line belongs to."""
    if REASON.search(lines[at]):
        return True
    above = at - 1
    while above >= 0 and without_comment(lines[above]).strip() and \
            without_comment(lines[above]).rstrip()[-1] not in ";{}":
        above -= 1
    while above >= 0 and lines[above].lstrip().startswith("//"):
        if REASON.search(lines[above]):
            return True
        above -= 1
    return False


def complaints(name, text):
    lines = text.splitlines()
    sleeps = [f"{name}:{i + 1}: {without_comment(line).strip()}" for i, line in enumerate(lines)
              if SLEEP.search(without_comment(line)) and not has_reason(lines, i)]
    return sleeps + [f"{name}:{text.count(chr(10), 0, m.start()) + 1}: {m.group(1)}"
                     for m in NAME.finditer(text) if not GOOD_NAME.match(m.group(1))]


def check_itself():
    """Each run shows first that what it looks for is found."""
    bad = ["  usleep(10);", "  // sleep:\n  usleep(10);", "  // why\n  ::sleep(1);",
           "  // sleep: of another line\n  Run();\n  std::this_thread::sleep_for(x);",
           "  while (a)\n    nanosleep(&t, 0);", "  env->SleepForMicroseconds(3);",
           "  EXPECT_EQ(f.wait_for(std::chrono::seconds(6)), std::future_status::timeout);",
           "  changed.wait_for(lock, 20ms);",
           "TEST(Store, Works) {", "TEST_F(StoreTest,\n       ALongName) {", "TEST_P(A, B_isNone) {"]
    good = ["  usleep(10);  // sleep: it is slow", "  // sleep: it is\n  // slow\n  usleep(10);",
            "  // sleep: it is slow\n  while (a ||\n         b)\n    usleep(10);",
            "int usleep(useconds_t t) {", "  // usleep(10);", "  Asleep(1);",
            "  f.wait_for(std::chrono::seconds(0));",
            "  ok = f.wait_for(std::chrono::seconds(60)) == std::future_status::ready;",
            "  changed.wait_for(lock, std::chrono::seconds(60), [&] { return done; });",
            "TEST(Store, Open_IsFast) {", "TEST_P(A,\n       TornTail_Reopened_EndsTheLog) {"]
    assert all(complaints("x", text) for text in bad), "a fault would not be found"
    assert not any(complaints("x", text) for text in good), "what is right would be refused"


def main():
    check_itself()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not sys.argv[1:] and not os.path.exists(os.path.join(root, ".git")):
        print("check-tests: this is no git checkout; nothing is checked", file=sys.stderr)
        return 77
    names = sys.argv[1:] or test_files(root)
    found = []
    for name in names:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            found += complaints(name, file.read())
    for line in found:
        print(f"check-tests: {line}", file=sys.stderr)
    if found:
        print("check-tests: wait for a condition, or say why (// sleep: REASON); name a test "
              "Subject_Condition_Result: see the script",
              file=sys.stderr)
        return 1
    print(f"check-tests: {len(names)} files of tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
