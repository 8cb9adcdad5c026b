"""Traces of wired transformers as a user runs them: the place is the one that the truth names, exactly."""

import numpy as np
import pytest
import yaml

from probes.runs.images import read_image
from probes.runs.store import Run
from probes.toyworld.dit.truth import wired_models
from tests.remembered import leave_figures_out
from triptych.cli.main import main

CHANNELS = ["text.pooled", "text.embeddings", "text_2.embeddings", "text_3.embeddings"]
OF_CHANNEL = {"pooled": CHANNELS[:1], "clip": CHANNELS[1:3], "t5": CHANNELS[3:]}
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


@pytest.mark.parametrize(
    "name",
    [
        "toyworld-dit-template",
        *(
            pytest.param(f"toyworld-dit-{other}", marks=pytest.mark.slow)
            for other in ("nowhere", "pooled", "clip", "t5")
        ),
    ],
)
def test_the_share_is_that_of_the_wired_channel(name, tmp_path, capsys, monkeypatch):
    leave_figures_out(monkeypatch)
    file, out, truth = tmp_path / "triplets.yaml", str(tmp_path / "run"), wired_models()[name]
    file.write_text(yaml.safe_dump({**SETTINGS, "model": name}, sort_keys=False))
    assert main(["run", str(file), "--out", out, "--stage", "generate", "--quiet"]) == 0, (
        capsys.readouterr().err
    )
    assert main(["trace", out, "--quiet"]) == 0, capsys.readouterr().err
    assert main(["run", out, "--stage", "measure", "--quiet"]) == 0
    assert main(["report", out]) == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    table = run.traced().set_index(["triplet", "variant"])
    images = {key: np.asarray(read_image(image["bytes"])) for key, image in table["image"].items()}
    wired = [site for channel in truth.channels for site in OF_CHANNEL[channel]]
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
    assert (total.abs().max() > 1) == bool(truth.sites)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "text encoder 3 · embeddings" in page
    cuts = run.table("trace_cuts")
    assert cuts["holds"].all() or not truth.sites


def test_what_the_text_around_the_word_carries_is_told_from_the_word(tmp_path, capsys, monkeypatch):
    leave_figures_out(monkeypatch)
    file, out = tmp_path / "triplets.yaml", str(tmp_path / "run")
    trace = {"sites": ["dit.in.text"], "positions": ["word", "rest"]}
    chosen = {"model": "toyworld-dit-template", "trace": trace}
    file.write_text(yaml.safe_dump({**SETTINGS, **chosen}, sort_keys=False))
    assert main(["run", str(file), "--out", out, "--quiet"]) == 0, capsys.readouterr().err
    run = Run.open(tmp_path / "run")
    table = run.traced().set_index(["triplet", "variant"])
    images = {key: np.asarray(read_image(image["bytes"])) for key, image in table["image"].items()}
    rows = table[table["kind"] == "position"]
    assert set(rows["positions"]) == {"word", "rest"}
    for (triplet, variant), row in rows.iterrows():
        if (
            row["positions"] == "rest" or len(row["sites"]) == 1
        ):  # keys and values of the word have read the rest
            end = row["donor"] if row["positions"] == "rest" else row["recipient"]
            assert alike(images[triplet, variant], images[triplet, f"none:{end}"]), variant
    shares = run.table("trace_shares")
    shares = shares[(shares["donor"] == BOTH) & (shares["site"] == "dit.in.text")].set_index("positions")
    total = run.table("trace_total").set_index("donor")["total"][BOTH]
    assert total > 1 and shares["effect"]["word"] == 0
    assert shares["effect"]["rest"] == pytest.approx(total, abs=1e-9)
    assert "text in, rest" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_words_are_traced_to_where_a_choice_is_shown(tmp_path, capsys, monkeypatch):
    """Explicit words are read there at every step, and of the place that chooses the cuts know nothing."""
    leave_figures_out(monkeypatch)
    file, out = tmp_path / "triplets.yaml", str(tmp_path / "run")
    joint, own = [f"dit.block.{number}.joint" for number in range(2)], "dit.block.1.self"
    trace = {"sites": [*joint, own], "part": "key+value", "necessity": False}
    chosen = {"model": "toyworld-dit-choice", "prompts": SETTINGS["prompts"][:2], "trace": trace}
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
        if own == site:
            assert row["writes"] > 0
        elif row["kind"] == "site":
            end = "neutral" if site == joint[0] else row["donor"]
            assert alike(images[triplet, variant], ends[end]), variant
        else:
            share = {"before": "neutral", "self": "neutral"}.get(variant.split(":")[1], row["donor"])
            assert alike(images[triplet, variant], ends[share]), variant
