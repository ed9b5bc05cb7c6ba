"""CPU engines, one file an engine."""
