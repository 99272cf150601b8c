"""Who carries out copies, and the limit of what nodes take."""

import os

import pytest

import pulsedb


def test_engines_give_the_same_files(tmp_path):
    files, cpu = {}, str(min(os.sched_getaffinity(0)))
    for engine in (None, "auto", "inline", "threads", "agent", "sim"):
        cpus = cpu if engine in ("threads", "agent") else None
        path = tmp_path / str(engine)
        with pulsedb.Graph(path, engine=engine, engine_cpus=cpus) as graph:
            graph.execute("UNWIND range(1, 1000) AS i MERGE (a:N {i: i % 7}) CREATE (a)-[:R {w: i}]->(:M)")
        files[engine] = sorted(file.read_bytes() for file in path.glob("*.run"))
    assert len(files[None]) == 2
    for engine, contents in files.items():
        assert contents == files[None], engine


@pytest.mark.parametrize(
    "options, said",
    [
        ({"engine": "gpu"}, r"no copy engine gpu; there are auto\|inline"),
        ({"engine": "gpu", "read_only": True}, "no copy engine gpu"),
        ({"engine": "inline", "engine_cpus": "0"}, "CPUs of an engine"),
        ({"engine": "threads", "engine_cpus": "1023"}, "cannot run on CPU 1023"),
        ({"engine": "agent", "agent": "/no/such/agent.sock"}, "no agent at /no/such/agent.sock"),
    ],
)
def test_engine_that_is_none_is_refused_by_name(tmp_path, options, said):
    with pytest.raises(pulsedb.Error, match=said):
        pulsedb.Graph(tmp_path / "g", **options)
    assert not (tmp_path / "g").exists()


def test_relative_agent_is_of_the_directory_at_opening(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pulsedb.Error, match=f"no agent at {tmp_path}/a.sock:"):
        pulsedb.Graph(tmp_path / "g", engine="agent", agent="a.sock")


def test_options_of_other_types_are_refused(tmp_path):
    for name in ("engine", "agent", "engine_cpus"):
        with pytest.raises(TypeError):
            pulsedb.Graph(tmp_path / "g", **{name: 1})
    for size in ("many", 0):
        with pytest.raises(ValueError, match="node_memory"):
            pulsedb.Graph(tmp_path / "g", node_memory=size)


def test_nodes_beyond_node_memory_are_refused_by_name(tmp_path):
    with pulsedb.Graph(tmp_path / "g", node_memory="4K") as graph:
        graph.execute("CREATE (:N {i: 1})")
        for write in (
            lambda: graph.execute("UNWIND range(1, 1000) AS i CREATE (:N {i: i})"),
            lambda: graph.load_nodes("N", {"i": list(range(1000))}),
        ):
            with pytest.raises(pulsedb.LimitError, match="node_memory"):
                write()
        assert graph.execute("MATCH (n:N) RETURN count(*)").scalar() == 1
