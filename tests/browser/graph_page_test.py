#!/usr/bin/env python3
"""The page of `pulse graph serve --http`.

usage: graph_page_test.py http|browser PULSE SCRATCH

http: its requests by a socket, with every kind of mistake and of other pages. browser: the page in a
headless browser, light and dark: a query is typed, rows and a drawing are looked at from inside; ends
with 77 where no browser is installed (PULSE_BROWSER names one).
"""
import atexit
import base64
import concurrent.futures
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from report_browser_test import SKIP, find_browser

JSON = {"Content-Type": "application/json"}


def fail(text):
    print("FAIL: " + text, file=sys.stderr)
    sys.exit(1)


def check(condition, text):
    if not condition:
        fail(text)


class Server:
    """pulse graph serve on a scratch database; ports are the kernel's."""

    def __init__(self, pulse, scratch, *options):
        self.log = scratch / "serve.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [pulse, "graph", "serve", str(scratch / "db"), "--bolt", "0", "--http", "0",
                 "--engine", "inline", *options], stderr=log)
        atexit.register(self.process.kill)  # where the test fails
        self.port = None
        while self.port is None:
            if self.process.poll() is not None:
                fail("the server ended: " + self.log.read_text(encoding="utf-8"))
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", self.log.read_text(encoding="utf-8"))
            self.port = int(found.group(1)) if found else None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        check(code == 0, f"the server ended with {code}: " + self.log.read_text(encoding="utf-8"))

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100)
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def query(self, text, headers=None, **more):
        status, _, body = self.ask("POST", "/query", json.dumps({"query": text, **more}),
                                   headers or JSON)
        return status, json.loads(body)

    def raw(self, data):
        """What comes back for bytes; nothing where the connection is cut."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=100) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
            except TimeoutError:
                raise
            except OSError:  # cut, at whatever call
                return b""
        return answer


def fill(server):
    status, answer = server.query(
        "CREATE (a:Person {name: 'Ann', big: 9007199254740993})-[:KNOWS {since: date('2024-02-29')}]"
        "->(b:Person {name: '<img src=x onerror=alert(1)>'})-[:LIKES]->(b)")
    check(status == 200 and answer["changes"].startswith("2 nodes created"), f"filling: {answer}")


def test_answers(server):
    status, headers, page = server.ask("GET", "/")
    check(status == 200 and page.startswith("<!doctype html>"), "the page")
    check("@NONCE@" not in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
          and "https://" not in page, "the page asks for something elsewhere")
    policy = headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", policy)
    check(nonce and f'nonce="{nonce.group(1)}"' in page, "the nonce")
    check("default-src 'none'" in policy and headers["X-Frame-Options"] == "DENY", policy)
    check(server.ask("GET", "/")[2] != page, "each page has a nonce of its own")
    check(server.ask("HEAD", "/")[2] == "", "HEAD")

    status, answer = server.query("MATCH p = (a)-[r]->(b) RETURN a, r, p, a.big AS big ORDER BY a.name DESC")
    check(status == 200 and answer["columns"] == ["a", "r", "p", "big"], str(answer))
    check(answer["rows"][0][3] == "9007199254740993", "an integer that a browser would round")
    check(answer["rows"][0][1]["properties"] == {"since": "2024-02-29"}, str(answer["rows"][0]))
    check(len(answer["graph"]["nodes"]) == 2 and len(answer["graph"]["relationships"]) == 2, str(answer))
    status, answer = server.query("MATCH ()-[r:KNOWS]->() RETURN r")
    check(len(answer["graph"]["nodes"]) == 2, "the ends of a relationship are drawn, too")
    status, answer = server.query("RETURN $x AS x", parameters={"x": [1, 2.5, None, {"k": "v"}]})
    check(answer["rows"] == [[[1, 2.5, None, {"k": "v"}]]], str(answer))
    status, answer = server.query("RETURN 1 AS\nx y")
    check(status == 400 and answer["error"]["code"] == "Neo.ClientError.Statement.SyntaxError"
          and "line 2, column 3" in answer["error"]["message"]
          and answer["error"]["message"].endswith("^"), str(answer))
    status, answer = server.query("EXPLAIN MATCH (n) RETURN n")
    check(status == 200 and "Scan all nodes" in answer["plan"], str(answer))


def test_limits(server):
    status, answer = server.query("UNWIND range(1, 100000) AS n RETURN n")
    check(status == 200 and len(answer["rows"]) == 1000 and answer["truncated"], "a thousand rows")
    status, answer = server.query("UNWIND range(1, 100000) AS n RETURN n", limit=10**9)
    check(len(answer["rows"]) == 10000 and answer["truncated"], "the most rows")
    status, answer = server.query("UNWIND range(1, 7) AS n RETURN n", limit=7)
    check(len(answer["rows"]) == 7 and not answer["truncated"], "as many as there are")
    status, answer = server.query(
        "UNWIND range(1, 100) AS n RETURN reduce(s = 'xxxxxxxxxx', i IN range(1, 16) | s + s) AS s")
    check(status == 200 and answer["truncated"] and 10 < len(answer["rows"]) < 40, "bytes of an answer")
    # What writes runs to its end, whatever is shown of it.
    status, answer = server.query("UNWIND range(1, 5000) AS n CREATE (m:M {n: n}) RETURN m.n", limit=10)
    check(len(answer["rows"]) == 10 and answer["truncated"], str(answer)[:200])
    check(server.query("MATCH (m:M) RETURN count(m)")[1]["rows"] == [[5000]], "all were made")
    check(len(server.query("MATCH (m:M) RETURN m")[1]["graph"]["nodes"]) == 400, "what is drawn")
    server.query("MATCH (m:M) DELETE m")
    # A value of more bytes than an answer has is not even written as one.
    status, answer = server.query("RETURN range(1, 20000000) AS list")
    check(status == 200 and answer["rows"] == [] and answer["truncated"], str(answer)[:200])
    most = {f"k{i:06}": 1 for i in range(250000)}
    status, answer = server.query("RETURN $most AS most", parameters={"most": most})
    check(status == 200 and answer["rows"] == [[most]], "a map of many keys")
    status, _, body = server.ask("POST", "/query", "x" * (5 << 20), JSON)
    check(status == 413, f"a request of 5 MiB: {status}")


def test_other_pages(server):
    own = f"127.0.0.1:{server.port}"
    body = json.dumps({"query": "CREATE (:Bad)"})
    for headers, code in (
            ({"Content-Type": "text/plain"}, 415), ({}, 415),
            ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
            ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
            ({"Content-Type": "text/plain; application/json"}, 415),
            ({**JSON, "Origin": "http://evil.example"}, 403), ({**JSON, "Origin": "null"}, 403),
            ({**JSON, "Origin": f"http://{own}.evil.example"}, 403),
            ({**JSON, "Origin": f"https://{own}"}, 403),
            ({**JSON, "Origin": f"http://localhost:{server.port}"}, 403),
            ({**JSON, "Sec-Fetch-Site": "cross-site"}, 403), ({**JSON, "Sec-Fetch-Site": "same-site"}, 403),
            ({**JSON, "Host": "evil.example"}, 403), ({**JSON, "Host": f"evil.example:{server.port}"}, 403),
            ({**JSON, "Host": "127.0.0.1"}, 403), ({**JSON, "Host": "127.0.0.1:1"}, 403),
            ({**JSON, "Host": ""}, (400, 403))):
        status, _, text = server.ask("POST", "/query", body, headers)
        codes = code if isinstance(code, tuple) else (code,)
        check(status in codes, f"{headers}: {status}, expected {code}: {text}")
    check(server.ask("GET", "/", headers={"Host": "evil.example"})[0] == 403, "the page, by another name")
    for headers in ({"Origin": f"http://{own}"}, {"Sec-Fetch-Site": "same-origin"},
                    {"Host": f"localhost:{server.port}", "Origin": f"http://localhost:{server.port}"}):
        check(server.query("RETURN 1", {**JSON, **headers})[0] == 200, f"own page: {headers}")
    check(server.query("MATCH (b:Bad) RETURN count(b)")[1]["rows"] == [[0]], "a stranger wrote")


def test_hostile(server):
    for method, path, code in (("GET", "/query", 405), ("PUT", "/query", 405), ("DELETE", "/", 405),
                               ("OPTIONS", "/query", 405), ("GET", "/../../etc/passwd", 404),
                               ("GET", "/favicon.ico", 404), ("GET", "/%2e%2e/etc/passwd", 404),
                               ("GET", "//", 404), ("POST", "/", 405)):
        status = server.ask(method, path)[0]
        check(status == code or (code in (404, 405) and status in (400, 404, 405)),
              f"{method} {path}: {status}, expected {code}")
    for body in ("", "{", "[]", "null", '"x"', "{}", '{"query": 1}', '{"query": "RETURN 1", "other": 1}',
                 '{"query": "RETURN 1", "parameters": []}', '{"query": "RETURN 1", "limit": 0}',
                 '{"query": "RETURN 1", "limit": -1}', '{"query": "RETURN 1", "limit": 1.5}',
                 '{"query": "RETURN $x", "parameters": {"x": 18446744073709551615}}',
                 '{"query": "RETURN $x", "parameters": {"x": [-9223372036854775809]}}',
                 '{"query": "RETURN $x", "parameters": {"x": 100000000000000000000}}',
                 '{"query": "RETURN $x", "parameters": {"x": ' + "[" * 5000 + "]" * 5000 + "}}",
                 "[" * 100000, '{"query": "\xff"}'.encode("latin-1")):
        status, _, text = server.ask("POST", "/query", body, JSON)
        check(status == 400 and "error" in json.loads(text), f"{body[:60]}: {status} {text[:200]}")
    deep = '{"query": "RETURN $x", "parameters": {"x": ' + "[" * 4000000
    check("too deep" in server.ask("POST", "/query", deep, JSON)[2], "what is too deep is not read")
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    head = b"POST /query HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    good = b'{"query":"CREATE (:Bad)"}'
    hostile = []
    for data in (b"", b"\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n" + host + b"\r\n",
                 b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n" + host + host + b"\r\n",
                 b"GET / HTTP/1.1\r\n" + host + b"A: " + b"x" * 100000 + b"\r\n\r\n",
                 b"GET / HTTP/1.1\r\n" + host + b"A: b\r\n" * 5000 + b"\r\n",
                 b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n" + host + b"\r\n",
                 head + b"Content-Length: -5\r\n\r\n" + good, head + b"\r\n" + good,
                 head + b"Content-Length: 99999999999999999999\r\n\r\n" + good,
                 head + b"Content-Length: 1000\r\n\r\n" + good[:5],
                 head + b"Transfer-Encoding: chunked\r\n\r\n19\r\n" + good + b"\r\n0\r\n\r\n",
                 head + b"Content-Length: 25\r\nTransfer-Encoding: chunked\r\n\r\n" + good):
        hostile.append(data)
    # At a time: each may hold a thread of the server until its limit of two seconds.
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for data, answer in zip(hostile, pool.map(server.raw, hostile)):
            check(not answer.startswith(b"HTTP/1.1 200"), f"{data[:80]}: {answer[:200]}")
    seed = int(os.environ.get("PULSE_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"seed {seed} (repeat with PULSE_TEST_SEED={seed})")
    dice = random.Random(seed)
    whole = head + b"Content-Length: 12\r\n\r\n" + b'{"query":""}'
    damaged = []
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 6)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        damaged.append(bytes(data[:dice.randrange(len(data) + 1)]))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(server.raw, damaged))
    check(server.query("MATCH (b:Bad) RETURN count(b)")[1]["rows"] == [[0]], "the server answers, unchanged")


def test_slow(server):
    """As many clients as the server has threads, each of which sends a byte a second."""
    done = threading.Event()

    def send_slowly():
        with socket.create_connection(("127.0.0.1", server.port), timeout=100) as connection:
            connection.sendall(f"POST /query HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
                               "Content-Type: application/json\r\nContent-Length: 20000\r\n\r\n".encode())
            try:
                while not done.wait(1):
                    connection.sendall(b" ")
            except OSError:  # cut
                pass

    clients = [threading.Thread(target=send_slowly, daemon=True) for _ in range(8)]
    for client in clients:
        client.start()
    time.sleep(1)  # sleep: so that they are there, mostly; the order does not matter
    check(server.ask("GET", "/")[0] == 200, "the page beside slow clients")
    done.set()
    for client in clients:
        client.join()


def test_users(pulse, scratch):
    (scratch / "password").write_text("secret\n", encoding="utf-8")
    (scratch / "password").chmod(0o600)
    server = Server(pulse, scratch, "--requirepass", str(scratch / "password"))

    def auth(text):
        return {**JSON, "Authorization": "Basic " + base64.b64encode(text.encode()).decode()}
    for headers in ({}, auth("neo4j:wrong"), auth("nobody:secret"), auth("secret"),
                    {"Authorization": "Basic !!"}, {"Authorization": "Bearer secret"}):
        status, answers, _ = server.ask("GET", "/", headers=headers)
        check(status == 401 and answers["WWW-Authenticate"].startswith("Basic "), f"{headers}: {status}")
    check(server.query("RETURN 1", {**JSON, **auth("x:y")})[0] == 401, "a query of nobody")
    check(server.query("RETURN 1", auth("neo4j:secret"))[0] == 200, "neo4j")
    check(server.query("RETURN 1", auth("default:secret"))[0] == 200, "default")
    # Wrong passwords are slowed, and what comes too early is not even looked at. Other names that failed
    # may share their place with this one; a busy machine may be later than the wait of a second.
    for _ in range(20):
        codes = []
        while codes[-1:] != [429]:
            codes.append(server.ask("GET", "/", headers=auth("default:guess"))[0])
            check(len(codes) < 100 and set(codes) <= {401, 429}, f"guesses: {codes}")
        if server.query("RETURN 1", auth("neo4j:secret"))[0] == 429:
            break
    else:
        check(False, "the right one is never too early")
    server.stop()


class Browser:
    """A headless browser, driven by its debugging protocol over two pipes."""

    def __init__(self, program, scratch):
        to_read, self.to = os.pipe()
        self.back, from_write = os.pipe()
        self.log = open(scratch / "browser.log", "wb")
        # The browser reads from 3 and writes to 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "browser",
             program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={scratch / 'profile'}",
             "--window-size=1000,1200", "about:blank"],
            pass_fds=(to_read, from_write), stderr=self.log, stdout=self.log)
        atexit.register(self.process.kill)
        os.close(to_read)
        os.close(from_write)
        self.number, self.buffer, self.session = 0, b"", None
        self.problems = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.buffer:
                part = os.read(self.back, 65536)
                if not part:
                    fail("the browser ended")
                self.buffer += part
            text, self.buffer = self.buffer.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("method") == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(answer["params"])[:500])
            if answer.get("method") == "Log.entryAdded" and "favicon" not in text.decode():
                entry = answer["params"]["entry"]
                if "400 (Bad Request)" not in entry["text"]:
                    self.problems.append(entry["text"])
            if answer.get("id") == self.number:
                if "error" in answer:
                    fail(f"{method}: {answer['error']}")
                return answer["result"]

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            fail(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression):
        for _ in range(600):
            if self.value(expression):
                return
            time.sleep(0.1)  # sleep: between looks at a condition
        fail(f"never came true: {expression}; {self.value('document.body.innerText')}")

    def key(self, key, code, modifiers=0, text=None):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code, modifiers=modifiers, **more)

    def run(self, query):
        """Types a query in place of what is there, and runs it by the keyboard."""
        self.value("document.getElementById('query').focus(), document.getElementById('query').select()")
        self.call("Input.insertText", text=query)
        self.key("Enter", 13, modifiers=2, text="\r")
        self.wait("!document.getElementById('run').disabled")

    def shoot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


SHOWN = "!document.getElementById('%s').hasAttribute('hidden')"
LUMINANCE = """(function (property) {
  var c = getComputedStyle(document.body)[property].match(/[\\d.]+/g).slice(0, 3).map(Number);
  return (0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]) / 255;
})"""


def look_at_drawing(browser):
    browser.run("MATCH (a)-[r]->(b) RETURN a, r, b ORDER BY a.name")
    check(browser.value(SHOWN % "graph"), "nodes are drawn")
    check(browser.value("document.querySelectorAll('g.node').length") == 2, "two nodes")
    check(browser.value("document.querySelectorAll('g.edge').length") == 2, "two relationships")
    places = "[...document.querySelectorAll('g.node')].map(g => g.getAttribute('transform')).join()"
    last = None
    for _ in range(100):  # until they stay
        now = browser.value(places)
        if now == last:
            break
        last = now
        time.sleep(0.2)  # sleep: between looks at what moves
    far = browser.value(
        "(function () { var b = [...document.querySelectorAll('g.node circle')].map(c => c.getBoundingClientRect());"
        " return Math.hypot(b[0].x - b[1].x, b[0].y - b[1].y); })()")
    check(far > 40, f"nodes stand apart: {far}")
    check(browser.value("document.querySelectorAll('#rows td').length") == 6, "the table")
    check(browser.value("document.querySelectorAll('img').length") == 0
          and "<img src=x onerror=alert(1)>" in browser.value("document.body.innerText"), "text is text")
    check("2 rows" in browser.value("document.getElementById('state').textContent"), "how many rows")


def look_at_keys(browser):
    """From the query on by Tab alone: the button, then the nodes, which arrows move."""
    browser.value("document.getElementById('query').focus()")
    browser.key("Tab", 9)
    check(browser.value("document.activeElement.id") == "run", "Tab goes to the button")
    browser.key("Tab", 9)
    check(browser.value("document.activeElement.getAttribute('class')") == "node", "and to a node")
    check(browser.value(SHOWN % "detail") and
          "Person" in browser.value("document.getElementById('detail').textContent"), "which says what it has")
    before = browser.value("document.activeElement.getAttribute('transform')")
    browser.key("ArrowLeft", 37)
    check(browser.value("document.activeElement.getAttribute('transform')") != before, "an arrow moves it")


def browser_test(pulse, scratch):
    program = find_browser()
    if program is None:
        print("skipped: no browser is installed; `make browser-test` installs one")
        sys.exit(SKIP)
    server = Server(pulse, scratch)
    fill(server)
    browser = Browser(program, scratch)
    shots = os.environ.get("PULSE_BROWSER_SHOTS")
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.call("Page.navigate", url=f"http://127.0.0.1:{server.port}/")
        browser.wait("document.readyState === 'complete' && document.getElementById('query') !== null")
        back, fore = (browser.value(f"{LUMINANCE}('{p}')") for p in ("backgroundColor", "color"))
        check((back > 0.8 and fore < 0.2) if scheme == "light" else (back < 0.2 and fore > 0.8),
              f"{scheme}: background {back}, text {fore}")
        look_at_drawing(browser)
        look_at_keys(browser)
        if shots:
            browser.shoot(Path(shots).resolve() / f"graph-{scheme}.png")
    browser.run("RETURN 1 AS")
    error = browser.value("document.getElementById('error').textContent")
    check(browser.value(SHOWN % "error") and "SyntaxError" in error and error.endswith("^"),
          f"an error with its caret: {error}")
    check(not browser.value(SHOWN % "graph") and not browser.value(SHOWN % "scroll"), "and nothing else")
    # Maps that look nearly like nodes, relationships and paths.
    for text in ("{labels: 1, id: 2}", "{labels: null, id: null}", "{type: 1, start: 2, end: 3}",
                 "{nodes: 1, relationships: 2}", "{nodes: [], relationships: [1]}", "[{labels: {}, id: 0}]"):
        browser.run(f"RETURN {text} AS map")
        check(not browser.value(SHOWN % "error") and
              browser.value("document.querySelectorAll('#rows td').length") == 1, text)
    browser.run("CREATE (:Made) RETURN 1 AS one")
    check("1 nodes created" in browser.value("document.getElementById('state').textContent"), "what changed")
    browser.run("EXPLAIN MATCH (n) RETURN n")
    check("Scan all nodes" in browser.value("document.getElementById('plan').textContent"), "a plan")
    # What is not the page's own is refused by the page itself.
    check(browser.value("var bad = false; addEventListener('securitypolicyviolation', () => { bad = true; });"
                        "var i = new Image(); i.src = 'http://127.0.0.1:1/x'; 1") == 1, "an image of elsewhere")
    browser.wait("bad")
    browser.problems = [p for p in browser.problems if "Content Security Policy" not in p]
    check(not browser.problems, "\n".join(browser.problems))
    server.stop()
    browser.run("RETURN 1")
    check("does not answer" in browser.value("document.getElementById('error').textContent"), "no server")
    browser.stop()
    print("ok: the page in a browser")


def http_test(pulse, scratch):
    server = Server(pulse, scratch)
    fill(server)
    test_answers(server)
    test_limits(server)
    test_other_pages(server)
    test_hostile(server)
    test_slow(server)
    server.stop()
    test_users(pulse, scratch)
    print("ok: the page's requests")


def main():
    mode, pulse, scratch = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (browser_test if mode == "browser" else http_test)(pulse, scratch)


main()
