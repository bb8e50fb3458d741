"""Full text and vectors: which rows are found, and which come first."""
