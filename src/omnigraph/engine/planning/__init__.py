"""The planner: translates a logical plan into a physical one by cost, and explains it."""
