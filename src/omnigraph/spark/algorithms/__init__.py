"""Graph algorithms on executors, round by round, over blocks in the graph's storage."""
