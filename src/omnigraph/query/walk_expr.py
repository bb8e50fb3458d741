"""Walks in the logical plan: which walks a path variable is bound to, and what can be read of one."""

from enum import Enum


class WalkKind(Enum):
    """Which walks a path variable is bound to; the value is the keyword."""

    PATH = "path"
    """Every walk without a repeated edge."""
    SHORTEST = "shortest"
    """For each pair of ends, the shortest walk; of several, the smallest by node ids, then edge ids."""
    ALL_SHORTEST = "all_shortest"
    """For each pair of ends, all shortest walks."""
    CHEAPEST = "cheapest"
    """For each pair of ends, the walk with the smallest sum of weights, then with the fewest edges, then ids."""


class WalkPart(Enum):
    """What can be read of a walk; the value is the name of the function."""

    LENGTH = "length"
    COST = "cost"
    NODES = "nodes"
    EDGES = "edges"
    WHOLE = "walk"
    """The walk itself, as a record of its nodes and edges."""
    KEY = "key"
    """A text that orders walks by their node ids, then their edge ids, and is equal for equal walks."""
