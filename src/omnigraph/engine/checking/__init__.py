"""Check stored rows against the rules of their schema, in one pass and bounded memory."""
