"""Make the graph of the research library, and have a query of it, for the programs of this directory."""

from pathlib import Path

import omnigraph as og
from omnigraph.options import EmbedOptions, EmbedProvider

FILES = Path(__file__).parents[1] / "research-library"
# `question` takes what is asked; `text`, `id` and `score` are what a retriever looks for.
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


def make_library(home: Path) -> og.Graph:
    """Create the graph below a directory, with its vectors from the provider `hash`, which needs no network."""
    options = og.Options(embedding=EmbedOptions(provider=EmbedProvider.HASH))
    schema = (FILES / "schema.pg").read_text(encoding="utf-8")
    graph = og.create_graph(str(home / "library.omni"), schema, runtime=og.Runtime(options=options))
    graph.load(
        FILES / "links.jsonl",
        mode="append",
        nodes={"Paper": FILES / "papers.csv", "Author": FILES / "authors.csv"},
        edges={"WroteBy": FILES / "wrote_by.csv"},
    )
    graph.embed("Paper")
    return graph
