"""SQL over the tables of one snapshot, run by DuckDB in a connection of its own."""
