"""Dots of the atlas beside the direction of their own place in a large run."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lab.validate.models import claims, places
from lab.validate.models.claims import ATLAS, Claim, of_dots
from lab.validate.models.places import Places, store, stored_places
from probes.config.schema import Config

ENDS = {
    ("unet.mid", 0): (0.2, 0.1, 0.3),
    ("unet.mid", 1): (-0.2, -0.3, -0.1),
    ("unet.mid", 2): (0.0, -0.1, 0.1),
}


def config(steps=10, model="toyworld"):
    return Config.stored({"model": model, "sampler": {"steps": steps}})


def test_places_are_read_back_and_only_for_their_model_and_steps(tmp_path):
    file = tmp_path / "places.json"
    store(Places("toyworld", 10, 120, (0,), ENDS), file)
    found = stored_places(config(), file)
    assert found == Places("toyworld", 10, 120, (0,), ENDS)
    assert [found.direction("unet.mid", step) for step in range(4)] == [1, -1, None, None]
    assert stored_places(config(steps=20), file) is None
    assert stored_places(config(model="toyworld-mirror"), file) is None


def test_the_stored_reference_has_one_place_that_leans_the_other_way():
    known = json.loads(places.PLACES.read_text("utf-8"))
    low, high = np.array([row[-2:] for row in known["places"]]).T
    turned = {(site, step) for (site, step, *_), end in zip(known["places"], high, strict=True) if end < 0}
    assert turned == {("unet.mid.attn.0.cross", step) for step in range(4, 10)}
    assert (low > 0).mean() > 0.95


@pytest.mark.parametrize(("known", "false"), [(True, [True, False, False]), (False, [True, True, True])])
def test_a_dot_is_false_where_its_own_place_excludes_it(monkeypatch, known, false):
    own = Places("toyworld", 10, 120, (0,), ENDS) if known else None
    monkeypatch.setattr(claims, "stored_places", lambda config: own)
    rows = {"contrast": "masculine-feminine", "space": "unet", "site": "unet.mid", "metric": "cosine"}
    gap = pd.DataFrame(
        [{**rows, "step": step, "word_gap": -0.1, "p_control_adjusted": 0.01} for step in range(3)]
    )
    truth = SimpleNamespace(nearer=lambda contrast, reference: 1)
    monkeypatch.setattr(claims, "contrasts", lambda config: [("masculine", "feminine")])
    monkeypatch.setattr(claims, "line_rows", lambda own: {})
    dots = list(of_dots(gap, config(), truth))
    assert [one.false for one in dots] == false and {one.images for one in dots} == {1}
    assert dots[0] == Claim(ATLAS, "unet.mid cosine 0", -1, 1, images=1)
