"""Graph algorithms over one edge type, in memory: pure functions of arrays."""
