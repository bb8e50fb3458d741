"""The command line: each command parses its options, calls one method and formats the result."""
