"""GPU engines, one file an engine."""
