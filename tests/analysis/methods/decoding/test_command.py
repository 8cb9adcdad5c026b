"""Probes of a run: roles, rows of each place, tables and figures of made-up activations; the command on a model."""

import numpy as np
import pandas as pd
import pytest
import yaml

from analysis.methods.decoding import fit, generate, places
from analysis.methods.decoding.figures import NOT_USED, draw_scores
from analysis.methods.decoding.scores import Choice
from analysis.study import contrasts
from probes.config.schema import Config
from probes.errors import UserError
from probes.models.loading import load, resolve
from probes.runs.run import Run
from tests.tiny import tiny_pipeline
from triptych.cli.main import command as command_of

WORDS = {
    "neutral": "person",
    "feminine": "woman",
    "masculine": "man",
    "human": {"word": "human", "control": True},
    "lady": {"word": "lady", "control": "feminine"},
    "gentleman": {"word": "gentleman", "control": "masculine"},
}
PROMPTS = [f"a {{person}} with a {thing}" for thing in ("dog", "cat", "ball", "kite", "cup")]
QUICK = Choice(folds=3, resamples=100)


def config(**fields):
    return Config(**{"prompts": PROMPTS, "indicators": WORDS, "seeds": [0, 1], **fields})


@pytest.fixture(scope="module")
def made_up():
    """Activations in which the word is written at ``unet.mid`` from step 1 on, and in the text at the word alone."""
    rng, rows = np.random.default_rng(0), []
    for triplet in range(20):
        for seed in range(2):
            rows += [(triplet, seed, name) for name in WORDS]
    samples = pd.DataFrame(rows, columns=["triplet", "seed", "indicator"])
    sides = {"masculine": 1.0, "gentleman": 1.0, "feminine": -1.0, "lady": -1.0}
    side = samples["indicator"].map(sides).fillna(0.0).to_numpy()
    lean = rng.normal(size=len(samples))  # what becomes of a neutral image is written as a word is
    side = np.where(samples["indicator"] == "neutral", lean, side)
    mid = rng.normal(size=(len(samples), 3, 4)) * 0.3
    mid[:, 1:, 0] += side[:, None]
    values = {("unet.mid", ""): mid, ("unet.conv_in", ""): rng.normal(size=(len(samples), 3, 4))}
    for group, seen in (("before", 0.0), ("word", 1.0)):
        text = np.zeros((len(samples), 1, 4)) + rng.normal(size=(20, 1, 4))[samples["triplet"]]
        text[:, 0, 1] += seen * side * 2
        values[("text.final", group)] = text
    key = np.repeat(values[("text.final", "word")], 3, axis=1)
    values[("unet.mid.attn.0.cross.key", "word")] = key
    values = {place: one.astype(np.float32) for place, one in values.items()}
    times = {place: [999.0, 500.0, 1.0] if one.shape[1] == 3 else [np.nan] for place, one in values.items()}
    neutral = (samples["indicator"] == "neutral").to_numpy()
    return places.Activations(samples, values, times), np.where(neutral, (lean > 0).astype(float), np.nan)


@pytest.fixture(scope="module")
def table(made_up):
    return fit.decoding(*made_up[:1], places.roles(config()), made_up[1], QUICK)


def test_roles_are_the_contrast_and_its_controls():
    chosen = places.roles(config())
    assert (chosen.first, chosen.second) == contrasts(config())[0] == ("masculine", "feminine")
    assert chosen.synonyms == {"lady": 0.0, "gentleman": 1.0} and chosen.reference == "neutral"
    one_sided = {name: word for name, word in WORDS.items() if name != "lady"}
    assert places.roles(config(indicators=one_sided)).synonyms == {}
    with pytest.raises(UserError, match="expected a contrast of two words"):
        places.roles(config(contrasts=[], indicators={"neutral": "person", "other": "human"}))


def cells(table, values="value"):
    return table.pivot(index=["site", "group", "step"], columns="score", values=values)


def test_what_is_written_is_read_there_and_nowhere_else(table):
    value, low, high = (cells(table, name) for name in ("value", "low", "high"))
    for step in (1, 2):
        mid = ("unet.mid", "", step)
        assert (
            low.loc[mid, "auc"] > 0.9 and low.loc[mid, "synonyms"] > 0.9 and value.loc[mid, "outcome"] > 0.9
        )
        assert low.loc[mid, "selectivity"] > 0 and value.loc[mid, "bits"] < 0.6
    for place in (("unet.mid", "", 0), ("unet.conv_in", "", 2)):
        assert low.loc[place, "auc"] <= 0.5 <= high.loc[place, "auc"]
    assert value.loc[("text.final", "word", -1), "auc"] == 1
    assert value.loc[("text.final", "before", -1), "auc"] == 0.5  # ties: the same for all words of a prompt
    key = value.loc["unet.mid.attn.0.cross.key"]
    assert len(key) == 3 and len(key.drop_duplicates()) == 1


def test_steps_and_ranks(table):
    ranked = fit.sites(table)
    by_site = ranked.set_index("site")
    assert by_site.loc["unet.mid", ["decoding_step", "timestep"]].tolist() == [1, 500]
    assert np.isnan(by_site.loc["unet.conv_in", "decoding_step"]) and by_site.loc["unet.conv_in", "reason"]
    assert (by_site.loc["text.final", "reason"] == "").all()  # read once
    assert set(ranked["site"][:3]) == {"unet.mid", "text.final", "unet.mid.attn.0.cross.key"}
    assert ranked["score"].is_monotonic_decreasing and len(ranked) == 5
    mid = table[(table["site"] == "unet.mid") & (table["score"] == "auc")]
    best = mid.loc[mid["value"].idxmax(), ["value", "low", "high"]] - 0.5
    assert by_site.loc["unet.mid", ["score", "low", "high"]].tolist() == best.tolist()


def test_a_place_without_rows_says_so(made_up):
    found, outcome = made_up
    values = {("unet.mid", ""): np.full_like(found.values[("unet.mid", "")], np.nan)}
    activations = places.Activations(found.samples, values, found.timesteps)
    rows = fit.decoding(activations, places.roles(config()), outcome)
    assert rows["value"].isna().all() and (rows["reason"] == fit.FEW).all() and (rows["n_prompts"] == 0).all()


def test_figures_show_what_the_tables_hold(table):
    reader = table[(table["site"] == "unet.mid") & (table["score"] == "auc")].assign(site=fit.READER)
    both, ranked = pd.concat([table, reader], ignore_index=True), fit.sites(table)
    drawn = draw_scores(both, ranked, "woman or man")
    assert NOT_USED in drawn.caption and "noised renderings" in drawn.caption
    heat = drawn.figure.axes[0]
    shown = np.asarray(heat.collections[0].get_array()).reshape(-1, 3)
    names = [label.get_text() for label in heat.get_yticklabels()]
    np.testing.assert_allclose(shown[1], reader["value"])
    np.testing.assert_allclose(shown[names.index("anybody")], reader["value"])
    assert draw_scores(table[table["step"] < 0], ranked, "") is None


def test_what_is_drawn():
    asked = generate.configuration(config(sampler={"steps": 7}), [], ["unet.mid"], None)
    assert list(asked["indicators"]) == ["neutral", "masculine", "feminine", "lady", "gentleman"]
    assert asked["sampler"]["steps"] == 7 and asked["seeds"] == [0, 1]
    again = Config(**asked)
    assert again.capture.pool == ["unet.mid"] and places.roles(again).synonyms == {
        "lady": 0.0,
        "gentleman": 1.0,
    }
    plain = generate.configuration(Config(prompts=PROMPTS), [3], ["unet.mid"], 4)
    assert plain["indicators"]["lady"] == {"word": "lady", "control": "feminine"}
    assert (plain["seeds"], plain["limit"]) == ([3], 4)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A folder that the command has written, of a tiny model with random weights."""
    folder = tmp_path_factory.mktemp("decode")
    tiny_pipeline("toy").save_pretrained(folder / "model")
    settings = {
        "name": "small",
        "model": str(folder / "model"),
        "prompts": PROMPTS[:4],
        "seeds": [0, 1],
        "sampler": {"steps": 2},
        "generate": {"workers": 1, "device": "cpu"},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(settings))
    assert decode(folder) == 0
    return folder


def decode(folder, *more):
    sites = ["--sites", "text.final", "unet.mid"]
    options = ["--quiet", "--resamples", "50", "--folds", "2", "--out", str(folder / "out")]
    return command_of("decode")([str(folder / "small.yaml"), *options, *sites, *more])


def test_the_command_writes_tables_and_a_figure_and_goes_on(drawn, capsys):
    out = drawn / "out"
    table = pd.read_csv(out / "decoding.csv", keep_default_na=False)
    assert set(table["site"]) == {"text.final", "unet.mid"}
    assert set(table["version"]) == {"decoding/3"} and set(table["n_prompts"]) == {4}
    for name in ("decoding_sites.csv", "decoding-steps.png", "decoding-steps.pdf"):
        assert (out / name).stat().st_size
    before = {file: file.stat().st_mtime_ns for file in (out / "run").rglob("*.parquet")}
    first = (out / "decoding.csv").read_bytes()
    (out / "decoding.csv").unlink()
    assert decode(drawn) == 0
    assert (out / "decoding.csv").read_bytes() == first
    assert {file: file.stat().st_mtime_ns for file in (out / "run").rglob("*.parquet")} == before
    said = capsys.readouterr().out
    assert NOT_USED in said and "sites of the denoiser tell feminine from masculine" in said


def test_activations_are_read_as_they_were_stored(drawn):
    run = Run.open(drawn / "out" / "run")
    found = places.read(run)
    assert len(found.samples) == 4 * 2 * 5
    rows = [row for part in run.part_tables("pooled") for row in part.to_pylist()]
    number = {sample: index for index, sample in enumerate(found.samples["sample_id"])}
    assert len(rows) == len(found.samples) * len(found.values)
    for row in rows[::11]:
        values = found.values[(row["site"], row["group"] or "")][number[row["sample_id"]]]
        assert np.array_equal(values.ravel(), np.float32(row["values"]))
        assert len(found.timesteps[(row["site"], row["group"] or "")]) == len(row["call"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompts": PROMPTS[:3]}, "small: expected at least 4 prompts, got 3: add some"),
        ({"seeds": []}, "small.yaml: seeds"),
        ({"indicators": {"neutral": "person", "other": "human"}}, "small: expected a contrast of two words"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(drawn, tmp_path, capsys, change, message):
    settings = {**yaml.safe_load((drawn / "small.yaml").read_text()), **change, "sampler": {"steps": 1}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(settings))
    assert decode(tmp_path, "--limit", "4") == 2 and not (tmp_path / "out").exists()
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_the_reference_reader_reads_what_noise_leaves():
    """At the last timestep toyworld's latents are noise alone; without noise the component is plain to see."""
    pipe = load(resolve("toyworld"), steps=3).pipe
    prompts = [prompt.format(person="person") for prompt in PROMPTS] + [
        "a person in the park",
        "a person in the snow",
    ]
    table = fit.reader(pipe, prompts, [999.0, 700.0], Choice(resamples=100))
    table = table[table["score"] == "auc"].set_index("step")
    assert table.loc[0, "low"] < 0.5 < table.loc[0, "high"]
    assert table.loc[-1, "low"] > 0.8 and table.loc[-1, "value"] > table.loc[1, "value"] > 0.7
    assert list(table["n"]) == [7 * 2 * 15] * 3
