"""The sampling methods, one file a method."""
