"""Reads as relational algebra: the plan of a pattern as a tree of joins, and its text in dialects of SQL."""
