#!/usr/bin/env python3
"""check-rooms.py [--list] [--sizes] [--write] [--root DIR]: which room may include which.

A room is a folder with a purpose. ROOMS is the only place that says which rooms exist and what each
may include; CONTRIBUTING.md lists the same rooms and docs/internals describes them. The script fails
on an include that the table does not allow, on a folder of code that belongs to no room, on product
code that includes test code, on a line of the table or an exception that no file needs, on a cycle
of rooms, and on a list of rooms in CONTRIBUTING.md or docs/internals that differs from the table.
Tests may include any room.

  --list   prints each room with its lines of C++ outside tests, and what it may include
  --sizes  fails on a room, a file or a whole that is larger than the limits below
  --write  writes the last section of the pages in docs/internals: what their rooms may include
"""
import argparse
import os
import re
import sys
import textwrap

# Room: the rooms that its code includes, and may include; tests are free. So are includes within a
# room. A name that ends in * stands for every room that begins so. "rocksdb" is the library,
# "include" is include/pulse.
ROOMS = {
    "include": ("rocksdb",),
    "src/base": (),
    "src/placement": (),
    "src/store": ("base",),
    "src/mover": ("base",),
    "src/channel": ("base", "mover"),
    "src/uring": ("base",),
    # The agent's half, for hosts that embed it.
    "src/link": ("base", "channel", "agent"),
    "src/agent": ("base", "channel", "mover", "uring"),
    "src/vdpu": ("base", "mover", "agent"),
    "src/net": ("base", "uring"),
    # The table of services.
    "src/services": ("agent", "services/*"),
    # Services. No service includes another one, but for offload, which reads what files stores, kv,
    # which answers Redis's commands, and redis, which caches values in kv's engine; front is what
    # those with remote clients share.
    "src/services/front": ("base", "net", "agent"),
    "src/services/echo": ("base", "link", "agent"),
    "src/services/files": ("base", "channel", "uring", "link", "agent", "store", "include"),
    "src/services/offload": ("base", "store", "net", "agent", "services/files", "services/front",
                             "include"),
    # Its commands on keys, which a Keyspace holds: in a RocksDB, or in memory.
    "src/services/redis/commands": ("base", "rocksdb"),
    # Users and what they may do: values, without a server.
    "src/services/redis/acl": ("base", "net", "services/redis/commands"),
    "src/services/redis": ("base", "net", "services/kv/core", "services/redis/acl",
                           "services/redis/commands", "include", "rocksdb"),
    # What the agent answers of it.
    "src/services/redis/offload": ("base", "net", "agent", "services/front", "services/kv/core",
                                   "services/redis", "services/redis/commands", "rocksdb"),
    # The in-memory store: its commands are those of the Redis server. Its engine is pure.
    "src/services/kv": ("base", "services/kv/core", "services/redis",
                        "services/redis/commands", "include"),
    "src/services/kv/core": ("base",),
    # memcached's commands on its keys.
    "src/services/kv/memcached": ("base", "net", "services/kv", "services/redis",
                                  "services/redis/commands"),
    # The store inside a program that serves it.
    "src/services/kv/server": ("base", "net", "services/kv", "services/kv/core",
                               "services/kv/memcached", "services/redis",
                               "services/redis/commands", "include"),
    # Its registration in etcd, and what etcd knows of the other servers.
    "src/services/kv/etcd": ("base", "services/redis/commands"),
    # Its clients that share memory with it: both halves, and the client's, which has no store.
    "src/services/kv/shm": ("base", "channel", "services/kv", "services/kv/core"),
    # Its communication engine in a process of its own: the agent's half, and the host's.
    "src/services/kv/agent": ("base", "channel", "net", "agent", "services/front", "services/kv",
                              "services/kv/memcached", "services/kv/shm", "services/redis",
                              "services/redis/commands"),
    # Its clients that send datagrams.
    "src/services/kv/udp": ("base", "net", "services/kv", "services/kv/core"),
    "src/services/kv/client": ("base", "channel", "services/kv/core", "services/kv/etcd",
                               "services/kv/shm", "services/kv/udp", "include"),
    # The graph store: values and the interface between store and query engine; the engine, which has
    # no storage.
    "src/services/graph/model": ("base",),
    # The text of queries: parser, tree, errors with their place.
    "src/services/graph/syntax": ("base", "services/graph/model"),
    # What expressions call, and the context of an execution: limits, errors, temporary files.
    "src/services/graph/functions": ("base", "services/graph/model", "services/graph/syntax"),
    # Rows of queries in temporary files.
    "src/services/graph/spill": ("base", "services/graph/model", "services/graph/functions"),
    # Their values, on a row or on many.
    "src/services/graph/expressions": ("services/graph/model", "services/graph/syntax",
                                       "services/graph/functions"),
    "src/services/graph/cypher": ("base", "services/graph/model", "services/graph/syntax",
                                  "services/graph/functions", "services/graph/spill",
                                  "services/graph/expressions"),
    "src/services/graph/planner": ("base", "services/graph/model", "services/graph/syntax",
                                   "services/graph/functions", "services/graph/expressions",
                                   "services/graph/cypher"),
    # On snapshots; they know no store and no language.
    "src/services/graph/algorithms": ("base", "services/graph/model"),
    # Statements on a database, and the server of Neo4j's protocol above it. Neither knows the store.
    "src/services/graph/session": ("base", "services/graph/model", "services/graph/syntax",
                                   "services/graph/functions", "services/graph/cypher",
                                   "services/graph/planner", "services/graph/algorithms",
                                   # LOAD CSV takes records apart as `pulse graph load` does.
                                   "services/graph/load", "services/graph/exchange"),
    "src/services/graph/bolt": ("base", "net", "services/graph/model", "services/graph/syntax",
                                "services/graph/session"),
    # What lies in the store's layers: chunks, sorted runs, and the plans that turn one into the other.
    "src/services/graph/runs": ("base", "mover", "services/graph/model"),
    # Who carries out their copies: the agent, both halves, and the choice among all engines.
    "src/services/graph/engines": ("base", "channel", "mover", "link", "agent", "vdpu",
                                   "services/graph/runs"),
    # Its nodes in memory, and the indexes of them.
    "src/services/graph/nodes": ("base", "services/graph/model"),
    # The store: log, transactions, layers.
    "src/services/graph/core": ("base", "services/graph/load", "services/graph/model",
                                "services/graph/nodes", "services/graph/runs"),
    # What can be read of a damaged one, as a new one.
    "src/services/graph/salvage": ("base", "services/graph/core", "services/graph/model",
                                   "services/graph/nodes", "services/graph/runs"),
    # CSV into any sink, as sorted runs where it takes them.
    "src/services/graph/load": ("base", "services/graph/model", "services/graph/runs"),
    # A graph as CSV with a schema file, and back.
    "src/services/graph/exchange": ("base", "services/graph/model", "services/graph/load"),
    # Copies of a store's directory beside its writer.
    "src/services/graph/backup": ("base", "services/graph/model", "services/graph/core",
                                  "services/graph/exchange"),
    # The store and its sessions within a program: for C++, and for the Python package.
    "src/services/graph/library": ("base", "services/graph/model", "services/graph/syntax",
                                   "services/graph/session", "services/graph/core",
                                   "services/graph/engines", "services/graph/load", "include"),
    "python/native": ("base", "services/graph/model", "services/graph/syntax",
                      "services/graph/session", "services/graph/load", "services/graph/library", "include"),
    # Operators on chunks, which any engine may process.
    "src/services/ops": ("base",),
    # Devices of DPDK as engines. What includes DPDK is a module that programs load.
    "src/services/ops/dpdk": ("base", "services/ops"),
    "src/services/ops/filter": ("base", "services/ops"),
    "src/services/ops/library": ("base", "services/ops", "services/ops/filter",
                                 "services/ops/remote", "include"),
    # An agent process as an engine: the agent's half, and the host's.
    "src/services/ops/remote": ("base", "channel", "link", "agent", "services/ops",
                                "services/ops/filter"),
    # Filters for streams that come over the network.
    "src/services/ops/ingest": ("base", "net", "agent", "services/ops/filter"),
    "src/services/lsm/core": ("base", "channel", "uring", "link", "agent", "rocksdb"),
    "src/services/lsm/placement": ("base", "channel", "placement", "services/lsm/core", "rocksdb"),
    "src/services/lsm/pool": ("base", "store", "services/lsm/core", "rocksdb"),
    "src/services/lsm/plugin": ("base", "agent", "services/lsm/core", "services/lsm/placement",
                                "services/lsm/pool", "include", "rocksdb"),
    # Programs, which only bench includes. Examples are built from what users have, too.
    "apps/nbd": ("base", "include"),
    # The screen of `pulse top`: samples, and what is drawn of them.
    "apps/pulse/top": ("base", "net", "services/redis/commands", "apps/pulse/util"),
    # What several commands use: options, progress, files, tables.
    "apps/pulse/util": ("base", "channel", "services/ops*", "services/redis/commands"),
    "apps/pulse": ("base", "channel", "mover", "agent", "uring", "apps/pulse/top",
                   "apps/pulse/util", "store", "vdpu", "net", "services", "services/*", "include", "rocksdb"),
    "examples": ("base", "uring", "net", "include", "rocksdb"),
    # What a JVM loads.
    "java/native": ("services/lsm/plugin",),
    "bench/rivals": ("base", "channel", "uring", "services/kv*"),
    "bench/micro": ("base", "channel", "mover", "uring", "store", "vdpu", "services/graph/*",
                    "services/offload", "bench/rivals"),
    # What all benchmarks use, and benchmarks of few files.
    "bench/macro": ("base", "channel", "store", "vdpu", "net", "services/lsm/*", "apps/pulse",
                    "apps/pulse/util", "examples", "include", "rocksdb", "bench/rivals"),
    "bench/macro/faults": ("base", "apps/pulse", "apps/pulse/util", "include", "rocksdb",
                           "bench/macro"),
    "bench/macro/graph": ("base", "channel", "mover", "vdpu", "services/graph/*",
                          "apps/pulse/util", "bench/macro", "bench/macro/faults"),
    # Pure: a model of time, which reads no clock.
    "bench/macro/kv/model": ("base",),
    "bench/macro/ycsb": ("base", "net", "services/redis*", "examples", "rocksdb", "bench/macro"),
    "bench/macro/kv": ("base", "mover", "vdpu", "services/kv*", "services/redis/commands",
                       "apps/pulse/util", "include", "bench/macro", "bench/macro/ycsb",
                       "bench/macro/kv/model", "bench/rivals"),
    "bench/macro/ops": ("base", "channel", "mover", "vdpu", "services/ops*", "apps/pulse/util",
                        "bench/macro"),
    "bench/macro/paper": ("base", "apps/pulse/util", "bench/macro", "bench/macro/ycsb"),
}

# ---------------------------------------------------------------------------------------------------
# THE ONLY EXCEPTIONS: (file, room that it includes against the table). An entry that is no longer
# needed fails the check. Keep it empty.
EXCEPTIONS = set()
# ---------------------------------------------------------------------------------------------------

# Limits, in lines of C++ outside tests.
ALL_LINES = 207100
ROOM_LINES = 9000
FILE_LINES = 600

SOURCE = re.compile(r"\.(cc|h|inc)$")
# Beside the code: x_test.cc, and what only tests include.
TEST = re.compile(
    r"(^|/)(test_[^/]*|[^/]*_test\.cc|[^/]*_(test_util|fixture|suite)\.h|testing\.h|fake_backend\.h"
    r"|sim_device\.h|register_checker\.h|faulty_program\.cc)$|^tests/")
INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')
# Folders whose code must belong to a room.
TOPS = ("src", "include", "apps", "examples", "bench", "java", "python")


def sources(root):
    """Paths, relative to the root, of all C++ files in the folders that have rooms."""
    for top in TOPS:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if SOURCE.search(name):
                    yield os.path.relpath(os.path.join(folder, name), root)


def room_of(path):
    """The room that a path from the project's root lies in; the longest name wins."""
    best = None
    for room in ROOMS:
        if path.startswith(room + "/") and (best is None or len(room) > len(best)):
            best = room
    return best


def short(room):
    """How an include names a room: without src/."""
    return room[4:] if room.startswith("src/") else room


def target_of(root, including, name):
    """The path of an included file from the root, "rocksdb", or None for what is not ours."""
    if name.startswith("rocksdb/"):
        return "rocksdb"
    for base in ("src", "include", "", os.path.dirname(including)):
        path = os.path.normpath(os.path.join(base, name))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def matches(allowed, target):
    return allowed == target or (allowed.endswith("*") and target.startswith(allowed[:-1]))


def allows(room, target):
    return any(matches(allowed, target) for allowed in ROOMS[room])


def check_table(included):
    """Each line of the table is needed, and the rooms that include one another form no cycle."""
    problems = []
    for room, allowances in ROOMS.items():
        for allowed in allowances:
            if not any(matches(allowed, target) for target in included[room]):
                problems.append(f"{room}: no file but tests includes {allowed}; "
                                f"remove it from ROOMS in {__file__}")
    left = {short(room) for room in ROOMS}
    while True:
        last = {short(room) for room in ROOMS if short(room) in left and not included[room] & left}
        if not last:
            break
        left -= last
    if left:
        problems.append(f"these rooms include one another, or rooms that do: {sorted(left)}")
    return problems


def check_includes(root, paths):
    problems, used, included = [], set(), {room: set() for room in ROOMS}
    for path in paths:
        room = room_of(path)
        if room is None:
            problems.append(f"{path}: this folder is in no room; add it to ROOMS in {__file__}")
            continue
        test = TEST.search(path)
        if test:
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            lines = file.readlines()
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            target = match and target_of(root, path, match[1])
            if not target:
                continue
            if target != "rocksdb" and TEST.search(target):
                problems.append(f"{path}:{number}: product code includes test code, {match[1]}")
                continue
            to = "rocksdb" if target == "rocksdb" else room_of(target)
            if to is None:
                problems.append(f"{path}:{number}: {match[1]} is in no room")
                continue
            if to == room:
                continue
            included[room].add(short(to))
            if allows(room, short(to)):
                continue
            if (path, short(to)) in EXCEPTIONS:
                used.add((path, short(to)))
                continue
            may = ", ".join(ROOMS[room]) or "nothing else"
            problems.append(f"{path}:{number}: {short(room)} may not include {short(to)} "
                            f"({match[1]}); it may include: {may}")
    for path, to in sorted(EXCEPTIONS - used):
        problems.append(f"{path}: the exception for {to} is no longer needed; "
                        f"remove it from EXCEPTIONS in {__file__}")
    return problems + check_table(included)


def check_folders(root):
    problems = []
    for room in ROOMS:
        if not os.path.isdir(os.path.join(root, room)):
            problems.append(f"{room}: the table has this room, and the tree does not")
    return problems


def check_contributing(root):
    """The block of CONTRIBUTING.md's section Layout names every room, and no other folder of TOPS."""
    problems = []
    with open(os.path.join(root, "CONTRIBUTING.md"), encoding="utf-8") as file:
        text = file.read()
    layout = text.split("## Layout", 1)[-1].split("\n## ", 1)[0]
    named = re.findall(r"^    (\S+)", layout, re.MULTILINE)
    for room in ROOMS:
        if room not in named:
            problems.append(f"CONTRIBUTING.md: the list of rooms lacks {room}")
    for name in named:
        if name.split("/")[0] in TOPS and name not in ROOMS:
            problems.append(f"CONTRIBUTING.md: {name} is no room of the table")
    return problems


SECTION = "\n## What the rooms may include\n\n"


def page_section(rooms):
    lines = [f"* `{room}`: " + (", ".join(f"`{name}`" for name in ROOMS[room]) or "nothing")
             for room in rooms if room in ROOMS]
    return SECTION + "\n".join(textwrap.fill(line, 119, subsequent_indent="  ",
                                             break_on_hyphens=False) for line in lines) + "\n"


def check_page_sections(root, rows, write):
    """The pages in docs/internals end with what their rooms may include. A row of the table in
    architecture.md has pages, and their rooms, between semicolons."""
    problems = []
    for row in rows:
        pages, rooms = row.split("|")[1:3]
        for page, names in zip(re.findall(r"\]\(([a-z-]+\.md)\)", pages), rooms.split(";")):
            path = os.path.join(root, "docs/internals", page)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            section = page_section(re.findall(r"`(\S+)`", names))
            if text.endswith(section) or section == SECTION + "\n":
                continue
            if write:
                rest = re.sub(SECTION + r"(?s:.*?)(?=\n## |\Z)", "", text)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(rest.rstrip("\n") + "\n" + section)
            else:
                problems.append(f"docs/internals/{page}: the last section does not say what the "
                                f"table does; run {__file__} --write")
    return problems


def check_pages(root, write):
    """The table of docs/internals/architecture.md has a page for each room below src, and no other."""
    problems = []
    name = "docs/internals/architecture.md"
    with open(os.path.join(root, name), encoding="utf-8") as file:
        rows = re.findall(r"^\| \[.*$", file.read(), re.MULTILINE)
    named = {room for row in rows for room in re.findall(r"`(\S+)`", row)}
    for room in ROOMS:
        if room.startswith("src/") and room not in named:
            problems.append(f"{name}: the table of rooms lacks {room}")
    for room in sorted(named):
        if "/" in room and room not in ROOMS:
            problems.append(f"{name}: {room} is no room of the table")
    return problems + check_page_sections(root, rows, write)


def count_lines(root, paths):
    rooms, files = {room: 0 for room in ROOMS}, {}
    for path in paths:
        if TEST.search(path):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            files[path] = sum(1 for _ in file)
        if room_of(path):
            rooms[room_of(path)] += files[path]
    return rooms, files


def check_sizes(rooms, files):
    problems = []
    total = sum(files.values())
    if total > ALL_LINES:
        problems.append(f"all rooms: {total} lines of C++ outside tests, the limit is {ALL_LINES}")
    for room, lines in rooms.items():
        if lines > ROOM_LINES:
            problems.append(f"{room}: {lines} lines outside tests, the limit is {ROOM_LINES}")
    for path, lines in sorted(files.items()):
        if lines > FILE_LINES:
            problems.append(f"{path}: {lines} lines, the limit is {FILE_LINES}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--list", action="store_true", help="print the rooms")
    parser.add_argument("--sizes", action="store_true", help="fail on what is too large")
    parser.add_argument("--write", action="store_true", help="write the pages' last sections")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    args = parser.parse_args()
    paths = list(sources(args.root))
    rooms, files = count_lines(args.root, paths)
    if args.list:
        print(f"{'room':28} {'lines':>6}  may include")
        for room, lines in rooms.items():
            print(f"{room:28} {lines:6}  {' '.join(ROOMS[room]) or '-'}")
        print(f"{'all':28} {sum(files.values()):6}")
    problems = check_folders(args.root) + check_includes(args.root, paths)
    problems += check_contributing(args.root)
    problems += check_pages(args.root, args.write)
    sizes = check_sizes(rooms, files)
    if args.sizes:
        problems += sizes
    elif sizes and args.list:
        print("\ntoo large (no failure without --sizes)")
        print("\n".join("  " + line for line in sizes))
    for line in problems:
        print(f"check-rooms: {line}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
