"""NetworkX as the oracle of the algorithms, and its backend, on random graphs."""

import copy
import decimal
import fractions
import math
import os
import pickle
import random
import warnings

import pytest

import pulsedb

nx = pytest.importorskip("networkx")
pytest.importorskip("scipy", reason="NetworkX's own PageRank needs it")

SEED = int(os.environ.get("PULSE_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
KINDS = [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]


@pytest.fixture(autouse=True)
def no_other_backend(monkeypatch):
    # What is compared with is NetworkX's own.
    monkeypatch.setattr(nx.config, "cache_converted_graphs", False)


def random_graph(kind, rng, weights=True):
    made = kind()
    nodes = rng.randrange(1, 60)
    # Nodes are of any kind, and not in the order of their names.
    names = [f"n{i}" if i % 3 else (i, "tuple") for i in range(nodes)]
    rng.shuffle(names)
    made.add_nodes_from(names)
    for _ in range(rng.randrange(nodes * 4)):
        u, v = rng.choice(names), rng.choice(names[: rng.randrange(1, nodes + 1)])
        if weights and rng.random() < 0.9:
            made.add_edge(u, v, weight=rng.choice([0, 1, 2, 7, 0.25, 1.5]))
        else:
            made.add_edge(u, v)
    return made


@pytest.fixture(params=range(12))
def rng(request):
    print(f"PULSE_TEST_SEED={SEED}")
    return random.Random(SEED + request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_pagerank_is_networkxs(kind, rng):
    made = random_graph(kind, rng)
    for weight in ("weight", None):
        options = {"alpha": rng.choice([0.5, 0.85]), "tol": 1e-10, "max_iter": 1000, "weight": weight}
        expected = nx.pagerank(made, backend="networkx", **options)
        found = nx.pagerank(made, backend="pulsedb", **options)
        assert found == pytest.approx(expected, abs=1e-8)
    if len(made) > 1:
        with pytest.raises(nx.PowerIterationFailedConvergence):
            nx.pagerank(made, tol=0, max_iter=3, backend="pulsedb")


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_networkxs(kind, rng):
    made = random_graph(kind, rng)
    source = rng.choice(list(made))
    for cutoff in (None, 0, 2):
        expected = nx.single_source_shortest_path_length(made, source, cutoff, backend="networkx")
        found = nx.single_source_shortest_path_length(made, source, cutoff, backend="pulsedb")
        assert found == dict(expected)
        assert list(found.values()) == sorted(found.values())
    for cutoff in (None, 0, 2, 0.5, 1.0, 1.5, -1, -0.5, 2**32 - 3, 2**32, 2**70, math.inf, -math.inf, math.nan):
        expected = nx.single_source_shortest_path_length(made, source, cutoff, backend="networkx")
        assert nx.single_source_shortest_path_length(made, source, cutoff, backend="pulsedb") == dict(expected)
        expected = nx.single_source_dijkstra_path_length(made, source, cutoff, backend="networkx")
        assert nx.single_source_dijkstra_path_length(made, source, cutoff, backend="pulsedb") == expected
    target = rng.choice(list(made))
    try:
        expected = nx.dijkstra_path_length(made, source, target, backend="networkx")
    except nx.NetworkXNoPath:
        with pytest.raises(nx.NetworkXNoPath):
            nx.dijkstra_path(made, source, target, backend="pulsedb")
        return
    assert nx.dijkstra_path_length(made, source, target, backend="pulsedb") == expected
    path = nx.dijkstra_path(made, source, target, backend="pulsedb")
    assert path[0] == source and path[-1] == target
    if not made.is_multigraph():
        assert sum(made[u][v].get("weight", 1) for u, v in zip(path, path[1:])) == expected
    for missing in ("nobody", ["unhashable"]):
        with pytest.raises(nx.NodeNotFound):
            nx.dijkstra_path(made, missing, target, backend="pulsedb")


@pytest.mark.parametrize("kind", KINDS)
def test_components_are_networkxs(kind, rng):
    made = random_graph(kind, rng)
    of = nx.weakly_connected_components if made.is_directed() else nx.connected_components
    groups = lambda backend: sorted(map(sorted_names, of(made, backend=backend)))
    assert groups("pulsedb") == groups("networkx")


def sorted_names(nodes):
    return sorted(map(repr, nodes))


def test_triangles_are_networkxs(rng):
    made = random_graph(nx.Graph, rng)
    for of in (nx.triangles, nx.clustering):
        assert of(made, backend="pulsedb") == pytest.approx(of(made, backend="networkx"))
    some = list(made)[:3]
    assert nx.triangles(made, some, backend="pulsedb") == nx.triangles(made, some, backend="networkx")
    assert nx.triangles(made, some[0], backend="pulsedb") == nx.triangles(made, some[0], backend="networkx")
    for missing in (99, [["unhashable"]], None.__class__, 1.5):
        for of in (nx.triangles, nx.clustering):
            with pytest.raises(nx.NetworkXError) as expected:
                of(made, missing, backend="networkx")
            with pytest.raises(type(expected.value)) as caught:
                of(made, missing, backend="pulsedb")
            assert str(caught.value) == str(expected.value)


def test_label_propagation_is_networkxs(rng):
    # The same, and not only one that is as good: order and ties are NetworkX's.
    of = nx.community.label_propagation_communities
    made = random_graph(nx.Graph, rng)
    groups = lambda backend: sorted(map(sorted_names, of(made, backend=backend)))
    assert groups("pulsedb") == groups("networkx")


def test_larger_graph_by_several_threads_is_networkxs():
    made = nx.gnm_random_graph(8000, 30000, seed=SEED, directed=True)
    print(f"PULSE_TEST_SEED={SEED}")
    assert nx.pagerank(made, backend="pulsedb") == pytest.approx(nx.pagerank(made, backend="networkx"), abs=1e-9)
    assert nx.single_source_shortest_path_length(made, 0, backend="pulsedb") == dict(
        nx.single_source_shortest_path_length(made, 0, backend="networkx")
    )
    undirected = nx.Graph(made)
    assert nx.triangles(undirected, backend="pulsedb") == nx.triangles(undirected, backend="networkx")


def test_database_without_a_copy(graph):
    graph.execute(
        "CREATE (a:N)-[:R {w: 2}]->(b:N)-[:R {w: 3}]->(c:N), (a)-[:S {w: 1}]->(c), (:M)"
    )
    a, b, c, m = (row[0] for row in graph.execute("MATCH (n) RETURN id(n) ORDER BY id(n)"))
    view = graph.to_backend()
    assert nx.single_source_shortest_path_length(view, a) == {a: 0, b: 1, c: 1}
    assert nx.dijkstra_path_length(view, a, c, "w") == 1
    assert nx.dijkstra_path(graph.to_backend(types=["R"]), a, c, "w") == [a, b, c]
    assert sorted(nx.pagerank(graph.to_backend("N"))) == [a, b, c]
    assert sorted(map(len, nx.weakly_connected_components(view))) == [1, 3]
    assert nx.triangles(graph.to_backend(directed=False)) == {a: 1, b: 1, c: 1, m: 0}
    # None is not all.
    assert sorted(map(len, nx.weakly_connected_components(graph.to_backend(types=[])))) == [1, 1, 1, 1]
    assert nx.pagerank(graph.to_backend(labels=[])) == {}
    assert pulsedb._networkx.backend.convert_to_nx(graph.to_backend(types=[])).number_of_edges() == 0
    assert pulsedb._networkx.backend.convert_to_nx(graph.to_backend(labels=[])).number_of_nodes() == 0
    for missing in (m + 100, 2**63, -(2**63) - 1, 2**70):
        with pytest.raises(nx.NodeNotFound):
            nx.single_source_shortest_path_length(view, missing)
        with pytest.raises(nx.NetworkXNoPath):
            nx.dijkstra_path(view, a, missing, "w")
        with pytest.raises(nx.NetworkXError, match=f"Node {missing} is not in the graph"):
            nx.triangles(graph.to_backend(directed=False), missing)
    with pytest.raises(nx.NetworkXNotImplemented):
        nx.triangles(view)
    # It sees what is written.
    graph.execute("MATCH (b) WHERE id(b) = $b MATCH (m:M) CREATE (b)-[:R]->(m)", {"b": b})
    assert nx.single_source_shortest_path_length(view, a)[m] == 2


def test_arguments_that_it_cannot_take(monkeypatch):
    made = nx.path_graph(3)
    with pytest.raises(NotImplementedError):
        nx.pagerank(made, personalization={0: 1}, backend="pulsedb")
    with pytest.raises(NotImplementedError):
        nx.dijkstra_path(made, 0, 2, weight=lambda u, v, data: 1, backend="pulsedb")
    made.add_edge(0, 1, weight=None)  # which NetworkX's shortest paths do not see
    with pytest.raises(NotImplementedError):
        nx.dijkstra_path_length(made, 0, 1, backend="pulsedb")
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    with pytest.raises(nx.NetworkXNoPath):
        nx.dijkstra_path_length(made, 0, 1)
    monkeypatch.undo()

    def refused(weight):
        made.add_edge(0, 1, weight=weight)
        for of in (nx.pagerank, lambda G, **backend: nx.dijkstra_path(G, 0, 1, **backend)):
            with pytest.raises(NotImplementedError):
                of(made, backend="pulsedb")

    for weight in ("heavy", -1, -0.5, 2**63, math.nan, math.inf, fractions.Fraction(1, 2), decimal.Decimal(1)):
        refused(weight)
    numpy = pytest.importorskip("numpy")
    refused(numpy.bool_(True))


def test_weights_that_it_cannot_take_are_networkxs(monkeypatch):
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    made = nx.path_graph(3)
    for weight in (fractions.Fraction(1, 3), decimal.Decimal(2), 2**70, math.inf):
        nx.set_edge_attributes(made, weight, "weight")
        assert nx.dijkstra_path_length(made, 0, 2) == 2 * weight
    nx.set_edge_attributes(made, -1, "weight")
    with pytest.raises(ValueError, match="negative"):
        nx.single_source_dijkstra_path_length(made, 0)


def test_floats_whose_sum_is_infinite_are_networkxs(monkeypatch):
    made = nx.Graph([(0, 1, {"weight": 1e308}), (1, 2, {"weight": 1e308})])
    for of in (nx.pagerank, lambda G, **backend: nx.dijkstra_path_length(G, 0, 2, **backend)):
        with pytest.raises(NotImplementedError):
            of(made, backend="pulsedb")
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    assert nx.dijkstra_path_length(made, 0, 2) == math.inf
    assert nx.single_source_dijkstra_path_length(made, 0) == {0: 0, 1: 1e308, 2: math.inf}
    assert nx.pagerank(made) == nx.pagerank(made, backend="networkx")


@pytest.mark.parametrize("weight", ["", ":source", ":target"])
def test_attributes_of_odd_names_are_networkxs(monkeypatch, weight):
    made = nx.path_graph(4)
    nx.set_edge_attributes(made, 3, weight)
    with pytest.raises(NotImplementedError):
        nx.dijkstra_path_length(made, 0, 3, weight=weight, backend="pulsedb")
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    assert nx.dijkstra_path_length(made, 0, 3, weight=weight) == 9
    assert nx.pagerank(made, weight=weight) == nx.pagerank(made, weight=weight, backend="networkx")


@pytest.mark.parametrize(
    "options",
    [{"alpha": -0.5}, {"alpha": None}, {"alpha": math.nan}, {"alpha": "x"}, {"alpha": 1.5, "max_iter": 3}]
    + [{"tol": 2}, {"tol": -1, "max_iter": 3}, {"tol": math.inf}]
    + [{"max_iter": 1.5}, {"max_iter": None}, {"max_iter": 1_000_001}, {"max_iter": 2**70}],
)
def test_pagerank_that_it_cannot_take_is_networkxs(monkeypatch, options):
    made = nx.karate_club_graph()

    def outcome(**backend):
        try:
            return nx.pagerank(made, **options, **backend)
        except Exception as error:  # compared
            return type(error)

    with pytest.raises(NotImplementedError):
        nx.pagerank(made, **options, backend="pulsedb")
    expected = outcome(backend="networkx")
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    assert outcome() == expected


def test_distances_are_ints_where_weights_are():
    numpy = pytest.importorskip("numpy")
    made = nx.Graph([(0, 1, {"w": True, "x": 0.5}), (1, 2, {"w": numpy.int32(3), "x": 1}), (3, 4)])
    for weight, kind in (("w", int), ("x", float), ("none", int), (None, int)):
        expected = nx.single_source_dijkstra_path_length(made, 0, weight=weight, backend="networkx")
        found = nx.single_source_dijkstra_path_length(made, 0, weight=weight, backend="pulsedb")
        assert found == expected
        assert {type(distance) for distance in found.values()} == {kind}
        assert type(nx.dijkstra_path_length(made, 0, 2, weight=weight, backend="pulsedb")) is kind
    assert type(nx.single_source_shortest_path_length(made, 0, backend="pulsedb")[2]) is int


def test_integers_whose_sum_a_float_would_round(monkeypatch):
    made = nx.path_graph(3)
    nx.set_edge_attributes(made, 2**52, "weight")
    assert nx.dijkstra_path_length(made, 0, 2, backend="pulsedb") == 2**53
    made.add_edge(1, 2, weight=2**52 + 1)
    for of in (nx.dijkstra_path_length, nx.dijkstra_path):
        with pytest.raises(NotImplementedError):
            of(made, 0, 2, backend="pulsedb")
    assert nx.pagerank(made, backend="pulsedb") == pytest.approx(nx.pagerank(made, backend="networkx"), abs=1e-5)
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    assert nx.dijkstra_path_length(made, 0, 2) == 2**53 + 1
    assert nx.single_source_dijkstra_path_length(made, 0) == {0: 0, 1: 2**52, 2: 2**53 + 1}


def test_nodes_outside_the_labels_are_not_there(graph):
    a, b, m = graph.execute("CREATE (a:N)-[:R]->(b:N), (a)-[:R]->(m:M) RETURN id(a), id(b), id(m)").fetchone()
    view = graph.to_backend("N")
    assert nx.dijkstra_path(view, a, b, None) == [a, b]
    for of in (nx.single_source_shortest_path_length, nx.single_source_dijkstra_path_length):
        with pytest.raises(nx.NodeNotFound):
            of(view, m)
    with pytest.raises(nx.NodeNotFound):
        nx.dijkstra_path(view, m, b)
    with pytest.raises(nx.NetworkXNoPath):
        nx.dijkstra_path_length(view, a, m)
    with pytest.raises(nx.NodeNotFound):
        nx.dijkstra_path(graph.to_backend(labels=[]), a, b)


def test_copy_has_no_limit_but_the_machines_memory(monkeypatch):
    given = []
    original = pulsedb.Graph
    monkeypatch.setattr(pulsedb, "Graph", lambda **options: given.append(options) or original(**options))
    nx.pagerank(nx.path_graph(3), backend="pulsedb")
    (options,) = given
    assert options["query_memory"] >= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_what_networkx_refuses_is_refused():
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 2), (2, 0)])
    assert nx.triangles(multi, backend="pulsedb") == nx.triangles(multi, backend="networkx") == {0: 1, 1: 1, 2: 1}
    for backend in ("pulsedb", "networkx"):
        for call in (lambda: nx.triangles(multi, 0, backend=backend), lambda: nx.clustering(multi, backend=backend)):
            with pytest.raises(nx.NetworkXNotImplemented):
                call()
        for of in (nx.single_source_shortest_path_length, nx.single_source_dijkstra_path_length):
            with pytest.raises(nx.NodeNotFound):
                of(multi, None, backend=backend)


def test_dispatch_takes_it_where_it_can(monkeypatch):
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["pulsedb"])
    calls = []
    module = pytest.importorskip("pulsedb._networkx")
    original = module.BackendGraph._call
    monkeypatch.setattr(
        module.BackendGraph, "_call", lambda self, *args, **kwargs: calls.append(args) or original(self, *args, **kwargs)
    )
    made = nx.path_graph(4, create_using=nx.DiGraph)
    nx.pagerank(made)
    assert len(calls) == 1
    nx.pagerank(made, personalization={0: 1})  # NetworkX's own
    nx.single_source_dijkstra_path_length(made, 0, None, lambda u, v, data: 1)
    assert len(calls) == 1
    nx.single_source_dijkstra_path_length(made, 0, None, "weight")
    assert len(calls) == 2


def test_empty_graph():
    assert nx.pagerank(nx.DiGraph(), backend="pulsedb") == {}
    assert list(nx.connected_components(nx.Graph(), backend="pulsedb")) == []
    assert nx.triangles(nx.Graph(), backend="pulsedb") == {}


def test_properties_named_as_networkxs_arguments_are_kept(graph):
    graph.execute(
        "CREATE (a:N {node_for_adding: 1, self: 2}), (a)-[:R {key: 1, u_for_edge: 2}]->(a), (a)-[:R {key: 1}]->(a)"
    )
    made = pulsedb._networkx.backend.convert_to_nx(graph.to_backend())
    assert [data for _, data in made.nodes(data=True)] == [{"node_for_adding": 1, "self": 2}]
    found = sorted((data for _, _, data in made.edges(data=True)), key=len)
    assert found == [{"key": 1}, {"key": 1, "u_for_edge": 2}]


@pytest.fixture
def converted(monkeypatch):
    """A graph that NetworkX has a copy of."""
    monkeypatch.setattr(nx.config, "cache_converted_graphs", True)
    made = nx.Graph()
    made.add_weighted_edges_from([("a", "b", 2), ("b", "c", 3), ("a", "c", 9), ("c", "c", 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert nx.dijkstra_path_length(made, "a", "c", backend="pulsedb") == 5
    assert made.__networkx_cache__
    return made


def test_graph_with_a_copy_is_pickled_and_copied(converted):
    (first,) = cached(converted)
    for again in (pickle.loads(pickle.dumps(converted)), copy.deepcopy(converted), copy.copy(converted)):
        assert nx.utils.graphs_equal(again, converted)
        (kept,) = cached(again)
        assert nx.dijkstra_path_length(kept, "a", "c") == 5
        assert nx.utils.graphs_equal(pulsedb._networkx.backend.convert_to_nx(kept), converted)
    assert copy.deepcopy(first) is first


def test_deep_copy_of_a_graph_of_objects_has_its_own_nodes(monkeypatch):
    class Node:
        pass

    monkeypatch.setattr(nx.config, "cache_converted_graphs", True)
    made = nx.path_graph([Node(), Node(), Node()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert nx.dijkstra_path_length(made, *list(made)[::2], backend="pulsedb") == 2
        again = copy.deepcopy(made)
        assert nx.dijkstra_path_length(again, *list(again)[::2], backend="pulsedb") == 2
        assert set(nx.pagerank(again, backend="pulsedb")) == set(again)


def test_graph_with_a_copy_is_used_in_a_forked_process(converted):
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            (kept,) = cached(converted)
            os.write(writer, str(nx.dijkstra_path_length(kept, "a", "c")).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as answer:
        assert float(answer.read()) == 5
    os.waitpid(child, 0)
    (kept,) = cached(converted)
    assert nx.dijkstra_path(kept, "a", "c") == ["a", "b", "c"]


def cached(made):
    return [graph for graphs in made.__networkx_cache__["backends"].values() for graph in graphs.values()]


def test_backend_of_a_database_cannot_be_pickled(graph):
    view = graph.to_backend()
    with pytest.raises(TypeError, match="to_backend"):
        pickle.dumps(view)
    assert copy.deepcopy(view) is view
