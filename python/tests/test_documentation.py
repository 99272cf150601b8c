"""The example of docs/services/graph.md, as it stands there."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs/services/graph.md"


def test_example_of_the_documentation_works(tmp_path, monkeypatch, capsys):
    if not PAGE.exists():
        pytest.skip(f"{PAGE} is not there")
    (example,) = re.findall(r"```python\n(import pulsedb\n.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "Bob 1999\n[{'name': 'Ann'}, {'name': 'Bob'}, {'name': 'Cyd'}]\n"


def test_stub_names_what_the_package_has():
    import ast

    import pulsedb

    stub = pathlib.Path(pulsedb.__file__).with_suffix(".pyi")
    tree = ast.parse(stub.read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    assert set(pulsedb.__all__) - {"__version__"} == {name for name in classes if name[0] != "_"}
    for name in ("Graph", "Result", "Transaction"):
        told = {node.name for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        has = {member for member in dir(getattr(pulsedb, name)) if member[0] != "_"}
        assert has == {member for member in told if member[0] != "_"}, name
