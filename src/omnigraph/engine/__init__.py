"""Plan and execute reads and writes over the tables of one snapshot, and check what is stored."""
