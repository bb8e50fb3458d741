"""Embedding providers, a file each."""
