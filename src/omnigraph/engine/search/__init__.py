"""Full-text and vector search: inverted indexes, nearest neighbours, and ranking."""
