"""Checks of many rows at once: whole columns, joined and counted by Arrow and numpy, never row by row."""
