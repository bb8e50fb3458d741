"""Files as they are: reading any table, guessing a schema of it, and turning its rows into records of a graph."""
