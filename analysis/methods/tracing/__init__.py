"""Causal tracing: effects of patched activations, their tables, figures and section."""
