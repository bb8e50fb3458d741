"""Buffer the rows of a mutation: run its statements, complete its rows, hold their blobs as references."""
