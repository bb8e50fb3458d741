"""What a query means: typed expressions, the logical plan, binding, rewrite rules, parameters, explain. No I/O."""
