"""Writes keys to `pulse kv` until it is gone, and says after how many replies; or checks that they are there.

usage: kv_told.py PORT ROUND [REPLIES]
"""
import socket
import sys

KEYS = 500


def value(round_number, i):
    # Of many sizes, so that items move.
    return f"{round_number}-{i}-" + "v" * (i * 37 % 900)


def main():
    port, round_number = int(sys.argv[1]), int(sys.argv[2])
    connection = socket.create_connection(("127.0.0.1", port))
    stream = connection.makefile("rwb")
    if len(sys.argv) == 3:
        count = 0
        try:
            while True:
                stream.write(f"SET key{count % KEYS} {value(round_number, count)}\r\n".encode())
                stream.flush()
                reply = stream.readline()
                if reply != b"+OK\r\n":
                    if not reply:
                        return 0
                    sys.exit(f"reply {count}: {reply!r}")
                count += 1
                print(count, flush=True)
        except OSError:
            return 0
    told = int(sys.argv[3])
    for key in range(KEYS):
        stream.write(f"GET key{key}\r\n".encode())
        stream.flush()
        size = int(stream.readline()[1:])
        got = stream.read(size + 2)[:-2].decode() if size >= 0 else None
        # The last reply of this key; and the write that had no reply may be there, too.
        last = told - 1 - (told - 1 - key) % KEYS
        allowed = [value(round_number, last)]
        if told % KEYS == key:
            allowed.append(value(round_number, told))
        if got not in allowed:
            sys.exit(f"key{key}: {str(got)[:40]!r} is none of {[a[:40] for a in allowed]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
