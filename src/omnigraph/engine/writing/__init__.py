"""Buffer the rows of a mutation, and check them against the constraints of the schema."""
