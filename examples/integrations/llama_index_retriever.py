"""Retrieve passages of a graph with LlamaIndex: a hybrid search, and a query of your own."""

import tempfile
from pathlib import Path

from library import IN_TOPIC, make_library

from omnigraph.llama_index import OmnigraphNodeRetriever
from omnigraph.retrieval import Retrieval

with tempfile.TemporaryDirectory() as home:
    graph = make_library(Path(home))

    hybrid = OmnigraphNodeRetriever.hybrid(graph, "Paper", text="summary", vector="meaning", limit=2)
    for found in hybrid.retrieve("shortest path between points"):
        print(found.node.node_id, "|", found.text[:40])

    own = OmnigraphNodeRetriever(graph, Retrieval(query=IN_TOPIC, params={"topic": "databases"}))
    for found in own.retrieve("changes and versions"):
        print(found.node.node_id, "|", found.metadata["year"], "|", found.metadata["p.title"])
