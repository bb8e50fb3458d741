"""From one schema to the next on rows that are there: which column becomes which, and whether new rules hold."""
