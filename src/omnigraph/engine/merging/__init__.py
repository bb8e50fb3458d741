"""Two states that grew apart from a third, brought together: row by row, property by property."""
