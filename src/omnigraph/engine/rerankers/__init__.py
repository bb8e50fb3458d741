"""Rerankers, one per module."""
