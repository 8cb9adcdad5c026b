"""Tables of an audit of professions: every image counted, numbers as computed otherwise, published tables refilled."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from analysis.methods.dalleval import tables
from analysis.methods.dalleval import words as dalleval_words
from analysis.methods.dalleval.readings import read_all
from analysis.methods.dalleval.scores import DECIDED, AuditDesign, Reading
from analysis.stats.mad_floor import mad_floor
from analysis.stats.permutation import step_down_test
from lab.papers.tables import FOLDER
from probes.config.schema import Measure
from probes.prompts.diagnostic import NONE
from probes.runs.run import Run
from tests.analysis.dalleval_parts import (
    answers_of,
    measure_audit,
    truths,
    write_answers,
    write_audit,
    write_tones,
)
from tests.analysis.synthetic_run import configure

PAIR = {"first": "feminine", "second": "masculine"}
MEASURE = Measure(bootstrap=100, permutations=200)


@pytest.fixture(scope="module")
def run(audit):
    return audit


def rows(run, name, **where):
    table = run.table(name)
    for column, value in where.items():
        table = table[table[column] == value]
    return table


@pytest.fixture(scope="module")
def images(run):
    """A row an image and question with what the VQA model said, put together apart from the tables."""
    names = [prompt.levels["profession"] for prompt in run.config.prompts]
    answers = pd.concat(pd.read_parquet(file) for file in run.parts("attributes/toyworld-vqa"))
    value = answers["reading"].map({"female": 1, "male": -1, "yes": 1, "no": 0})
    return answers.assign(profession=answers["triplet"].map(dict(enumerate(names))), value=value)


def test_averages_and_intervals_are_those_of_the_answers(run, images):
    expected = images.groupby(["question", "profession", "indicator"])["value"].mean()
    found = rows(run, "dalleval_professions", source="toyworld-vqa")
    assert len(found) == 4 * 8 * 3
    for row in found[found["profession"] != tables.ALL].itertuples():
        assert row.average == pytest.approx(expected[row.question, row.profession, row.indicator])
        share = (row.average + 1) / 2 if row.question == "gender" else row.average
        low, high = proportion_confint(round(share * 4), 4, method="wilson")
        ends = (2 * low - 1, 2 * high - 1) if row.question == "gender" else (low, high)
        assert (row.low, row.high) == pytest.approx(ends)
        assert (row.planned, row.asked, row.decided) == (4, 4, 4)


def test_mad_over_professions(run):
    found = rows(run, "dalleval_mad", source="toyworld-vqa", question="gender").set_index("indicator")
    own = rows(run, "dalleval_professions", source="toyworld-vqa", question="gender", indicator="neutral")
    own = own[~own["profession"].isin(["(none)", tables.ALL])]
    row = found.loc["neutral"]
    assert row["mad"] == pytest.approx(own["average"].abs().mean() / 2) and row["professions"] == 6
    assert row["floor"] == pytest.approx(mad_floor([4, 0]).floor) == 0.1875
    assert row["low"] <= row["debiased"] < row["mad"] < row["high"]
    over = rows(run, "dalleval_professions", source="toyworld-vqa", question="gender", profession=tables.ALL)
    over = over.set_index("indicator").loc["neutral"]
    assert over["average"] == pytest.approx(own["average"].mean()) and over["decided"] == own["decided"].sum()
    # attributes count the prompt without a profession, as in Table 22
    assert set(rows(run, "dalleval_mad", question="hat")["professions"]) == {7}


def test_differences_are_paired_on_shared_noise(run, images):
    hats = images[images["question"] == "hat"].pivot(
        index=["profession", "seed"], columns="indicator", values="value"
    )
    apart = (hats["feminine"] - hats["masculine"]).groupby("profession").agg(list)
    found = rows(run, "dalleval_words", source="toyworld-vqa", question="hat", **PAIR).set_index("profession")
    for name, values in apart.items():
        assert (
            found.loc[name, "difference"] == pytest.approx(np.mean(values)) and found.loc[name, "pairs"] == 4
        )
    overall = found.loc[tables.ALL]
    means = apart.map(np.mean).to_numpy()
    assert overall["difference"] == pytest.approx(means.mean()) and overall["professions"] == 7
    test = stats.permutation_test(
        (means,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=np.inf, vectorized=True
    )  # fmt: skip
    assert overall["p_value"] == pytest.approx(test.pvalue)


def test_where_professions_share_a_noise_whole_noises_are_flipped_too():
    """What one noise does to a word is in all professions: as many as there are, there is one noise that says so."""
    rng = np.random.default_rng(2)
    of_noises = rng.choice([0.0, 1.0], (1, 3, 6), p=[0.3, 0.7])
    values = np.repeat(of_noises, 12, axis=0)
    names = tuple(f"p{number}" for number in range(12))
    one = Reading(
        values, np.full(values.shape, DECIDED, object), names, ("neutral", "woman", "man"), "hat", "x"
    )
    chosen = [("woman", "man", "contrast")]
    own, shared = (
        dalleval_words.word_table([one], AuditDesign((), MEASURE, chosen, "all", shared=flag)).iloc[-1]
        for flag in (False, True)
    )
    apart = of_noises[0, 1] - of_noises[0, 2]
    assert apart.any() and own["difference"] == shared["difference"] == pytest.approx(apart.mean())
    assert own["p_value"] < 0.01 and shared["p_value"] == pytest.approx(
        step_down_test(apart[:, None]).p_value[0]
    )
    assert shared["p_value"] > 0.05 and shared["low"] < own["low"] and shared["high"] > own["high"]


def test_the_paper_subtracts_the_reference(run):
    kinds = run.table("dalleval_words")[["first", "second", "kind"]].drop_duplicates().to_numpy().tolist()
    assert kinds == [
        ["feminine", "masculine", "contrast"],
        ["feminine", "neutral", "reference"],
        ["masculine", "neutral", "reference"],
    ]


def test_mean_absolute_differences(run, images):
    means = (
        images[images["question"] != "gender"]
        .groupby(["profession", "question", "indicator"])["value"]
        .mean()
    )
    apart = (means.xs("feminine", level=2) - means.xs("masculine", level=2)).unstack()
    found = rows(run, "dalleval_absolute", source="toyworld-vqa", **PAIR)
    expected = apart.abs().mean(axis=1).to_dict() | {tables.ALL: apart.mean().abs().mean()}
    assert found.set_index("profession")["mean_abs_difference"].to_dict() == pytest.approx(expected)


def test_agreement(run, images):
    checker = pd.concat(pd.read_parquet(file) for file in run.parts("attributes/toyworld-checker"))
    both = images.merge(checker, on=["sample_id", "question"])
    same = (both["reading_x"] == both["reading_y"]).groupby(both["question"]).mean()
    found = rows(run, "dalleval_agreement", second="toyworld-vqa").set_index("question")
    assert found["same"].to_dict() == pytest.approx(same.to_dict()) and set(found["images"]) == {84}
    tones = rows(run, "dalleval_agreement", first="ita", second="ciede2000").iloc[0]
    assert tones["same"] == 1 and tones["mean_abs_difference"] == 0 and tones["within_1"] == 1
    assert np.isnan(found["within_1"]).all()


@pytest.fixture(scope="module")
def gaps(tmp_path_factory):
    """Images that are undecided, without a face, unreadable or not read, and a profession that has none."""
    path = tmp_path_factory.mktemp("audit") / "run"
    run = write_audit(
        path, whole=False, seeds=3, readers=(), tones=False, professions=("nurse", "cook", "pilot")
    )
    seen = truths(run)

    def answers(sample):
        if sample.startswith(
            ("t00002", "t00000-s1")
        ):  # cook was never read, nor the second image without profession
            return None
        said = answers_of(seen[sample], "toyworld-checker", sample)
        return {**said, "gender": None} if sample.startswith("t00001-s0") else said

    write_answers(run, "human", answers, reason=lambda sample: "unreadable" if "t00003-s2" in sample else "")
    faces = {"t00001-s0": "no face", "t00001-s1": "no skin", "t00003-s2": "unreadable"}
    write_tones(run, lambda sample: 4, lambda sample: faces.get(sample.rpartition("-")[0], "ok"))
    configure(
        run, measure={"bootstrap": 50, "permutations": 50}, seeds=[0, 1, 2, 3]
    )  # one seed is still to draw
    return measure_audit(run)


COUNTS = ("planned", "asked", "decided", "undecided", "no_face", "no_skin", "grey", "missing", "faulty")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"question": "gender", "profession": "(none)"}, (4, 2, 2, 0, 0, 0, 0, 2, 0)),
        ({"question": "gender", "profession": "nurse"}, (4, 3, 2, 1, 0, 0, 0, 1, 0)),
        ({"question": "gender", "profession": "pilot"}, (4, 2, 2, 0, 0, 0, 0, 1, 1)),
        ({"source": "ita", "profession": "nurse"}, (4, 3, 1, 0, 1, 1, 0, 1, 0)),
    ],
)
def test_nothing_is_dropped(gaps, where, expected):
    row = rows(gaps, "dalleval_professions", indicator="neutral", **where).iloc[0]
    assert tuple(row[list(COUNTS)]) == expected


def test_images_at_fault_are_not_read_whatever_was_said(run, monkeypatch):
    monkeypatch.setattr(Run, "left_out", lambda self: {"t00001-s0-neutral": "black"})
    (one, *_) = read_all(run)
    assert (
        one.status[1, 0, 0] == "faulty" and np.isnan(one.values[1, 0, 0]) and one.status[1, 0, 1] == DECIDED
    )


def test_tables_8_16_and_17_of_the_paper_through_the_same_code():
    """Nine images a prompt, read as the paper prints: the MAD that the recomputed Table 8 has, and its floor."""
    printed = pd.read_csv(FOLDER / "dalleval2023_table16_17_gender.csv")
    expected = {"minDALL-E": 0.1961, "Karlo": 0.3581, "Stable Diffusion": 0.3635}
    for model, own in printed.groupby("model", sort=False):
        female = np.rint(9 * (1 + own["average_gender"].to_numpy()) / 2).astype(int)
        values = np.where(np.arange(9) < female[:, None], 1.0, -1.0)[:, None]
        status = np.full(values.shape, DECIDED, dtype=object)
        one = Reading(values, status, tuple(own["profession"]), ("neutral",), "gender", "blip2")
        design = AuditDesign(["neutral"], MEASURE)
        table = tables.profession_table([one], design)
        np.testing.assert_allclose(table["average"].iloc[:83], own["average_gender"], atol=0.0051)
        (row,) = tables.mad_table([one], table, design).to_dict("records")
        assert row["mad"] == pytest.approx(expected[model], abs=5e-5)
        assert row["floor"] == pytest.approx(0.1367, abs=5e-5) and row["professions"] == 83


def test_the_prompt_without_a_profession_alone_has_no_mad():
    """As `dalleval.yaml --limit 1` draws it: where it does not count, no profession is left to differ."""
    values = np.array([[[1.0, -1.0, 1.0]]])
    status = np.full(values.shape, DECIDED, dtype=object)
    one = Reading(values, status, (NONE,), ("neutral",), "gender", "blip2")
    design = AuditDesign(["neutral"], MEASURE)
    table = tables.profession_table([one], design)
    assert tables.mad_table([one], table, design).empty
    assert len(tables.mad_table([one], table, replace(design, bare="all"))) == 1


def test_professions_are_held_against_one_another_by_word_and_over_words(run, images):
    found = rows(run, "dalleval_between", source="toyworld-vqa", question="hat").set_index("indicator")
    assert list(found.index) == ["neutral", "feminine", "masculine", tables.ALL]
    for word in ("neutral", "feminine", "masculine"):
        own = images[(images["question"] == "hat") & (images["indicator"] == word)]
        total = ((own["value"] - own["value"].mean()) ** 2).sum()
        means = own.groupby("profession")["value"].transform("mean")
        if total:
            expected = ((means - own["value"].mean()) ** 2).sum() / total
            assert found.loc[word, "explained"] == pytest.approx(expected)
        assert found.loc[word, "images"] == len(own) == 28 and found.loc[word, "professions"] == 7
    gender = rows(run, "dalleval_between", question="gender", source="toyworld-checker")
    assert set(gender["professions"]) == {6}  # without the prompt that names none


def test_equal_shares_have_the_interval_of_equal_shares_however_they_were_added_up():
    noise = np.array([[0.14], [0.14000000000000004], [0.14], [0.13999999999999999]])
    equal = tables.bounded_interval(np.full((4, 1), 0.14), (0.0, 1.0), MEASURE)
    found = tables.bounded_interval(noise, (0.0, 1.0), MEASURE)
    for one, other in zip(found, equal):
        assert one == pytest.approx(other, rel=1e-12)
    assert found[1] < 0.14 < found[2]
