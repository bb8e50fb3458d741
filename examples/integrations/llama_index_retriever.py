"""Retrieve passages of a graph with LlamaIndex: a hybrid search, and a query of your own."""

import tempfile
from pathlib import Path

from library import make_library

from omnigraph.llama_index import OmnigraphNodeRetriever
from omnigraph.retrieval import Retrieval

IN_TOPIC = """
query in_topic($question: String, $topic: String) {
    match {
        $t: Topic { name: $topic }
        $p isAbout $t
        search($p.summary, $question)
    }
    return { $p.slug as id, $p.summary as text, bm25($p.summary, $question) as score, $p.title, $p.year as year }
    order { bm25($p.summary, $question) }
}
"""

with tempfile.TemporaryDirectory() as home:
    graph = make_library(Path(home))

    hybrid = OmnigraphNodeRetriever.hybrid(graph, "Paper", text="summary", vector="meaning", limit=2)
    for found in hybrid.retrieve("shortest path between points"):
        print(found.node.node_id, "|", found.text[:40])

    own = OmnigraphNodeRetriever(graph, Retrieval(query=IN_TOPIC, params={"topic": "databases"}))
    for found in own.retrieve("changes and versions"):
        print(found.node.node_id, "|", found.metadata["year"], "|", found.metadata["p.title"])
