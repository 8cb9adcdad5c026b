"""Where runs are stored: folders and object storage, locks, caches."""
