"""One verb, one file: each tells its whole story."""
