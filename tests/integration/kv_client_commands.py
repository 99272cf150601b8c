"""CLIENT, ACL LOG, MEMORY, LATENCY and OBJECT of `pulse kv` beside redis-server's: the same lines to
both, and the same replies and messages from both, byte for byte.
usage: kv_client_commands.py PORT PORT_OF_REDIS_SERVER"""

import re
import socket
import sys

# Each on connections of its own.
SCRIPTS = {
    "options": """CLIENT TRACKING; CLIENT TRACKING ON; CLIENT TRACKINGINFO; CLIENT GETREDIR
        CLIENT TRACKING ON BCAST; CLIENT TRACKING OFF; CLIENT TRACKING ON OPTIN OPTOUT
        CLIENT TRACKING ON PREFIX a; CLIENT TRACKING ON BCAST PREFIX a PREFIX ab
        CLIENT TRACKING ON BCAST OPTIN; CLIENT TRACKING x; CLIENT CACHING yes
        CLIENT TRACKING ON OPTIN; CLIENT CACHING no; CLIENT CACHING yes; CLIENT TRACKINGINFO
        CLIENT TRACKINGINFO; CLIENT CACHING x; CLIENT TRACKING OFF
        CLIENT TRACKING ON OPTOUT; CLIENT CACHING yes; CLIENT CACHING no; CLIENT TRACKINGINFO
        CLIENT TRACKING OFF; CLIENT TRACKING ON BCAST PREFIX a NOLOOP
        CLIENT TRACKING ON BCAST PREFIX ab; CLIENT TRACKING ON BCAST PREFIX z; CLIENT TRACKINGINFO
        CLIENT TRACKING ON FOO; CLIENT TRACKING OFF BCAST; CLIENT TRACKING ON PREFIX
        CLIENT TRACKING ON BCAST; CLIENT TRACKING ON BCAST PREFIX z; CLIENT TRACKINGINFO
        CLIENT TRACKINGINFO a; CLIENT CACHING; CLIENT GETREDIR; RESET; CLIENT TRACKINGINFO""",
    "tracking": """HELLO 3; FLUSHALL; CLIENT TRACKING ON; GET a; SET a 1; GET a; MGET a b; SET b 2
        FLUSHALL; GET c; MULTI; GET d; SET d 1; EXEC; SET c 2; DEL nokey; EXISTS e; APPEND e x
        STRLEN e; EXPIRE e 100; TTL e; PERSIST e; GETEX e; SET e 1; GETDEL e; GETRANGE e 0 1; SET e 2
        TYPE e; RENAME e f; GET f; SETNX f 1; GETSET f 3; BITCOUNT f; SETBIT f 1 1; GET f; COPY f g
        GET g; UNLINK g; SCAN 0; SET g 1; CLIENT TRACKING OFF; GET f; SET f 1
        CLIENT TRACKING ON BCAST PREFIX q; SET q1 1; SET x 1; DEL q1; CLIENT TRACKINGINFO
        CLIENT TRACKING OFF; CLIENT TRACKING ON NOLOOP; GET a; SET a 2; RESET""",
    "optin": """HELLO 3; CLIENT TRACKING ON OPTIN; GET a; SET a 1; CLIENT CACHING YES; GET a; GET b
        SET a 2; SET b 2; CLIENT CACHING YES; MULTI; GET a; GET b; EXEC; SET a 3; SET b 3
        CLIENT CACHING YES; PING; GET a; SET a 4; CLIENT TRACKING OFF""",
    "pause": """CLIENT PAUSE; CLIENT PAUSE x; CLIENT PAUSE -1; CLIENT PAUSE 10 FOO; CLIENT UNPAUSE
        CLIENT UNPAUSE x; CLIENT PAUSE 50 ALL; PING; CLIENT PAUSE 50 WRITE; GET a; SET a 1
        CLIENT PAUSE 50 write; MULTI; SET a 1; EXEC; CLIENT UNPAUSE""",
    "acl": """ACL LOG RESET; ACL LOG; ACL LOG x; ACL LOG 0; AUTH a b; AUTH a b; AUTH c d; ACL LOG
        ACL LOG 1; ACL LOG RESET; ACL LOG; HELLO 3; AUTH a b; ACL LOG; ACL LOG RESET""",
    "reports": """LATENCY LATEST; LATENCY HISTORY x; LATENCY RESET; LATENCY GRAPH x; MEMORY PURGE
        MEMORY USAGE nokey; OBJECT IDLETIME nokey; OBJECT FREQ nokey; OBJECT ENCODING nokey
        CLIENT NO-EVICT on; CLIENT NO-EVICT off; CLIENT NO-EVICT x; CLIENT REPLY; CLIENT REPLY x""",
}


class Server:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.socket.makefile("rb")

    def receive(self):
        line = self.file.readline()
        if line[:1] in b"$=" and line != b"$-1\r\n":
            return line + self.file.read(int(line[1:]) + 2)
        if line[:1] in b"*%~>" and line != b"*-1\r\n":
            count = int(line[1:]) * (2 if line[:1] == b"%" else 1)
            return line + b"".join(self.receive() for _ in range(count))
        return line

    def ask(self, line):
        """The reply, and the messages that come before the next one's but one."""
        said = []
        for part in (line, "ECHO one", "ECHO two"):
            self.socket.sendall(part.encode() + b"\r\n")
            while True:
                said.append(self.receive())
                if not said[-1].startswith(b">"):
                    break
        replies = [x for x in said if not x.startswith(b">")]
        return self.plain(replies[0]), sorted(x for x in said if x.startswith(b">"))

    @staticmethod
    def plain(reply):
        """Without what differs from server to server."""
        reply = re.sub(rb"\$\d+\r\nid=[^\r]*\r\n", b"CLIENT\r\n", reply)
        reply = re.sub(rb"age-seconds\r\n(,|\$)(\d+\r\n)?[\d.e-]+\r\n", rb"AGE \1\r\n", reply)
        return reply


def main():
    ports = [int(port) for port in sys.argv[1:]]
    lines = 0
    for name, script in SCRIPTS.items():
        ours, theirs = (Server(port) for port in ports)
        for line in re.split(r";|\n", script):
            a, b = ours.ask(line.strip()), theirs.ask(line.strip())
            # Its greeting tells of the server.
            if line.strip().startswith(("HELLO", "SCAN")):
                a, b = a[1], b[1]
            assert a == b, f"{name}, {line.strip()}: {a!r}, and redis-server {b!r}"
            lines += 1
    # What has no reply: all that was left out would come first.
    silent = ("CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\nCLIENT REPLY OFF\r\nGET a\r\nNOSUCH\r\n"
              "CLIENT REPLY SKIP\r\nGET a\r\nCLIENT REPLY ON\r\nGET a\r\nCLIENT REPLY SKIP\r\n"
              "CLIENT REPLY SKIP\r\nGET a\r\nGET a\r\nQUIT\r\n").encode()
    said = []
    for port in ports:
        server = Server(port)
        server.socket.sendall(silent)
        said.append(server.file.read())
    assert said[0] == said[1], said
    print(f"{lines} lines")


main()
