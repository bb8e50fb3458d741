"""Query semantics: binding, typed expressions, logical plans, rewrite rules, parameters, explain. No I/O."""
