"""Check and write many rows at a time: whole columns, joined and counted by Arrow and numpy, never row by row."""
