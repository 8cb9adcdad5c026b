"""Runs in the formats of other programs, on the Hugging Face Hub, and as cards.

`analysis.export.exporting` writes a run in a format of `analysis.export.registry` and uploads it;
`analysis.export.cards` says what was measured: a dataset card, prose for a model card, and records of evaluation.
"""
