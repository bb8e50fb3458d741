"""The public face: a graph, each method one call into `ops`."""

from omnigraph.graph.face import Graph

__all__ = ["Graph"]
