"""Migrate stored rows to a new schema: match old and new columns, and check the new constraints."""
