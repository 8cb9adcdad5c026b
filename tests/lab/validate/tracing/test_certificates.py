"""Certificates: effects of sets of places, and the stored ones drawn again by hooks written by hand."""

import numpy as np
import pytest

from lab.validate.tracing.certificates import (
    STEPS,
    certificate,
    variants_of,
)
from probes.toyworld.places import known_places


def test_effects_are_means_over_prompts_of_their_seeds():
    structure = known_places("structures")["toyworld-redundant"]
    names = [one.name for one in variants_of(structure, STEPS)]
    values = np.random.default_rng(0).normal(size=(3 * 2, len(names)))
    found = certificate(structure, values, steps=STEPS, seeds=2)
    column = dict(zip(names, values.T, strict=True))
    apart = column["sufficiency:masculine:1"] - column["sufficiency:feminine:1"]
    of_prompt = [apart[:2].mean(), apart[2:4].mean(), apart[4:].mean()]
    assert found["sufficiency"]["1"]["mean"] == pytest.approx(np.mean(of_prompt), abs=1e-4)
    assert found["sufficiency"]["1"]["se"] == pytest.approx(np.std(of_prompt, ddof=1) / 3**0.5, abs=1e-4)
    total = (column["none:masculine"] - column["none:feminine"]).mean()
    without = (column["necessity:masculine:0+1"] - column["necessity:feminine:0+1"]).mean()
    assert found["necessity"]["0+1"]["mean"] == pytest.approx(total - without, abs=1e-4)
