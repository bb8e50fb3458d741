"""Three-way merge of two branches and their merge base, row by row and property by property."""
