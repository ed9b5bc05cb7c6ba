"""signature."""
