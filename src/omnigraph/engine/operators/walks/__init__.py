"""Find walks through a graph: all of them, the shortest ones, the cheapest ones."""
