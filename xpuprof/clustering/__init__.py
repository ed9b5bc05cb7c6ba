"""From vectors to clusters and representatives, for one run and for many."""
