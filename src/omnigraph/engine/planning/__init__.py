"""From a logical plan to a physical one, by cost, and the text that explains it."""
