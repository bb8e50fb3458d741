"""The command line: parses, calls one method, renders."""
