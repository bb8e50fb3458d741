"""The language server: editors speak to it over stdin and stdout. It translates, and has no rules of its own."""
