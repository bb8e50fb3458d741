"""Check the constraints of the schema over any candidate state: ends of edges, cardinality, unique groups, values."""
