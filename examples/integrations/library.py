"""Make the graph of the research library, for the programs of this directory."""

from pathlib import Path

import omnigraph as og
from omnigraph.options import EmbedOptions, EmbedProvider

FILES = Path(__file__).parents[1] / "research-library"


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
