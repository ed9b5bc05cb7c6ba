"""Representative, weighted, validated slices of CPU-GPU programs."""

__version__ = "0.1.0"
