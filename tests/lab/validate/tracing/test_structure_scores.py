"""Methods on causal structures: Shapley values, the page, and what is stored."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lab.validate.tracing import structure_scores
from lab.validate.tracing.structure_page import page, true_places
from lab.validate.tracing.structure_scores import LABELS, Trial, as_json, orders, shapley, swaps
from lab.validate.tracing.structures import main
from probes.models import loading
from probes.toyworld import STRUCTURES
from probes.toyworld.structures.truth import structures

STORED = Path("docs/validation/structures.json")


def test_shapley_values_over_all_orders_are_the_exact_ones(monkeypatch):
    worth = {some: np.array([len(some) ** 2 + 3.0 * (0 in some)]) for some in [(), *_sets(3)]}
    monkeypatch.setattr(structure_scores, "orders", lambda sites: list(permutations(range(sites))))
    found = shapley(worth.__getitem__, 3)
    np.testing.assert_allclose(found, [[6.0, 3.0, 3.0]])


def _sets(number):
    return [tuple(place for place in range(number) if bits >> place & 1) for bits in range(1, 2**number)]


def test_each_order_is_followed_by_its_reverse():
    found = orders(5, 3)
    assert len(found) == 6 and all(
        one == other[::-1] for one, other in zip(found[::2], found[1::2], strict=True)
    )
    assert all(sorted(one) == [0, 1, 2, 3, 4] for one in found)


def test_single_swaps_do_all_and_undo_nothing_where_either_place_is_enough():
    pipe = loading.load(loading.resolve("toyworld-redundant"), device="cpu").pipe
    pipe.set_progress_bar_config(disable=True)
    structure = structures()["toyworld-redundant"]
    trial = Trial.of(pipe, structure, prompts=1, seeds=1, steps=3)
    found = swaps(trial)
    true = np.array([site in structure.sites for site in trial.sites])
    assert found["necessity"].shape == (1, 7) and not found["necessity"].any()
    assert (np.abs(found["sufficiency"][0, true]) > 1).all() and not found["sufficiency"][0, ~true].any()
    assert not found["shapley"][0, ~true].any() and found["shapley"][0, true].all()


def test_seeds_of_a_prompt_are_averaged():
    values = np.arange(8.0).reshape(4, 2)
    assert as_json({"atlas": values, "probe": values[:1]}, 2) == {
        "atlas": [[1.0, 2.0], [5.0, 6.0]],
        "probe": [[0.0, 1.0]],
    }


def test_the_page_is_made_of_what_is_stored():
    results = json.loads(STORED.read_text())
    assert list(results) == list(STRUCTURES)
    text = page(results)
    assert STORED.with_suffix(".md").read_text() == text
    for name, result in results.items():
        assert (result["prompts"], result["seeds"]) == (24, 2) and set(result["methods"]) == set(LABELS)
        row = next(
            line
            for line in text.split("## Which methods")[1].splitlines()
            if line.startswith(f"| `{name[9:]}` | ")
        )
        cells = [float(cell.split()[0]) for cell in row.split("|")[2:-1]]
        for cell, method in zip(cells, LABELS, strict=True):
            scores = np.abs(np.array(result["methods"][method]).mean(0))
            assert cell == pytest.approx(roc_auc_score(true_places(name, result), scores), abs=0.0051)


def test_an_unknown_structure_is_one_line(capsys, tmp_path):
    assert main(["toyworld-cross-4", "--out", str(tmp_path / "page.md")]) == 2
    assert "expected causal structures" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "page.md")]) == 2
