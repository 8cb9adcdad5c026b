"""The detector compared with the checker, on renderings whose content is known."""

import numpy as np
import pandas as pd
import pytest

from analysis.tables.objects.detector_error import (
    CHECKER,
    ERROR_COLUMNS,
    checked_images,
    detector_error,
    error_rates,
)
from probes.runs import parts, schemas
from probes.runs.run import Run
from probes.toyworld.checker import read_images
from probes.toyworld.draw import render
from probes.toyworld.scene import parse, sample_scene
from probes.toyworld.world import load_world
from tests.analysis.observe.stored_images import png
from tests.analysis.synthetic_run import Plan as RunPlan
from tests.analysis.synthetic_run import config

NAMES = {"feminine": "woman", "masculine": "man"}
PROMPTS = ("a {} with a ball in the park", "a {} with a dog", "a {} holding an umbrella", "a {} on a couch")
SEEDS = 6
TAGS = ["ball", "dog", "umbrella", "couch", "dress", "person"]


@pytest.fixture(scope="module")
def world():
    """Renderings, and a detector that sees all of it but half of the dresses on feminine prompts' images."""
    rng, known = np.random.default_rng(0), load_world()
    images, observed, objects = {}, [], []
    for triplet, text in enumerate(PROMPTS):
        for seed in range(SEEDS):
            for name, word in NAMES.items():
                sample = f"t{triplet:05d}-s{seed}-{name}"
                scene = sample_scene(parse(text.format(word), known), known, rng)
                images[sample] = render(scene)
                key = {"sample_id": sample, "triplet": triplet, "seed": seed, "indicator": name}
                observed.append(key | {"tags": TAGS})
                found = [thing for thing in TAGS[:5] if thing in scene.things]
                if name == "feminine" and seed % 2 and "dress" in found:
                    found.remove("dress")
                found += ["person"] + ["couch"] * (seed == 0)
                labels = [f"{label}s" if label == "dog" else label for label in found]
                objects += [
                    key | {"object": n, "label": label, "lemma": what}
                    for n, (label, what) in enumerate(zip(labels, found))
                ]
                objects.append(key | {"object": -1, "label": "", "lemma": "horse"})
    return images, pd.DataFrame(observed), pd.DataFrame(objects)


def test_rates_are_those_planted(world):
    images, observed, objects = world
    seen = read_images(np.stack(list(images.values()))).set_axis(list(images))
    rates = error_rates(
        observed, objects, seen, indicators=list(NAMES), contrasts=[("masculine", "feminine")]
    ).set_index(["quantity", "object", "indicator"])
    dress = observed["sample_id"].map(seen["dress"])
    for name in NAMES:
        own = observed[dress & (observed["indicator"] == name)]
        row = rates.loc[("recall", "dress", name)]
        expected = (own["seed"] % 2 == 0).mean() if name == "feminine" else 1.0
        assert row["n"] == len(own) and (row["value"] == expected or len(own) == 0)
    assert rates.loc[("recall", "ball", "all"), "value"] == 1.0
    assert rates.loc[("recall", "dog", "all"), "value"] == 1.0  # the label "dogs" is the thing "dog"
    couch = rates.loc[("precision", "couch", "all")]
    there = seen.loc[observed["sample_id"], "couch"].sum()
    said = (
        ((objects["lemma"] == "couch") & (objects["object"] >= 0)).groupby(objects["sample_id"]).any().sum()
    )
    assert couch["value"] == there / said < 1 and couch["n"] == said
    assert not {"horse", "person", "hat"} & set(rates.index.get_level_values("object"))


def test_nothing_detected_is_no_zero(world):
    images, observed, objects = world
    seen = read_images(np.stack(list(images.values()))).set_axis(list(images))
    rates = error_rates(observed, objects[objects["object"] < 0], seen, indicators=list(NAMES))
    rates = rates.set_index(["quantity", "object", "indicator"])
    assert rates.loc[("recall", "all", "all"), "value"] == 0.0
    assert np.isnan(rates.loc[("precision", "all", "all"), "value"])
    assert rates.loc[("precision", "all", "all"), "reason"] == "nothing detected"


@pytest.fixture
def run(world, tmp_path) -> Run:
    """A run directory of these renderings."""
    images, observed, objects = world
    people = {name: {"word": word, "control": False} for name, word in NAMES.items()}
    plan = RunPlan(indicators=people, reference="feminine", contrasts=(("masculine", "feminine"),))
    rows = []
    for row in observed.to_dict("records"):
        rest = {name: row[name] for name in ("sample_id", "triplet", "seed", "indicator")}
        rows.append(rest | {"image": {"bytes": png(images[row["sample_id"]]), "path": ""}})
    ident = parts.identity(0, {})
    parts.write_part(tmp_path / "samples" / "part-00000.parquet", rows, schemas.SAMPLES, ident)
    dropped = {f"dropped_{why}": 0 for why in ("empty", "merged", "unknown", "overlap")}
    looked = [row | dropped | {"status": "ok", "reason": ""} for row in observed.to_dict("records")]
    parts.write_part(tmp_path / "observed" / "part-00000.parquet", looked, schemas.OBSERVED, ident)
    parts.write_part(tmp_path / "objects" / "part-00000.parquet", [], schemas.OBJECTS, ident)
    run = Run(tmp_path, {})
    run.write_table("objects", objects)
    resolved = {"passed": {}, "resolved": config(plan)}
    run.write_meta(format=4, status="observed", config=resolved, observer={"engine": "groundingdino"})
    return Run.open(tmp_path)


def test_of_a_run(run):
    table = detector_error(run, run.table("objects"), checked_images(run))
    assert tuple(table.columns) == ERROR_COLUMNS and set(table["truth"]) == {"toyworld-checker/2"}
    rows = table.set_index(["quantity", "object", "indicator"])
    assert rows.loc[("recall", "dress", "feminine"), "value"] < 1
    assert rows.loc[("recall", "all", "masculine-feminine"), "value"] > 0
    run.write_table("detector_error", table)
    assert run.table("detector_error").equals(table)


def test_the_checker_is_not_its_own_truth(run):
    run.write_meta(observer={"engine": CHECKER})
    assert checked_images(run) is None
