"""A trace of a wired transformer as a user runs it: the place is the one that the truth names, exactly."""

import numpy as np
import pytest
import yaml

from probes.runs.images import read_image
from probes.runs.run import Run
from triptych.cli.main import main

JOINT = [f"dit.block.{number}.joint" for number in range(2)]  # the words are read by the second
SETTINGS = {
    "model": "toyworld-dit-block-1",
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} in the park", "a {person} with a dog"],
    "sampler": {"steps": 4},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"workers": 1, "device": "cpu"},
    "observe": {"objects": False, "features": []},
    "trace": {"sites": JOINT, "part": "key+value", "necessity": False},
}


def alike(one, other):
    """The same image, but for the order of sums in a large batch, on the edge of a rounding."""
    return np.abs(one.astype(int) - other).max() <= 1


@pytest.mark.slow
def test_words_are_traced_to_the_block_that_reads_them(tmp_path, capsys):
    file, out = tmp_path / "triplets.yaml", str(tmp_path / "run")
    file.write_text(yaml.safe_dump(SETTINGS, sort_keys=False))
    assert main(["run", str(file), "--out", out, "--stage", "generate", "--quiet"]) == 0, (
        capsys.readouterr().err
    )
    assert main(["trace", out, "--quiet"]) == 0, capsys.readouterr().err
    table = Run.open(tmp_path / "run").read("traced").set_index(["triplet", "variant"])
    images = {key: np.asarray(read_image(image["bytes"])) for key, image in table["image"].items()}
    for (triplet, variant), row in table[table["kind"].isin(["site", "cut"])].iterrows():
        ends = {name: images[triplet, f"none:{name}"] for name in ("neutral", "feminine", "masculine")}
        site = row["sites"][0]
        if row["kind"] == "site":
            end = "neutral" if site == JOINT[0] else row["donor"]
            assert alike(images[triplet, variant], ends[end]), variant
        else:
            share = {"before": "neutral", "self": "neutral"}.get(variant.split(":")[1], row["donor"])
            assert alike(images[triplet, variant], ends[share]), variant
