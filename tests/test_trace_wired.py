"""Traces of wired transformers as a user runs them: the place is the one that the truth names, exactly."""

import numpy as np
import yaml

from probes.runs.images import read_image
from probes.runs.store import Run
from tests.remembered import leave_figures_out
from triptych.cli.main import main

NAME = "toyworld-dit-block-1"
CHANNELS = ["text.pooled", "text.embeddings", "text_2.embeddings", "text_3.embeddings"]
SETTINGS = {
    "indicators": {"neutral": "person", "feminine": "woman", "masculine": "man"},
    "prompts": ["a {person} in the park", "a {person} with a dog", "a {person}"],
    "sampler": {"steps": 4},
    "capture": {"sites": ["latent.final"], "words": False},
    "generate": {"workers": 1, "device": "cpu"},
    "observe": {"objects": False, "features": []},
    "measure": {"bootstrap": 100, "permutations": 20},
    "trace": {"necessity": False},
}
BOTH = "masculine-feminine"


def alike(one, other):
    """The same image, but for the order of sums in a large batch, on the edge of a rounding."""
    return np.abs(one.astype(int) - other).max() <= 1


def test_the_share_is_that_of_the_wired_channels(tmp_path, capsys, monkeypatch):
    leave_figures_out(monkeypatch)
    file, out = tmp_path / "triplets.yaml", str(tmp_path / "run")
    file.write_text(yaml.safe_dump({**SETTINGS, "model": NAME}, sort_keys=False))
    assert main(["run", str(file), "--out", out, "--stage", "generate", "--quiet"]) == 0, (
        capsys.readouterr().err
    )
    assert main(["trace", out, "--quiet"]) == 0, capsys.readouterr().err
    assert main(["run", out, "--stage", "measure", "--quiet"]) == 0
    assert main(["report", out]) == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    table = run.traced().set_index(["triplet", "variant"])
    images = {key: np.asarray(read_image(image["bytes"])) for key, image in table["image"].items()}
    wired = CHANNELS[1:]
    for (triplet, variant), row in table[table["kind"] == "site"].iterrows():
        image, sites = images[triplet, variant], {*row["sites"]}
        if sites <= {
            "text.pooled",
            *CHANNELS[3:],
        }:  # all but what the pooled text is made of, or made from it
            if sites < {*wired}:
                continue  # which may do some of it
            end = row["donor"] if sites == {*wired} else "neutral"
            assert alike(image, images[triplet, f"none:{end}"]), variant
    total = run.table("trace_total").set_index("donor")["total"]
    assert total.abs().max() > 1
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "text encoder 3 · embeddings" in page
    cuts = run.table("trace_cuts")
    assert cuts["holds"].all()


def test_words_are_traced_to_the_block_that_reads_them(tmp_path, capsys, monkeypatch):
    leave_figures_out(monkeypatch)
    file, out = tmp_path / "triplets.yaml", str(tmp_path / "run")
    joint = [f"dit.block.{number}.joint" for number in range(2)]
    trace = {"sites": joint, "part": "key+value", "necessity": False}
    chosen = {"model": NAME, "prompts": SETTINGS["prompts"][:2], "trace": trace}
    file.write_text(yaml.safe_dump({**SETTINGS, **chosen}, sort_keys=False))
    assert main(["run", str(file), "--out", out, "--stage", "generate", "--quiet"]) == 0, (
        capsys.readouterr().err
    )
    assert main(["trace", out, "--quiet"]) == 0, capsys.readouterr().err
    table = Run.open(tmp_path / "run").traced().set_index(["triplet", "variant"])
    images = {key: np.asarray(read_image(image["bytes"])) for key, image in table["image"].items()}
    for (triplet, variant), row in table[table["kind"].isin(["site", "cut"])].iterrows():
        ends = {name: images[triplet, f"none:{name}"] for name in ("neutral", "feminine", "masculine")}
        site = row["sites"][0]
        if row["kind"] == "site":
            end = "neutral" if site == joint[0] else row["donor"]
            assert alike(images[triplet, variant], ends[end]), variant
        else:
            share = {"before": "neutral", "self": "neutral"}.get(variant.split(":")[1], row["donor"])
            assert alike(images[triplet, variant], ends[share]), variant
