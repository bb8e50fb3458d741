"""Retrieve passages of a graph with LangChain: a hybrid search, and a query of your own."""

import tempfile
from pathlib import Path

from library import make_library

from omnigraph.langchain import OmnigraphRetriever

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

    hybrid = OmnigraphRetriever.hybrid(graph, "Paper", text="summary", vector="meaning", limit=2)
    for document in hybrid.invoke("shortest path between points"):
        print(document.id, "|", document.page_content[:40])

    own = OmnigraphRetriever(graph=graph, query=IN_TOPIC, params={"topic": "databases"})
    for document in own.invoke("changes and versions"):
        print(document.id, "|", document.metadata["year"], "|", document.metadata["p.title"])
