"""Rewrite rules: small pure functions from plan to plan."""
