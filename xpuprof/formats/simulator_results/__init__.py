"""Results of simulators, one file a simulator."""
