"""The public face: a graph, each method one call into `ops`."""

from omnigraph.graph.graph import Graph

__all__ = ["Graph"]
