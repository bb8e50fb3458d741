"""One table version as a query sees it: positions, columns in memory, filters, adjacency."""
