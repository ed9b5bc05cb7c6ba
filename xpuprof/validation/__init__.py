"""A selection held against measured times, on this machine or another."""
