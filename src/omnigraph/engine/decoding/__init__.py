"""Strict decoding of files and records into typed Arrow rows, whole columns at once."""
