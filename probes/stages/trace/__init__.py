"""Causal tracing, a stage of a run: images generated with activations patched between the words of a triplet."""
