#!/usr/bin/env python3
"""`pulse top` on a terminal: top_terminal.py PULSE SOCKET AGENT_PID

Draws anew in place, follows the window's size, ends with q, Ctrl-C and SIGTERM, stops with Ctrl-Z, says
when its agent hangs, and always gives the terminal back as it was. One that obeys nothing gets plain pictures.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PULSE, SOCKET, AGENT = sys.argv[1], sys.argv[2], int(sys.argv[3])
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Top:
    def __init__(self, columns=80, rows=40, term="xterm"):
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.out = b""
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(slave, fd)
            os.closerange(3, 64)
            os.environ["TERM"] = term
            os.execv(PULSE, [PULSE, "top", "--interval", "0.2", "--socket", SOCKET])
        if term == "dumb":
            self.until(lambda: self.out.count(b"merge-encode") >= 2, "two pictures below each other")
        else:
            self.until(lambda: self.frames() >= 2, "two pictures")

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def frames(self):
        return self.out.count(b"\x1b[H")

    def read(self):
        ready, _, _ = select.select([self.master], [], [], 0.05)
        if ready:
            try:
                self.out += os.read(self.master, 65536)
            except OSError:
                pass

    def until(self, condition, what):
        limit = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < limit, f"{what}: not seen; {self.out[-2000:]!r}"
            self.read()

    def last_lines(self):
        frame = self.out.split(b"\x1b[H")[-2]  # the last may not be whole
        text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", frame).decode("utf-8")
        return text.replace("\r", "").split("\n")

    def end(self, what, status):
        limit = time.monotonic() + 30
        while True:
            pid, how = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            assert time.monotonic() < limit, f"{what} does not end it"
            self.read()
        for _ in range(5):
            self.read()
        assert how == status, f"{what}: status {how:#x}, not {status:#x}"
        assert self.out.count(ENTER) == self.out.count(LEAVE) > 0, what
        assert self.out.rstrip().endswith(LEAVE), f"{what}: {self.out[-200:]!r}"
        assert b"\x1b[?25h" in self.out, f"{what}: the cursor is not back"
        assert termios.tcgetattr(self.slave) == self.before, f"{what}: the terminal is changed"
        os.close(self.master)
        os.close(self.slave)


def settled(top):
    seen = top.frames()
    top.until(lambda: top.frames() >= seen + 3, "further pictures")
    return top.last_lines()


def main():
    top = Top()
    lines = settled(top)
    assert len(lines) == 40 and all(len(line) <= 80 for line in lines), lines
    assert any("merge-encode" in line for line in lines), lines
    assert b"\x1b[3" not in top.out, "colours in spite of NO_COLOR"
    top.resize(60, 12)  # the kernel tells
    lines = settled(top)
    assert len(lines) == 12 and all(len(line) <= 60 for line in lines), lines
    os.write(top.master, b"xq")
    top.end("q", 0)

    top = Top()
    os.write(top.master, b"\x03")
    top.end("Ctrl-C", 0)
    top = Top()
    os.kill(top.pid, signal.SIGTERM)
    top.end("SIGTERM", signal.SIGTERM)

    top = Top()
    os.write(top.master, b"\x1a")
    top.until(lambda: top.out.endswith(LEAVE), "giving back the terminal at Ctrl-Z")
    assert os.waitpid(top.pid, os.WUNTRACED)[1] == (signal.SIGSTOP << 8 | 0x7F)
    assert termios.tcgetattr(top.slave) == top.before, "stopped: the terminal is changed"
    os.kill(top.pid, signal.SIGCONT)
    settled(top)
    # An agent that hangs is said to, and it is shown again when it answers.
    os.kill(AGENT, signal.SIGSTOP)
    try:
        top.until(lambda: any("or is stopped" in l for l in top.last_lines()), "that the agent hangs")
    finally:
        os.kill(AGENT, signal.SIGCONT)
    top.until(lambda: any("merge-encode" in l for l in top.last_lines()), "the agent again")
    os.write(top.master, b"q")
    top.end("q after all that", 0)

    top = Top(term="dumb")
    os.kill(top.pid, signal.SIGTERM)
    os.waitpid(top.pid, 0)
    assert b"\x1b" not in top.out, f"sequences for a terminal that has none: {top.out[:200]!r}"
    print("pulse top gives the terminal back after q, Ctrl-C, SIGTERM and Ctrl-Z")


main()
