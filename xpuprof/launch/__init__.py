"""Starts the user's program under the chosen engines, and supervises it."""
