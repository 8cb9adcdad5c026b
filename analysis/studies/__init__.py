"""Questions across runs: comparisons, power, people's answers."""
