"""Storage of runs: folders and object storage, locks, caches."""
