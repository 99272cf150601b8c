#!/usr/bin/env python3
"""Sizes of the public structs, and places of their members, are those of packaging/exports/layouts.txt:
a program that was built with the headers of the list runs with the libraries of today.

  layouts_test.py [--update] [INCLUDE]

INCLUDE: of a RocksDB that is not the system's. --update writes the list, and refuses a change
that docs/reference/abi.md forbids without another version of the ABI.
"""
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = ROOT / "packaging/exports/layouts.txt"
# Of version.h there are only numbers; graph_cxx.h is compiled into the program that includes it.
WITHOUT_STRUCTS_OF_THE_ABI = ("graph_cxx.h", "version.h")
HEADERS = sorted(path.name for path in (ROOT / "include/pulse").glob("*.h")
                 if path.name not in WITHOUT_STRUCTS_OF_THE_ABI)


def abi_version():
    text = (ROOT / "include/pulse/version.h").read_text()
    major, minor = (re.search(rf"#define PULSE_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR"))
    return major if major != "0" else f"0.{minor}"


def bare(text):
    """Without comments, strings and lines of the preprocessor."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r'"[^"\n]*"', '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", " ", text, flags=re.M)


def members_of(statement):
    """The names that one declaration in a struct gives to members."""
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", statement)
    if pointer:
        return [pointer[1]]
    declared = re.split(r"[={]", statement)[0]
    while re.search(r"<[^<>]*>", declared):
        declared = re.sub(r"<[^<>]*>", "", declared)
    if "(" in declared or re.match(r"\s*(using|static|friend|enum|struct\s+\w+\s*$)", declared):
        return []
    names = [re.search(r"(\w+)\s*(\[[^\]]*\]\s*)*$", part.strip()) for part in declared.split(",")]
    return [name[1] for name in names if name] if len(declared.split()) > 1 else []


def structs_of(text):
    """(name with its namespaces, members) of each struct that has a body."""
    found, scopes, statement, union = [], [], "", None
    for token in re.findall(r"[{};]|[^{};]+", bare(text)):
        inside = scopes[-1] if scopes else ("namespace", "", None)
        if token == "{":
            namespace = re.search(r"\bnamespace\s+([\w:]+)\s*$", statement)
            struct = re.search(r"\bstruct\s+(?:PULSE_EXPORT\s+)?(\w+)\s*(?::[^:].*)?$", statement, re.S)
            if namespace:
                scopes.append(("namespace", namespace[1], None))
            elif re.search(r"\bextern\s*\"\"\s*$", statement):
                scopes.append(("namespace", "", None))
            elif struct and inside[0] == "namespace":
                names = [name for _, name, _ in scopes if name] + [struct[1]]
                scopes.append(("struct", struct[1], []))
                found.append(("::".join(names), scopes[-1][2]))
            elif inside[0] == "struct" and re.search(r"\bunion\s*$", statement):
                scopes.append(("struct", "", []))
            else:
                scopes.append(("other", "", None))
                continue  # a default value, say: the statement goes on
            statement = ""
        elif token == "}":
            left = scopes.pop() if scopes else inside
            if left[0] != "other":
                statement = ""
            if left[0] == "struct" and not left[1]:
                union = left[2]
        elif token == ";":
            if inside[0] == "struct" and union is not None:
                name = statement.strip()  # empty for an anonymous one
                inside[2].extend([name] * bool(name) + [f"{name}.{m}" if name else m for m in union])
            elif inside[0] == "struct":
                inside[2].extend(members_of(statement))
            union = None
            if inside[0] != "other":
                statement = ""
        elif inside[0] != "other":
            statement += token
    return found


def program():
    lines = ["#include <cstddef>", "#include <cstdio>"] + [f'#include "pulse/{header}"' for header in HEADERS]
    lines.append("int main() {")
    for header in HEADERS:
        for name, members in structs_of((ROOT / "include/pulse" / header).read_text()):
            lines.append(f'  std::printf("{name} %zu\\n", sizeof({name}));')
            for member in members:
                lines.append(f'  std::printf("{name} {member} %zu %zu\\n", offsetof({name}, {member}), '
                             f"sizeof(static_cast<{name}*>(nullptr)->{member}));")
    return "\n".join(lines + ["}", ""])


def layouts():
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "layouts.cc"
        source.write_text(program())
        flags = ["-std=c++20", "-Wno-invalid-offsetof", "-I", str(ROOT / "include")]
        if len(sys.argv) > 1 and sys.argv[-1] != "--update":
            flags += ["-I", sys.argv[-1]]
        # Compiled and run: it links with nothing, since it calls no function of PulseDB's.
        subprocess.run([os.environ.get("CXX", "c++"), *flags, str(source), "-o", f"{folder}/layouts"], check=True)
        return subprocess.run([f"{folder}/layouts"], check=True, stdout=subprocess.PIPE, text=True).stdout.split("\n")[:-1]


def by_struct(lines):
    found = {}
    for line in lines:
        name, rest = line.split(" ", 1)
        found.setdefault(name, []).append(rest)
    return found


def breaks(before, now):
    """What programs would trip over, by struct."""
    for name, old in before.items():
        new = now.get(name)
        if new is None:
            yield f"{name} is gone"
            continue
        # A reserved member, which is zero, may get its name.
        old = [to if re.fullmatch(r"reserved\d* \d+ \d+", line) and to.split(" ")[1:] == line.split(" ")[1:] else line
               for line, to in itertools.zip_longest(old, new[:len(old)], fillvalue="")]
        # A member of a union may be new that lies where another one does.
        places = {line.split(" ", 1)[1] for line in old[1:] if line.startswith("as.")}
        new = new[:1] + [line for line in new[1:] if line in old or not line.startswith("as.")
                         or line.split(" ", 1)[1] not in places]
        # The size may grow where programs say theirs: the first member does, or that of the base, where the
        # struct has no member of its own.
        may_grow = len(old) == 1 or old[1].startswith("struct_size 0 ")
        kept = new[1:len(old)] == old[1:] if may_grow else new == old
        if not kept or int(new[0]) < int(old[0]):
            changed = [line for line in old if line not in new] + [line for line in new if line not in old]
            yield f"{name} has changed: {'; '.join(changed)}"


def main():
    version, now = abi_version(), layouts()
    text = LIST.read_text().split("\n")[:-1] if LIST.exists() else [f"ABI {version}"]
    before = text[1:]
    if sys.argv[1:2] == ["--update"]:
        if text[0] == f"ABI {version}":
            broken = list(breaks(by_struct(before), by_struct(now)))
            if broken:
                sys.exit("layouts: not written: programs built with this version would break. Raise the version in "
                         "pulse/version.h, or keep the old layout (docs/reference/abi.md)\n" + "\n".join(broken))
        LIST.write_text("\n".join([f"ABI {version}", *now]) + "\n")
        return
    if text[0] != f"ABI {version}" or before != now:
        gone, new = [x for x in before if x not in now], [x for x in now if x not in before]
        sys.exit(f"FAIL: public structs differ from {LIST.relative_to(ROOT)} (of {text[0]}, this is ABI {version}):\n"
                 + "\n".join([f"- {x}" for x in gone] + [f"+ {x}" for x in new])
                 + "\ndocs/reference/abi.md says what to do; layouts_test.py --update writes the list")
    structs = len(by_struct(now))
    print(f"{structs} public structs have the layout that the list has")


if __name__ == "__main__":
    main()
