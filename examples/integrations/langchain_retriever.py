"""Retrieve passages of a graph with LangChain: a hybrid search, and a query of your own."""

import tempfile
from pathlib import Path

from library import IN_TOPIC, make_library

from omnigraph.langchain import OmnigraphRetriever

with tempfile.TemporaryDirectory() as home:
    graph = make_library(Path(home))

    hybrid = OmnigraphRetriever.hybrid(graph, "Paper", text="summary", vector="meaning", limit=2)
    for document in hybrid.invoke("shortest path between points"):
        print(document.id, "|", document.page_content[:40])

    own = OmnigraphRetriever(graph=graph, query=IN_TOPIC, params={"topic": "databases"})
    for document in own.invoke("changes and versions"):
        print(document.id, "|", document.metadata["year"], "|", document.metadata["p.title"])
