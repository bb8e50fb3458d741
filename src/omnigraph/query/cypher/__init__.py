"""Cypher statements into the logical plan that `.gq` has too: names, types, patterns, clauses."""
