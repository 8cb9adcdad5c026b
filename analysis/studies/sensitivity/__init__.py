"""What of a run's findings hangs on a choice."""
