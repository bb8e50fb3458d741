"""Table versions as queries read them: positions, cached columns, access paths, statistics, adjacency."""
