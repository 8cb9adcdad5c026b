"""An audit's tables from a made-up run with planted attributes: against pandas, and by what was planted."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import spatial

from analysis.methods.gep import clip, leaderboard, readings
from analysis.methods.gep.method import METHOD
from analysis.methods.gep.stage import AuditReadings, read_sources
from analysis.observe.features import attribute_audit as audit
from analysis.report.section import figures, measured, page_section, sentences
from analysis.tables.registry import write_method
from probes.errors import UserError
from probes.runs import parts, schemas
from probes.runs.run import Run
from tests.analysis.synthetic_run import configure, write_run
from tests.analysis.tables.columns_held import outside
from triptych.cli.main import command as command_of

CONTEXTS = ("riding a bike", "sitting at a table", "on the beach", "in the park", "in the snow", "at work")
PLANTED = {"feminine": (0.1, 0.8), "masculine": (0.8, 0.1)}  # of tie and dress; the others 0.5
PHRASES = {"tie": "with a tie", "dress": "in a dress"}


def prompts():
    neutral = [{"setting": "neutral", "context": context} for context in CONTEXTS]
    explicit = [
        {"setting": "explicit", "attribute": name, "context": context}
        for name in PHRASES
        for context in CONTEXTS
    ]
    return [
        {
            "id": f"p{i}",
            "text": f"a {{person}} {PHRASES.get(levels.get('attribute'), '')} {i}",
            "levels": levels,
        }
        for i, levels in enumerate(neutral + explicit)
    ]


def vector(things, rng=None):
    """An embedding with a direction for each attribute."""
    base = np.array([1.0, 2.0 * ("tie" in things), 2.0 * ("dress" in things), *np.zeros(5)])
    return (base + (rng.normal(size=8) / 4 if rng is not None else 0)).astype(np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The run, and what is in its images."""
    path = tmp_path_factory.mktemp("audit") / "run"
    run = Run.open(write_run(path, prompts=18, steps=2))
    configure(
        run,
        prompts=prompts(),
        measure={"bootstrap": 100, "permutations": 200},
        gep={
            "labelled": 8,
            "variants": {"alone": {"ensemble": 1}, "thing": {"reference": "a thing"}},
        },
    )
    run = Run.open(path)
    rng = np.random.default_rng(0)
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    planted = np.array([PLANTED.get(word, (0.5, 0.5)) for word in samples["indicator"]])
    seen = pd.DataFrame(
        rng.random(planted.shape) < planted, index=samples["sample_id"], columns=list(PHRASES)
    )
    for number, file in enumerate(run.parts("samples")):
        rows = parts.read_part(file, ["sample_id", "triplet", "seed", "indicator"]).to_pylist()
        for row in rows:
            things = [name for name in PHRASES if seen.loc[row["sample_id"], name]]
            row |= {"vector": vector(things, rng), "reason": ""}
        parts.write_part(
            run.part_path("features/clip", number), rows, schemas.FEATURES, parts.identity(number, {})
        )
    rows = [{"text": text, "vector": vector(text).tolist()} for text in audit.texts(run.config)]
    texts = parts.pa.schema([("text", parts.pa.string()), ("vector", parts.pa.list_(parts.pa.float32()))])
    parts.write_part(run.part_path("features/clip_texts", 0), rows, texts, parts.identity(0, {}))
    write_method(run, METHOD, AuditReadings(run, read_sources(run, seen)))
    return run, seen


def long(run, seen):
    """What is in the images with the levels of their prompts, by pandas alone."""
    levels = pd.DataFrame([prompt["levels"] for prompt in prompts()]).rename(columns={"attribute": "named"})
    table = run.samples(["sample_id", "triplet", "seed", "indicator"]).join(levels, on="triplet")
    table = table.merge(seen.rename_axis("sample_id").reset_index().melt("sample_id", var_name="attribute"))
    return table[(table["setting"] == "neutral") | (table["attribute"] == table["named"])]


def test_frequencies_are_the_means_of_what_is_there(made):
    run, seen = made
    table = run.table("gep_frequencies")
    own = table[table["source"] == "checker"].set_index(["setting", "indicator", "attribute"])
    groups = long(run, seen).groupby(["setting", "indicator", "attribute"])["value"]
    expected = groups.agg(["mean", "size"]).loc[own.index]
    np.testing.assert_allclose(own["frequency"], expected["mean"].astype(float), atol=1e-12)
    assert own["n_images"].tolist() == expected["size"].tolist()
    assert set(table["source"]) == {"checker", "C", "CC", "CLS", "CC thing", "CLS alone", "PP"}


def test_scores_are_mean_absolute_differences_and_lean_as_planted(made):
    run, seen = made
    means = (
        long(run, seen)
        .groupby(["setting", "context", "attribute", "indicator"])["value"]
        .mean()
        .astype(float)
    )
    difference = means.unstack().eval("feminine - masculine").groupby(["setting", "attribute"]).mean()
    vector = run.table("gep_vector")
    own = vector[
        (vector["source"] == "checker") & (vector["first"] == "feminine") & (vector["second"] == "masculine")
    ]
    own = own.set_index(["setting", "attribute"])
    np.testing.assert_allclose(own["difference"], difference[own.index], atol=1e-12)
    assert (own.loc["neutral", "difference"]["dress"] > 0) and (own.loc["neutral", "difference"]["tie"] < 0)
    for row in own.itertuples():
        assert row.reason or row.low <= row.difference <= row.high
    score = run.table("gep_score")
    rows = score[score["source"] == "checker"].set_index(["setting", "first", "second"])
    for setting in ("neutral", "explicit"):
        row = rows.loc[(setting, "feminine", "masculine")]
        assert row["score"] == pytest.approx(difference[setting].abs().mean(), abs=1e-12)
        assert row["kind"] == "contrast"
        assert row["low"] <= row["debiased"] <= row["score"] <= row["high"]
    controls = set(zip(*(score.loc[score["kind"] == "control", name] for name in ("first", "second"))))
    assert controls == {("neutral", "individual"), ("neutral", "human"), ("individual", "human")}
    contexts = run.table("gep_contexts")
    one = contexts[(contexts["source"] == "checker") & (contexts["kind"] == "contrast")]
    expected = means.unstack().eval("feminine - masculine").abs().groupby(["setting", "context"]).mean()
    np.testing.assert_allclose(
        one.set_index(["setting", "context"])["score"],
        expected[list(zip(one["setting"], one["context"]))],
        atol=1e-12,
    )


def test_a_few_labels_and_an_estimate_give_differences_on_the_scale_of_labels(made):
    run, _ = made
    table = run.table("gep_powered")
    own = table[(table["kind"] == "contrast") & (table["setting"] == "neutral")].set_index("attribute")
    assert list(own.index) == ["tie", "dress", ""] and set(table["labels"]) == {"checker"}
    assert (own["labelled_first"] == [8, 8, 16]).all() and (own["images_first"] == [12, 12, 24]).all()
    vector = run.table("gep_vector").query("kind == 'contrast' and setting == 'neutral'")
    wide = vector.pivot(index="attribute", columns="source", values="difference")
    np.testing.assert_allclose(wide["PP"][["tie", "dress"]], own["value"][["tie", "dress"]], atol=1e-12)
    assert (np.abs(wide["PP"] - wide["checker"]) < 0.25).all()  # the classifier sees the attributes
    assert (own["low"] <= own["value"]).all() and (own["value"] <= own["high"]).all()
    agreement = run.table("gep_agreement")
    assert "PP" in set(agreement["source"]) and "PP" not in set(run.table("gep_auc")["source"])


def test_every_estimate_lies_in_its_interval(made):
    wrong, seen = outside(made[0])
    assert wrong == [] and len(seen) > 4, seen


def test_images_are_held_against_their_prompts(made):
    run, _ = made
    table = run.table("gep_clip_score").set_index(["setting", "indicator"])
    texts, vectors = (
        pd.concat([part.to_pandas() for part in run.part_tables(f"features/{kind}")])
        for kind in ("clip_texts", "clip")
    )
    stored = dict(zip(texts["text"], texts["vector"]))
    rows = run.samples(["sample_id", "triplet", "indicator"]).merge(vectors[["sample_id", "vector"]])
    rows["setting"] = [prompts()[triplet]["levels"]["setting"] for triplet in rows["triplet"]]
    fit = []
    for row in rows.itertuples():
        word = run.config.indicators[row.indicator].word
        text = prompts()[row.triplet]["text"].replace("{person}", word)
        other = stored[text.replace("a individual", "an individual")]
        fit.append(100 * (1 - spatial.distance.cosine(row.vector.astype(float), other)))
    expected = rows.assign(fit=fit).groupby(["setting", "indicator"])["fit"].mean()
    np.testing.assert_allclose(table["clip_score"], expected[table.index], atol=1e-4)
    assert (table["low"] <= table["clip_score"]).all() and (table["n_contexts"] == 6).all()


def test_the_interval_of_a_clip_score_is_of_the_mean_over_images(made, monkeypatch):
    """Also where contexts have images of different number."""
    run, _ = made
    images, samples, means = clip._images(run), run.samples(["sample_id", "seed", "triplet"]), []
    few = samples[(samples["seed"] > 0) & (samples["triplet"] != samples["triplet"].iloc[0])]["sample_id"]
    monkeypatch.setattr(clip, "_images", lambda run: images[~images["sample_id"].isin(few)])
    real = clip.bootstrap_interval
    monkeypatch.setattr(
        clip, "bootstrap_interval", lambda rows, **options: means.append(rows.mean()) or real(rows, **options)
    )
    table = clip.clip_score(run)
    assert table["n_images"].max() > table["n_contexts"].max()
    np.testing.assert_allclose(means, table["clip_score"])


def test_estimates_follow_the_known_differences_of_artificial_sets(made):
    table = made[0].table("gep_artificial_agreement").set_index(["source", "measure"])
    assert set(table.index.get_level_values("source")) == {"C", "CC", "CLS", "CC thing", "CLS alone"}
    assert {"tau", "mcc", "pearson"} <= set(table.loc["CLS"].index)
    assert table.loc[("CLS", "tau"), "value"] > 0.7
    assert (table["low"] <= table["value"]).all() and (table["value"] <= table["high"]).all()
    assert (table["n_attributes"] == 2).all() and set(table["n_examples"]) == {80}


def test_the_section_of_the_report_says_more_than_chance_where_it_is(made):
    run, _ = made
    shown = measured(METHOD, {run.config.model_name: run})
    assert shown.words["source"] == "checker"
    spec = next(spec for spec in METHOD.tables if spec.name == "gep_score")
    said = shown.rows("gep_score", "source == 'checker' and kind == 'contrast'")
    told = sentences(shown, spec)
    for answer, size, row in zip(told[::2], told[1::2], said.to_dict("records"), strict=True):
        more = "more" if row["p_adjusted"] < 0.05 and row["score"] > row["floor"] else "not more"
        assert f" prompts, {more} than the {row['floor']:.3f} that chance alone gives" in answer
        assert f"Less what errors add it is {row['debiased']:.3f} [" in size
    drawn = figures(shown)
    assert set(drawn) == {"gep-vector", "gep-score", "gep-agreement"}
    assert "with intervals over contexts." in drawn["gep-vector"].caption
    section = page_section(shown, drawn)
    assert section["lead"].answer == shown.lead.answer
    assert "Read by: the toyworld checker, " in section["shown"]["intro"][0]
    tables = {table["title"]: table for block in section["shown"]["blocks"] for table in block["tables"]}
    heads, rows = (tables["Scores in numbers"][name] for name in ("heads", "rows"))
    cells = dict(
        zip(heads, dict(rows)[f"{run.config.model_name}, neutral, feminine − masculine, by checker"])
    )
    assert f'<data value="{said["score"].iloc[0]}">' in cells["score"] and "[<data" in cells["without error"]
    assert len(dict(rows)) == len(rows)


def test_the_first_screen_shows_triplets_of_three_attributes_with_their_differences(made):
    run, _ = made
    shown = measured(METHOD, {run.config.model_name: run})
    first = shown.lead
    assert len(first.answer.split()) <= 30 and "feminine less masculine" in first.heading
    own = shown.rows("gep_vector", "source == 'checker' and first == 'feminine' and kind == 'contrast'")
    own = own[own["setting"] == "neutral"].set_index("attribute")["difference"]
    values = [one.value for one in first.examples]
    assert len(values) == min(3, len(own)) and values == sorted(values)
    assert values[0] == own.min() and values[-1] == own.max()
    for one in first.examples:
        assert [picture.label for picture in one.pictures] == ["masculine", "neutral", "feminine"]
        assert "yes" in [picture.reading for picture in one.pictures]


def test_sentences_that_were_not_embedded_are_named(made, tmp_path):
    run, _ = made
    other = run.meta["config"]["resolved"] | {"gep": {"reference": "a place"}}
    again = Run(run.path, run.meta | {"config": run.meta["config"] | {"resolved": other}})
    with pytest.raises(UserError, match="found none of 'a place': run --stage observe again"):
        clip.clip_readings(again)


def written(tmp_path, rows):
    path = tmp_path / "labels.csv"
    lines = ["about,image,question,annotator,label", *(f"attributes,{row}" for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_labels_of_people_are_a_source_and_a_majority_decides(made, tmp_path, capsys):
    run, seen = made
    rows = [
        f"{sample},{name},{annotator},{'yes' if value != (annotator == 'c' and number % 7 == 0) else 'no'}"
        for annotator in "abc"
        for number, (sample, row) in enumerate(seen.iterrows())
        for name, value in row.items()
    ]
    assert command_of("labels")(["read", str(run.path), str(written(tmp_path, rows))]) == 0
    said = capsys.readouterr().out
    assert "by 3 annotators, Krippendorff's alpha 0." in said
    apart = readings.joined(
        pd.DataFrame({"sample_id": ["x", "y"], "attribute": "tie", "annotator": ["a", "b"], "value": 1.0})
    )
    assert np.isnan(apart[1]) and apart[2] == "nothing has two answers"
    again = Run.open(run.path)
    frequencies = again.table("gep_frequencies").set_index(["source", "setting", "indicator", "attribute"])[
        "frequency"
    ]
    expected = long(run, seen).groupby(["setting", "indicator", "attribute"])["value"].mean().astype(float)
    np.testing.assert_allclose(frequencies["human"], expected[frequencies["human"].index], atol=1e-12)
    other = shutil.copytree(run.path, tmp_path / "other")
    out = tmp_path / "beside"
    assert (
        command_of("audit gep")(
            ["compare", str(run.path), str(other), "--source", "human", "--out", str(out)]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert said.count(" human ") == 4 + 4 + 2  # two runs, two settings: scores, ranks, differences
    board, between = (pd.read_csv(out / f"{name}.csv") for name in ("leaderboard", "differences"))
    assert (board["best_rank"] == 1).all() and (board["worst_rank"] == 2).all()
    assert len(board) == 4 and set(board["n_contexts"]) == {len(CONTEXTS)}
    scores = again.table("gep_score").query("source == 'human' and kind == 'contrast'").set_index("setting")
    np.testing.assert_allclose(board["raw"], scores["score"][board["setting"]], atol=1e-12)
    assert (between["difference"] == 0).all() and (between["low_all"] <= 0).all()
    there = {file.name for file in out.iterdir()}
    assert {"scores.csv", "feminine-masculine-gep-score.png", "gep_table13_vectors.tex"} <= there


def test_models_that_were_audited_otherwise_are_not_compared(made):
    run, _ = made
    with pytest.raises(UserError, match=r"expected the attributes of .* got others \(dress in one alone\)"):
        one = leaderboard.source_audits(run, "CLS")["neutral"]
        less = replace(one, values=one.values[..., :1], attributes=("tie",))
        leaderboard._same(run, run, one, less, "neutral")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("t00000-s0-neutral,hat,a,yes", "line 2: expected one of tie, dress, got 'hat'"),
        ("t00000-s0-neutral,tie,a,perhaps", "line 2: expected yes or no, got 'perhaps'"),
    ],
)
def test_labels_that_do_not_fit_end_in_one_line(made, tmp_path, row, message, capsys):
    run, _ = made
    path = written(tmp_path, [row])
    assert command_of("labels")(["read", str(run.path), str(path)]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_detections_count_where_an_attribute_was_looked_for(made, monkeypatch):
    run, _ = made
    first, second = run.samples(["sample_id"])["sample_id"].iloc[:2]
    observed = pd.DataFrame(
        {"sample_id": [first, second], "status": "ok", "tags": [["ties", "dress"], ["tie"]]}
    )
    found = pd.DataFrame({"sample_id": [first], "label": ["dress"]})
    tables = {"observed": observed, "objects": found}
    monkeypatch.setattr(Run, "read", lambda self, kind, columns=None: tables[kind])
    said = readings.from_detections(run).set_index(["sample_id", "attribute"])["value"].to_dict()
    assert said == {(first, "tie"): 0.0, (first, "dress"): 1.0, (second, "tie"): 0.0}
