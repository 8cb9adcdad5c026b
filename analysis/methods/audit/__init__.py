"""Audits of labelled pictures: shares by model, profession and setting, without a run and without triplets."""
