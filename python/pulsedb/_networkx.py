"""A backend of NetworkX: its algorithms, by the procedures algo.* of the graph database.

    networkx.pagerank(G, backend="pulsedb")
    networkx.pagerank(pulsedb.Graph("my-graph").to_backend())

The first copies G into a temporary graph, which NetworkX keeps with G as long as that does not change;
the second copies nothing. What each function has is in `INFO`; for arguments that it cannot take,
NetworkX says so, or takes its own.
"""

import copy
import inspect
import math
import numbers
import operator
import os

INFO = {
    "backend_name": "pulsedb",
    "project": "PulseDB",
    "package": "pulsedb",
    "short_summary": "Algorithms of PulseDB's graph database, by several threads.",
    "functions": {
        "clustering": {"additional_docs": "Undirected graphs, without `weight`."},
        "connected_components": {},
        "dijkstra_path": {"additional_docs": "`weight` is the name of an attribute."},
        "dijkstra_path_length": {"additional_docs": "`weight` is the name of an attribute."},
        "label_propagation_communities": {},
        "pagerank": {"additional_docs": "Without `personalization`, `nstart` and `dangling`; weights are 0 or more."},
        "single_source_dijkstra_path_length": {"additional_docs": "`weight` is the name of an attribute."},
        "single_source_shortest_path_length": {},
        "triangles": {},
        "weakly_connected_components": {},
    },
}


def get_info():
    """What NetworkX asks when it looks for backends."""
    return INFO


_NOWHERE = object()  # no source at all; None is a node that no graph has


class BackendGraph:
    """A graph that NetworkX's functions take: nodes and relationships of a pulsedb.Graph.

    Of one that was copied, nodes are those of the NetworkX graph; of a database, they are ids. Made by
    pulsedb.Graph.to_backend(), and by NetworkX. It keeps its pulsedb.Graph.

    NetworkX keeps a copy within the graph that it was made of, which programs pickle, copy and take along
    into forked processes: a copy has the columns that it was loaded from, and is loaded again where its
    pulsedb.Graph is not of this process.
    """

    __networkx_backend__ = "pulsedb"

    def __init__(self, graph, *, directed, multigraph, nodes=None, options=None, columns=None):
        # Of a copy that is still to be loaded: None.
        self._loaded = graph
        self._process = None if graph is None else os.getpid()
        self._columns = columns
        self._directed = directed
        self._multigraph = multigraph
        self._options = options or {}
        # Of a copy: node i is the one whose property i is i.
        self._nodes = nodes
        self._index = None if nodes is None else {node: i for i, node in enumerate(nodes)}

    @property
    def _graph(self):
        if self._nodes is not None and self._process != os.getpid():
            self._loaded = _load(self._nodes, self._columns)
            self._process = os.getpid()
        return self._loaded

    # It does not change; nor is there a second one to be had of a database.
    def __copy__(self):
        return self

    # NetworkX keeps it within the graph that it is a copy of, whose nodes may be objects.
    def __deepcopy__(self, memo):
        if self._nodes is None:
            return self
        nodes = copy.deepcopy(self._nodes, memo)
        if all(map(operator.is_, nodes, self._nodes)):
            return self
        return _unpickled(nodes, self._columns, self._directed, self._multigraph)

    def __reduce__(self):
        if self._nodes is None:
            raise TypeError("a backend graph of to_backend() cannot be pickled: it is an open database")
        return _unpickled, (self._nodes, self._columns, self._directed, self._multigraph)

    @property
    def database(self):
        """The pulsedb.Graph."""
        return self._graph

    def is_directed(self):
        return self._directed

    def is_multigraph(self):
        return self._multigraph

    def __repr__(self):
        return f"<pulsedb backend of {self._loaded!r}>"

    # What the functions below need.

    def _match(self, node, variable):
        """The text and the parameters that find a node."""
        import networkx as nx

        if self._index is not None:
            try:
                index = self._index[node]
            except (KeyError, TypeError):
                raise nx.NodeNotFound(f"Node {node} not found in graph") from None
            return f"({variable}:N {{i: ${variable}}})", {variable: index}
        if not isinstance(node, numbers.Integral):
            raise nx.NodeNotFound(f"Node {node} not found in graph: its nodes are ids, integers")
        if not -(2**63) <= node < 2**63:
            raise nx.NodeNotFound(f"Node {node} not found in graph")
        labels = self._options.get("labels")
        text = "MATCH (n) WHERE id(n) = $id"
        if labels is not None:
            text += " AND any(l IN labels(n) WHERE l IN $labels)"
        parameters = {"id": int(node)} if labels is None else {"id": int(node), "labels": labels}
        if self._graph.execute(f"{text} RETURN n", parameters).fetchone() is None:
            raise nx.NodeNotFound(f"Node {node} not found in graph")
        return f"({variable}) WHERE id({variable}) = ${variable}", {variable: int(node)}

    def _call(self, procedure, columns, *, source=_NOWHERE, options=None, directed=True):
        """Runs a procedure over the whole graph, or from a node; rows of (node, columns...)."""
        parameters = {"options": {**self._options, **(options or {})}}
        if directed and not self._directed:
            parameters["options"]["direction"] = "both"
        text = f"CALL algo.{procedure}($options)"
        if source is not _NOWHERE:
            match, more = self._match(source, "source")
            parameters |= more
            text = f"MATCH {match} CALL algo.{procedure}(source, $options)"
        key = "id(node)" if self._nodes is None else "node.i"
        rows = self._graph.execute(f"{text} YIELD node, {columns} RETURN {key}, {columns}", parameters)
        if self._nodes is None:
            return rows
        nodes = self._nodes
        return ((nodes[row[0]], *row[1:]) for row in rows)

    def _sum(self, weight):
        """Of the weights of a copy; 0 of a database, whose weights only the procedure sees."""
        total = sum(() if self._nodes is None else self._columns.get(weight, ()))
        if math.isinf(total):
            raise NotImplementedError(f"the sum of the attribute {weight!r} is more than a float holds")
        return total

    def _number(self, weight):
        """What distances are: of a copy ints where all weights are, as NetworkX has them."""
        total = self._sum(weight)
        # A column has one type (_weights).
        if self._nodes is None or isinstance(total, float):
            return float
        if total > 2**53:
            raise NotImplementedError(f"the sum of the attribute {weight!r} is more than a float holds exactly")
        return int

    def _to_networkx(self):
        import networkx as nx

        kinds = {(False, False): nx.Graph, (False, True): nx.MultiGraph, (True, False): nx.DiGraph}
        made = kinds.get((self._directed, self._multigraph), nx.MultiDiGraph)()
        labels = self._options.get("labels")
        types = self._options.get("types")
        parameters = {"labels": labels, "types": types}
        name = (lambda node: node.id) if self._nodes is None else (lambda node: self._nodes[node.properties["i"]])
        in_scope = "($labels IS NULL OR any(l IN labels({0}) WHERE l IN $labels))"
        rows = self._graph.execute(f"MATCH (n) WHERE {in_scope.format('n')} RETURN n ORDER BY id(n)", parameters)
        for (node,) in rows:
            made.add_node(name(node))
            if self._nodes is None:
                # Not as arguments: a property may have the name of any of them.
                made.nodes[name(node)].update(node.properties)
        rows = self._graph.execute(
            f"MATCH (a)-[r]->(b) WHERE ($types IS NULL OR type(r) IN $types) AND {in_scope.format('a')} "
            f"AND {in_scope.format('b')} RETURN a, r, b",
            parameters,
        )
        for a, r, b in rows:
            ends = (name(a), name(b))
            key = made.add_edge(*ends)
            made.edges[(*ends, key) if self._multigraph else ends].update(r.properties)
        return made


def _load(nodes, columns):
    """A temporary pulsedb.Graph of so many nodes, and relationships between their numbers."""
    import pulsedb

    # NetworkX's graph takes several times as much, and has no limit.
    graph = pulsedb.Graph(query_memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if nodes:
        graph.load_nodes("N", {"i": list(range(len(nodes)))}, key="i")
    if columns[":source"]:
        graph.load_edges("E", columns, source=("N", "i", ":source"), target=("N", "i", ":target"))
    return graph


def _unpickled(nodes, columns, directed, multigraph):
    # Loaded when it is needed, if ever.
    return BackendGraph(None, directed=directed, multigraph=multigraph, nodes=nodes, columns=columns)


def _weights(attribute, values):
    """A column of ints or of floats; NotImplementedError, upon which NetworkX takes its own, for other values."""
    out = []
    for value in values:
        if isinstance(value, numbers.Integral):  # bool, too
            value, most = int(value), 2**63
        elif isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
            value, most = float(value), math.inf
        else:
            # None is an edge that NetworkX's shortest paths do not see, and others do.
            raise NotImplementedError(f"the attribute {attribute!r} of an edge is {value!r}, and not int or float")
        if not 0 <= value < most:
            raise NotImplementedError(
                f"the attribute {attribute!r} of an edge is {value!r}, and not from 0 to what 64 bits hold"
            )
        out.append(value)
    return [float(value) for value in out] if any(isinstance(value, float) for value in out) else out


def _copy(G, edge_attrs):
    """A temporary pulsedb.Graph of a NetworkX graph; `edge_attrs`: attributes and what they are else."""
    nodes = list(G)
    index = {node: i for i, node in enumerate(nodes)}
    edges = list(G.edges(data=True))
    columns = {
        ":source": [index[u] for u, _, _ in edges],
        ":target": [index[v] for _, v, _ in edges],
    }
    for attribute, otherwise in (edge_attrs or {}).items():
        if attribute == "" or attribute in columns:
            raise NotImplementedError(f"`weight` cannot be {attribute!r}: that is no name of a property here")
        columns[attribute] = _weights(attribute, [data.get(attribute, otherwise) for _, _, data in edges])
    return BackendGraph(
        _load(nodes, columns),
        directed=G.is_directed(),
        multigraph=G.is_multigraph(),
        nodes=nodes,
        columns=columns,
    )


def _weight(weight):
    if not (weight is None or isinstance(weight, str) and weight):
        raise NotImplementedError("`weight` has to be the name of an attribute")
    return {} if weight is None else {"weight": weight}


def _why_no_pagerank(alpha=0.85, max_iter=100, tol=1.0e-6, personalization=None, nstart=None, dangling=None, **_):
    """Why it is NetworkX's own that takes these; None: it is not."""
    for name, value in (("personalization", personalization), ("nstart", nstart), ("dangling", dangling)):
        if value is not None:
            return f"`{name}` is not supported"
    for name, value in (("alpha", alpha), ("tol", tol)):
        if not (isinstance(value, numbers.Real) and 0 <= value <= 1):
            return f"`{name}` has to be a number from 0 to 1"
    if not (isinstance(max_iter, numbers.Integral) and max_iter <= 1_000_000):
        return "`max_iter` has to be an int, at most 1,000,000"
    return None


class _Functions:
    """What NetworkX calls. Signatures are NetworkX's own."""

    @staticmethod
    def convert_from_nx(G, *, edge_attrs=None, **_):
        return G if isinstance(G, BackendGraph) else _copy(G, edge_attrs)

    @staticmethod
    def convert_to_nx(result, *, name=None):
        return result._to_networkx() if isinstance(result, BackendGraph) else result

    @staticmethod
    def can_run(name, args, kwargs):
        """True, or why not."""
        try:
            kwargs = inspect.signature(getattr(_Functions, name)).bind(*args, **kwargs).arguments
        except TypeError as error:
            return str(error)
        weight = kwargs.get("weight")
        if not (weight is None or isinstance(weight, str) and weight):
            return "`weight` has to be the name of an attribute"
        if name == "clustering" and weight is not None:
            return "`weight` is not supported"
        if name == "pagerank" and (why := _why_no_pagerank(**kwargs)):
            return why
        if name in ("clustering", "triangles") and kwargs["G"].is_directed():
            return "only undirected graphs"
        return True

    @staticmethod
    def should_run(name, args, kwargs):
        return True

    @staticmethod
    def pagerank(
        G,
        alpha=0.85,
        personalization=None,
        max_iter=100,
        tol=1.0e-6,
        nstart=None,
        weight="weight",
        dangling=None,
    ):
        import networkx as nx

        if why := _why_no_pagerank(alpha, max_iter, tol, personalization, nstart, dangling):
            raise NotImplementedError(why)
        G._sum(weight)
        if max_iter < 1:
            raise nx.PowerIterationFailedConvergence(max_iter)
        options = {"damping": float(alpha), "iterations": int(max_iter), "tolerance": float(tol), **_weight(weight)}
        rows = list(G._call("pageRank", "score, converged", options=options))
        if rows and not rows[0][2]:
            raise nx.PowerIterationFailedConvergence(max_iter)
        return {node: score for node, score, _ in rows}

    @staticmethod
    def _groups(G, procedure, column, options=None):
        groups = {}
        for node, group in G._call(procedure, column, options=options, directed=False):
            groups.setdefault(group, set()).add(node)
        return groups.values()

    @staticmethod
    def connected_components(G):
        yield from _Functions._groups(G, "components", "component")

    weakly_connected_components = connected_components

    @staticmethod
    def label_propagation_communities(G):
        # NetworkX's ends when nothing changes any more.
        return _Functions._groups(G, "labelPropagation", "community", {"iterations": 1_000_000})

    @staticmethod
    def _of_nodes(G, column, nodes):
        values = dict(G._call("triangles", column, directed=False))
        if nodes is None:
            return values
        try:
            if nodes in values:
                return values[nodes]
        except TypeError:  # no node, but several
            pass
        try:
            return {node: values[node] for node in nodes if node in values}
        except TypeError:
            import networkx as nx

            list(nx.Graph().nbunch_iter(nodes))  # which raises what NetworkX raises for these
            raise

    @staticmethod
    def _not_for_multigraphs(G):
        import networkx as nx

        # A database may have several relationships between two nodes: they count once.
        if G._nodes is not None and G.is_multigraph():
            raise nx.NetworkXNotImplemented("not implemented for multigraph type")

    @staticmethod
    def triangles(G, nodes=None):
        if nodes is not None:
            _Functions._not_for_multigraphs(G)
        return _Functions._of_nodes(G, "triangles", nodes)

    @staticmethod
    def clustering(G, nodes=None, weight=None):
        if weight is not None:
            raise NotImplementedError("weight is not supported")
        _Functions._not_for_multigraphs(G)
        return _Functions._of_nodes(G, "coefficient", nodes)

    @staticmethod
    def single_source_shortest_path_length(G, source, cutoff=None):
        options = {}
        # Levels below it, also where it is no integer; the greatest depth that there is reaches all.
        if cutoff is not None and not cutoff >= 2**32 - 2:
            options["depth"] = math.ceil(cutoff) if cutoff > 0 else 0
        rows = G._call("bfs", "distance", source=source, options=options)
        return dict(sorted(rows, key=lambda row: row[1]))

    @staticmethod
    def single_source_dijkstra_path_length(G, source, cutoff=None, weight="weight"):
        options = _weight(weight)
        number = G._number(weight)
        rows = G._call("shortestPaths", "distance", source=source, options=options)
        if cutoff is not None:
            # As NetworkX has it: the source is there, whatever the cutoff, and nothing is beyond one that is no number.
            rows = (row for row in rows if not row[1] > cutoff or row[0] is source or row[0] == source)
        return dict(sorted(((node, number(distance)) for node, distance in rows), key=lambda row: row[1]))

    @staticmethod
    def _shortest(G, source, target, weight):
        import networkx as nx

        options = {**G._options, **_weight(weight)}
        number = G._number(weight)
        first, parameters = G._match(source, "source")
        try:
            second, more = G._match(target, "target")
        except nx.NodeNotFound:  # as NetworkX has it
            raise nx.NetworkXNoPath(f"No path to {target}.") from None
        if not G.is_directed():
            options["direction"] = "both"
        key = "id(n)" if G._nodes is None else "n.i"
        rows = G._graph.execute(
            f"MATCH {first} MATCH {second} CALL algo.shortestPath(source, target, $options) "
            f"YIELD distance, path RETURN distance, [n IN nodes(path) | {key}]",
            {**parameters, **more, "options": options},
        )
        found = rows.fetchone()
        if found is None:
            raise nx.NetworkXNoPath(f"Node {target} not reachable from {source}")
        return number(found[0]), found[1]

    @staticmethod
    def dijkstra_path_length(G, source, target, weight="weight"):
        return _Functions._shortest(G, source, target, weight)[0]

    @staticmethod
    def dijkstra_path(G, source, target, weight="weight"):
        path = _Functions._shortest(G, source, target, weight)[1]
        return path if G._nodes is None else [G._nodes[i] for i in path]


backend = _Functions()
