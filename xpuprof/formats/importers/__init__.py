"""Profiles of other tools, one file a format."""
