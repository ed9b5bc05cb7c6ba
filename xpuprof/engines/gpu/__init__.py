"""GPU engines. Every file here is one, and ends in its declaration `ENGINE`."""
