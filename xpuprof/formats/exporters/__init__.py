"""Selections and runs in the form that other tools read, one file a format."""
