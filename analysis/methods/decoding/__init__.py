"""Linear probes of activations, site by site and step by step: ``triptych decode``."""

NOT_USED = "Readable is not used: what a probe reads at a place, the model need not make use of there."
# of those read by default; keys, values and heads where they are named
SITES = ("text.*", "latent", "unet.*")
FOLDS = 5
STRENGTH = 1.0  # scikit-learn's C, of standardised activations
