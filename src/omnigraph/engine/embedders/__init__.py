"""Embedding providers, one per module."""
