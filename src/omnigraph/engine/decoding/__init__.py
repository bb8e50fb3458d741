"""Strict decoding of files and records into typed Arrow rows, with a fast path for what is unambiguous."""
