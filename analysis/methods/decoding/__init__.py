"""Linear probes of activations, site by site and step by step: ``triptych decode``."""
