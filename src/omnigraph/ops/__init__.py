"""The operations on a graph: load, query, merge, clean up and so on. Each module implements one of them."""
