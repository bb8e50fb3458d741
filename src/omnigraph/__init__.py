"""A typed, versioned property graph."""
