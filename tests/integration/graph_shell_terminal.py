#!/usr/bin/env python3
"""`pulse graph shell` on a terminal: graph_shell_terminal.py PULSE DB

Control-C gives up what was typed, also over several lines, ends a statement that runs and not the shell, and
Control-D leaves. Text is UTF-8, a tab is text, and what is recalled is what was typed. HOME is a directory of its
own, for the history.
"""
import os
import pty
import select
import sys
import termios
import time

PULSE, DB = sys.argv[1], sys.argv[2]
FIRST, MORE = b"graph> ", b"  ...> "
LONG = (b"UNWIND range(1, 10000) AS a UNWIND range(1, 10000) AS b UNWIND range(1, 10000) AS c "
        b"WITH a WHERE a < 0 RETURN count(*);")


class Shell:
    def __init__(self):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.environ["LC_ALL"] = "C"
            os.execv(PULSE, [PULSE, "graph", "shell", "--json", DB])
        self.out = b""
        self.until(FIRST)

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.out += os.read(self.master, 65536)
            except OSError:  # the other end is closed
                return False
        return True

    # Until `text` comes; what came up to it is forgotten.
    def until(self, text, every=None):
        end, said = time.monotonic() + 60, time.monotonic()
        while text not in self.out:
            if time.monotonic() > end or not self.read(0.1):
                sys.exit(f"no {text!r} in {self.out!r}")
            if every is not None and time.monotonic() - said > 0.3:
                os.write(self.master, every)
                said = time.monotonic()
        before, _, self.out = self.out.partition(text)
        return before

    # At a prompt. Between that and the first key, libedit has not taken the terminal over yet: the kernel
    # would echo the text, and Control-C and Control-Z would throw it away.
    def type(self, text):
        end = time.monotonic() + 60
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            if time.monotonic() > end:
                sys.exit(f"the shell does not take over the terminal: {self.out!r}")
            self.read(0.01)
        os.write(self.master, text)

    def give_up(self):
        self.type(b"\x03")
        self.until(FIRST)

    def ask(self, text, answer):
        self.type(text + b"\n")
        before = self.until(answer) + self.until(FIRST)
        if b"Error" in before or b"rror:" in before:
            sys.exit(f"{text!r} got {before!r}")


shell = Shell()
shell.ask(b"RETURN 40 + 2 AS x;", b'{"x":42}')

# Characters beyond ASCII, and a tab.
shell.ask("RETURN 'Zoë ☃' = 'Zo' + '\\u00eb \\u2603' AS x, size('a\tb') AS n;".encode(), b'{"x":true,"n":3}')

# The statement before, by Control-P, with its lines.
shell.type(b"RETURN 1 // c\n")
shell.until(MORE)
shell.ask(b"+ 1 AS x;", b'{"x":2}')
shell.ask(b"\x10", b'{"x":2}')

# A line, and the lines before it, are given up.
shell.type(b"RETURN nonsense")
shell.until(b"nonsense")
shell.give_up()
shell.ask(b"RETURN 40 + 3 AS x;", b'{"x":43}')
shell.type(b"RETURN\n")
shell.until(MORE)
shell.type(b"more nonsense")
shell.until(b"more nonsense")
shell.give_up()
shell.ask(b"RETURN 40 + 4 AS x;", b'{"x":44}')
# At an empty prompt it does nothing.
shell.give_up()

# Control-Z stops what has a job control above it, as this has not, and goes on where it was.
shell.type(b"RETURN 40")
shell.until(b"RETURN 40")
shell.type(b"\x1a")
shell.until(b"RETURN 40")
shell.ask(b" + 6 AS x;", b'{"x":46}')

# A statement that runs ends, and the shell does not. Where the shell has not begun it yet, the key comes too
# early.
shell.type(LONG + b"\n")
shell.until(b"RETURN count(*);")
before = shell.until(FIRST, every=b"\x03")
if b"erminated" not in before and b"ancelled" not in before:
    sys.exit(f"the statement was not ended: {before!r}")
shell.ask(b"RETURN 40 + 5 AS x;", b'{"x":45}')

# Within a line Control-D is no end.
shell.type(b"RETURN 1")
shell.until(b"RETURN 1")
shell.type(b"\x04")
shell.give_up()
shell.type(b"\x04")
while shell.read(60):
    pass
_, status = os.waitpid(shell.pid, 0)
if os.waitstatus_to_exitcode(status) != 0:
    sys.exit(f"the shell ended with {status}: {shell.out!r}")
