"""Algorithms over the whole shape of one edge type, in memory: pure functions of arrays."""
