"""Read settings from files and the environment; no other package of the engine reads the environment."""
