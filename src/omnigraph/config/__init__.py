"""Settings from outside become the engine's own. The only room that reads the environment for it."""
