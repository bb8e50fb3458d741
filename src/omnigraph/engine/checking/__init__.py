"""Whether rows that are stored keep the rules of their schema: read once, in bounded memory."""
