"""The two languages as text and trees: lexing, parsing, printing, diagnostics. No meaning, no I/O."""
