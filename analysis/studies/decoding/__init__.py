"""Linear probes of activations, site by site and step by step: ``python -m analysis decode``."""
