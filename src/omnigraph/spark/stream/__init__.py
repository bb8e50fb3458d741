"""Structured streaming into a graph: one commit per batch, exactly once."""
