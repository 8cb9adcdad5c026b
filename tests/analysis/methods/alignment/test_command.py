"""Alignment and quality of a run of renderings, by the command line's own functions."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from nltk.translate.bleu_score import corpus_bleu
from PIL import Image

from analysis.methods.alignment import arguments, captions, command
from analysis.methods.alignment import observe as alignment_observe
from analysis.methods.alignment import tables as alignment_tables
from analysis.methods.alignment.method import METHOD
from analysis.observe.stage import observe
from analysis.report import section
from analysis.report.environment import environment
from probes.config.schema import Measure
from probes.errors import UserError
from probes.runs.parts import read_part
from probes.runs.run import Run
from tests.analysis.observe.stored_images import image_run, renderings

WORDS = {"neutral": "person", "feminine": "woman", "masculine": "man"}
SAID = [
    *(
        "in boots on the beach",
        "with a dog in the park",
        "with an umbrella in the snow",
        "in a dress in the kitchen",
    ),
    *(
        "with a guitar",
        "riding a bike",
        "with a tie in the office",
        "with a cat",
        "in a hat",
        "with a kite",
        "in jeans",
    ),
]
PROMPTS = [f"a {word} {said}" for said in SAID for word in WORDS.values()]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A rendering of each prompt that CLIP and DINO looked at; one image is broken."""
    images = renderings(PROMPTS)
    images[4] = b"no image"
    made = image_run(
        tmp_path_factory.mktemp("alignment") / "run",
        images,
        PROMPTS,
        part=33,
        objects=False,
        features=["clip", "dino"],
        captions={"model": "toyworld-checker"},
    )
    observe(made, progress=False)
    return Run.open(made.path)


@pytest.fixture(scope="module", autouse=True)
def no_java():
    """It takes longer than all the rest."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(captions.shutil, "which", lambda name: None)
        yield


def measured(run, *more):
    return command.measure(arguments.parser().parse_args([str(run.path), *more]))


@pytest.fixture(scope="module")
def tables(run):
    pytest.importorskip("torch_fidelity")
    return measured(run, "--reference", "renderings")


def test_captions_against_prompts(run, tables):
    rows = tables["alignment_captions"].set_index(["indicator", "metric"])
    assert rows.loc[("all", "meteor"), "reason"] and np.isnan(rows.loc[("all", "meteor"), "value"])
    assert (rows.xs("all")["n_images"] == 32).all() and (rows.xs("all")["n_missing"] == 1).all()
    assert rows.loc["all", "captioner"].str.contains("no captioning network").all()
    for name in ("all", *WORDS):
        values = [rows.loc[(name, f"bleu_{n}"), "value"] for n in range(1, 5)]
        assert values == sorted(values, reverse=True) and 0 <= values[-1] < values[0] < 100
        low, high = (rows.loc[(name, "bleu_1"), end] for end in ("low", "high"))
        assert low < values[0] < high
    # the checker says *a person* of all, as the neutral prompts alone do
    assert rows.loc[("neutral", "bleu_1"), "value"] > rows.loc[("feminine", "bleu_1"), "value"]
    said = [row["caption"] for row in read_part(run.part_path("attributes/captions", 0)).to_pylist()]
    both = [(prompt, text) for prompt, text in zip(PROMPTS, said) if text is not None]
    expected = corpus_bleu([[prompt.split()] for prompt, _ in both], [text.split() for _, text in both])
    assert rows.loc[("all", "bleu_4"), "value"] == pytest.approx(100 * expected, rel=1e-9)


def test_the_interval_is_of_the_mean_over_images_and_not_over_prompts():
    """Of 21 prompts one has a hundred images, all right; the others have one each, all wrong."""
    values, units = pd.Series([0] * 20 + [1] * 100), pd.Series([*range(20), *[20] * 100])
    run = SimpleNamespace(config=SimpleNamespace(measure=Measure(bootstrap=200)))
    mean, low, high, _ = alignment_tables.interval(values, units, run)
    assert mean == pytest.approx(100 / 120) and low <= 100 / 120 <= high


def test_the_section_and_the_latex_hold_what_was_measured(run, tables):
    shown = section.measured(METHOD, {"toyworld": run})
    [(name, text)] = section.documents(shown)
    row = tables["alignment_retrieval"].set_index("indicator").loc["all"]
    assert name == "dalleval_table19_alignment" and "R-precision (clip)" in text and "FID (clip)" in text
    assert f"{100 * row['r_precision']:.1f}" in text and "BLEU-4" in text
    assert "METEOR &" not in text and "Not measured: METEOR, " in text and "SPICE." in text
    entry = section.page_section(shown, {})
    page = environment().get_template("section.html.j2").render(section=entry, shown=entry["shown"])
    assert page.count('<tr><th scope="row">') == 4 + 4 * 4 + 2 * 4 * 4
    assert f'value="{row["r_precision"]}"' in page


def test_quality_against_renderings_of_the_same_prompts(run, tables):
    rows = tables["alignment_quality"].set_index(["features", "indicator", "measure"])
    assert rows.index.get_level_values("features").unique().tolist() == ["clip", "dino"]
    assert (rows["n_images"] == rows["n_reference"]).all()
    assert rows.loc[("clip", "feminine", "fid"), "n_missing"] == 1
    assert rows.loc[("dino", "all", "fid"), "dimension"] == 64
    assert rows.xs("fid", level="measure")["reason"].str.contains("biased upward").all()
    low, high = (rows.loc[("clip", "all", "kid_jackknife"), end] for end in ("low", "high"))
    assert low < rows.loc[("clip", "all", "kid_jackknife"), "value"] < high


def test_a_folder_of_images_is_a_reference(run, tmp_path, capsys):
    """Its images may be of several sizes; against the run's own pictures FID is 0."""
    pytest.importorskip("torch_fidelity")
    there = run.samples(["sample_id"])["sample_id"].drop(4)
    for index, picture in enumerate(run.images(there)):
        picture.save(tmp_path / f"{index:02d}.png")
    same = alignment_observe.references(run, ["dino"], str(tmp_path))["dino"]
    assert (same.name, same.samples, same.vectors.shape) == (tmp_path.name, None, (32, 64))
    stored = [
        row["vector"] for row in read_part(run.part_path("features/dino", 0)).to_pylist() if row["vector"]
    ]
    np.testing.assert_allclose(same.vectors, np.array(stored), atol=1e-5)
    Image.new("RGB", (80, 70)).save(tmp_path / "sub.jpg")
    assert alignment_observe.references(run, ["dino"], str(tmp_path))["dino"].vectors.shape == (33, 64)
    (tmp_path / "notes.txt").write_bytes(b"no image")
    assert alignment_observe.references(run, ["dino"], str(tmp_path))["dino"].vectors.shape == (33, 64)
    assert capsys.readouterr().err.endswith("image by content: notes.txt\n")
    (tmp_path / "x.png").write_bytes((tmp_path / "00.png").read_bytes()[:60])
    with pytest.raises(UserError, match=r"^--reference: .*x\.png: expected an image, got"):
        alignment_observe.references(run, ["dino"], str(tmp_path))


def test_what_cannot_be_measured_is_said_in_a_line(run, tmp_path):
    pytest.importorskip("torch_fidelity")
    for more, said in (
        (
            ["--reference", str(tmp_path / "away")],
            r"expected a folder of images or renderings, found no folder: correct the path, or make the folder",
        ),
        (["--reference", str(tmp_path)], r"expected at least two images, found 0"),
    ):
        with pytest.raises(UserError, match=said):
            measured(run, *more)


def test_other_weights_than_those_that_looked_are_refused(run):
    meta = run.meta
    changed = Run(run.path, {**meta, "features/dino": {**meta["features/dino"], "checkpoint": "0" * 64}})
    with pytest.raises(UserError, match=r"features/dino: expected the checkpoint that observed its images"):
        alignment_observe.observer_of(changed, "dino")


def test_without_the_package_it_is_said_what_installs_it(run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_fidelity", None)
    with pytest.raises(
        UserError, match=r"expected the package torch-fidelity, found none: pip install .*\[quality\]"
    ):
        measured(run, "--reference", "renderings")
    assert set(measured(run)) == {"alignment_retrieval", "alignment_captions"}  # which need none


@pytest.mark.slow
def test_inception_in_its_published_layout(tmp_path):
    """torchvision's network has the same names and shapes; KID by the package's own command on the same files."""
    fidelity = pytest.importorskip("torch_fidelity")
    import torchvision

    torch.manual_seed(0)
    network = torchvision.models.inception_v3(
        weights=None, num_classes=1008, aux_logits=False, init_weights=False
    )
    file = tmp_path / "weights-inception-2015-12-05-6726825d.pth"
    torch.save(network.state_dict(), file)
    images = renderings(PROMPTS[:12])
    made = image_run(
        tmp_path / "run",
        images,
        PROMPTS,
        part=12,
        objects=False,
        features=["inception"],
        feature_weights={"inception": str(file)},
    )
    observe(made, progress=False)
    folders = [tmp_path / name for name in ("first", "second")]
    for folder, chosen in zip(folders, (images, images[::-1][:9])):
        folder.mkdir()
        for index, image in enumerate(chosen):
            Image.fromarray(255 - image if folder.name == "second" else image).save(
                folder / f"{index:02d}.png"
            )
    run = Run.open(made.path)
    reference = alignment_observe.references(run, ["inception"], str(folders[1]))["inception"]
    stored = np.array(
        [row["vector"] for row in read_part(run.part_path("features/inception", 0)).to_pylist()]
    )
    assert stored.shape == (12, 2048)
    from analysis.observe.quality import fidelity as ours

    expected = fidelity.calculate_metrics(
        input1=str(folders[0]),
        input2=str(folders[1]),
        kid=True,
        kid_subset_size=9,
        rng_seed=0,
        cuda=False,
        cache=False,
        verbose=False,
        save_cpu_ram=True,
        feature_extractor_weights_path=str(file),
    )
    values, _ = ours(stored, reference.vectors)
    assert values["kid"] == pytest.approx(expected["kernel_inception_distance_mean"], rel=1e-4)
    torch.save({"a": torch.zeros(1)}, file)
    with pytest.raises(UserError, match=r"expected the Inception weights of torch-fidelity"):
        alignment_observe.Embedder(alignment_observe.FEATURES["inception"], file, torch.device("cpu"))
