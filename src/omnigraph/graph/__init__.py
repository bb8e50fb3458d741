"""The public interface of a graph; each method is one call into `ops`."""

from omnigraph.graph.graph import Graph

__all__ = ["Graph"]
