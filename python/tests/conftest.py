import pytest

import pulsedb


@pytest.fixture
def graph(tmp_path):
    with pulsedb.Graph(tmp_path / "graph") as opened:
        yield opened
