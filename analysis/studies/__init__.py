"""Questions across runs and choices: comparisons, sensitivity, people's answers."""
