#!/usr/bin/env python3
"""graph_server.py PULSE [options]: `pulse graph serve` on a new database as bolt_driver_test.* wants a
server: prints its port, ends with its standard input. Takes --users, --cert and --key."""
import os
import re
import subprocess
import sys
import tempfile

NAMES = {"--users": "--users", "--cert": "--tls-cert", "--key": "--tls-key"}


def main():
    options = sys.argv[2:]
    command = [sys.argv[1], "graph", "serve"]
    with tempfile.TemporaryDirectory() as folder:
        command += [os.path.join(folder, "db"), "--bolt", "0"]
        for name, value in zip(options[::2], options[1::2]):
            if name not in NAMES:
                sys.exit(f"graph_server: {name} is not for a server that ships")
            command += [NAMES[name], value]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
            for line in server.stderr:
                port = re.search(r" on bolt://\S+:(\d+) ", line)
                if port:
                    print(port[1], flush=True)
                    break
                print(line, end="", file=sys.stderr)
            sys.stdin.read()
            server.terminate()
            server.stderr.read()
            return server.wait()


if __name__ == "__main__":
    sys.exit(main())
