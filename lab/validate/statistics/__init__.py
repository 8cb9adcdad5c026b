"""Error rates and coverage of the statistics in simulated worlds."""
