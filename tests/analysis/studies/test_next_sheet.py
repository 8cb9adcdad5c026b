"""The next sheet of a human check: what it asks, that nothing is biased by it, and the command line as typed."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

from analysis.stats.rates import detection_rates
from analysis.studies.human_check.check import (
    annotator_agreement,
    choose_questions,
    human_counts,
    labelled_items,
    questions_of,
    whole_draws,
)
from analysis.studies.human_check.information import ExpectedSquares, expected_squares
from analysis.studies.human_check.labels import read_labels
from analysis.studies.human_check.next_sheet import LEAST, chances_of, choose_among, draw_next, unfinished
from analysis.studies.human_check.nouns import noun_agreement
from analysis.studies.human_check.planned import SheetPlan, sheet_plan, widths
from lab.validate.human_checks.simulation import answers
from lab.validate.human_checks.worlds import CONTRASTS, SIDES, CheckWorld, draw_run
from probes.runs.store import Run
from tests.analysis.stats.test_unequal_probabilities import every_sample
from triptych.cli.main import command, main

check = command("human-check")


# No bias


class Fixed:
    """A generator that leaves every order, and starts where it is told."""

    def __init__(self, start):
        self.start = start

    def random(self):
        return self.start

    def permutation(self, number):
        return np.arange(number)


def test_over_every_first_and_every_second_sheet_the_estimate_is_the_truth():
    """Five triplets of three questions; a sheet of two, then one of one, asked by what the first showed."""
    rng = np.random.default_rng(5)
    wrong = (rng.random((5, 3)) < 0.4).astype(float)
    every = pd.DataFrame([(t, 0, f"o{q}") for t in range(5) for q in range(3)])
    every.columns = ["triplet", "seed", "object"]
    places = {(t, s, o): row for row, (t, s, o) in enumerate(every.itertuples(index=False))}
    mean, probability, seen = 0.0, 0.0, set()
    for first in combinations(range(5), 2):
        learned = 0.05 + wrong[list(first)].mean(axis=0) ** 2  # what the first labels suggest of each object
        squares = np.tile(learned, 5)[:, None]
        expected = ExpectedSquares((("recall", "all"),), squares, places, squares)
        for third in set(range(5)) - set(first):
            asked = every[every["triplet"] == third].reset_index(drop=True)
            chances = chances_of(asked, expected)
            for weight, start, chosen in every_sample(chances):
                own = wrong[third, chosen] / chances[chosen]
                total = 5 / 3 * (wrong[list(first)].sum() + own.sum())
                mean += weight * total / 10 / 3
                probability += weight / 10 / 3
                sheet = choose_among(asked, expected, Fixed(start))
                assert sheet["object"].tolist() == asked["object"][chosen].tolist()
                assert sheet["chance"].tolist() == chances[chosen].tolist()
            seen |= set(chances)
    assert probability == pytest.approx(1)
    assert mean == pytest.approx(wrong.sum(), abs=1e-9)
    assert len(seen) > 2  # the chances do follow from the labels


# What weights do


@pytest.fixture(scope="module")
def world():
    return draw_run(CheckWorld("errors", prompts=30, errs=0.2), np.random.default_rng(1))


@pytest.fixture(scope="module")
def labelled(world):
    """Labels of eight triplets of a run, and the items."""
    tables = world.samples, world.nouns, world.objects
    questions = choose_questions(*tables, indicators=SIDES, images=24, seed=2)
    labels = answers(world, questions, CheckWorld("all"), np.random.default_rng(0))
    return labels, labelled_items(labels, *tables)


def test_an_answer_with_weight_three_counts_as_three(world, labelled):
    labels, items = labelled
    weight = np.where(items["object"].str.endswith(("1", "4")), 3.0, 1.0)
    thrice = items.loc[items.index.repeat(weight.astype(int))]
    for table in (items, thrice):
        table.insert(0, "truth", table["present"] == "yes")
    keys = ["quantity", "object", "indicator"]
    options = {"indicators": SIDES, "contrasts": CONTRASTS, "resamples": 50}
    weighted = detection_rates(items.assign(weight=weight), **options).set_index(keys)
    repeated = detection_rates(thrice.assign(weight=1.0), **options).set_index(keys)
    numbers = ["value", "low", "high", "bootstrap_low", "bootstrap_high"]
    pd.testing.assert_frame_equal(weighted[numbers], repeated[numbers])
    assert weighted["n"].loc["recall", "all", "all"] == (items["present"] == "yes").sum()
    nouns = noun_agreement(labels.assign(weight=weight), world.samples, world.nouns, world.objects)
    copies = pd.concat([labels.assign(weight=1.0), *[labels[weight == 3].assign(weight=1.0)] * 2])
    nouns_repeated = noun_agreement(copies, world.samples, world.nouns, world.objects)
    assert np.allclose(nouns["percent_both"], nouns_repeated["percent_both"], equal_nan=True)
    assert nouns["nouns"].iloc[0] < nouns_repeated["nouns"].iloc[0]


def test_kappa_is_weighted(labelled):
    _, items = labelled
    rng = np.random.default_rng(4)
    two = items.assign(annotator="B", present=np.where(rng.random(len(items)) < 0.3, "no", items["present"]))
    weight = rng.choice([1.0, 2.0, 5.0], len(items))
    both = pd.concat([items.assign(weight=weight), two.assign(weight=weight)], ignore_index=True)
    table = annotator_agreement(both, indicators=SIDES, contrasts=[], resamples=20)
    found = table[(table["quantity"] == "kappa") & (table["indicator"] == "all")]["value"].iloc[0]
    assert found == pytest.approx(cohen_kappa_score(items["present"], two["present"], sample_weight=weight))
    assert found != pytest.approx(cohen_kappa_score(items["present"], two["present"]))


def test_counts_of_an_object_follow_the_weights():
    """A hat was detected in two triplets of two; of one the question had a chance of 1/3."""
    samples = pd.DataFrame({"triplet": [0, 1], "seed": 0, "indicator": "f", "sample_id": list("ab")})
    objects = pd.DataFrame({"triplet": [0, 1], "seed": 0, "object": 0, "lemma": "hat"})
    rows = [("A", "a", 0, "hat", "no", True, "found", 3.0), ("A", "b", 1, "hat", "yes", True, "found", 1.0)]
    names = ["annotator", "sample_id", "prompt", "object", "present", "detected", "asked", "weight"]
    items = pd.DataFrame(rows, columns=names).assign(seed=0, indicator="f")
    counts = human_counts(items, samples, pd.DataFrame({"triplet": [], "lemma": []}), objects)
    assert counts.set_index("prompt")["false"].tolist() == pytest.approx([1.5, 0])
    assert counts["hits"].tolist() == pytest.approx([0, 0.5])  # both together two labels, three to one


# What is asked


def test_what_the_detector_is_likely_to_be_wrong_about_is_asked_most(world, labelled):
    _, items = labelled
    tables, draws = (world.nouns, world.objects), whole_draws(world.samples, SIDES)
    options = {"indicators": SIDES, "contrasts": CONTRASTS, "extra": 8}
    expected = expected_squares(draws, *tables, items, **options)
    assert expected.figures == (("recall", "masculine-feminine"), ("precision", "masculine-feminine"))
    rng = np.random.default_rng(0)
    chosen = draw_next(draws, items, world.samples, 10, rng)
    questions = questions_of(chosen, *tables, SIDES, 8, rng)
    asked = choose_among(questions, expected, rng)
    assert len(asked) == pytest.approx(len(questions) / 2, abs=1) and asked["chance"].min() >= LEAST
    assert (asked.groupby(["triplet", "seed"]).size() > 0).sum() == 10
    found = world.objects[world.objects["indicator"].isin(["masculine", "feminine"])]
    sides = found.drop_duplicates(["triplet", "seed", "indicator", "lemma"])
    sides = sides.groupby(["triplet", "seed", "lemma"]).size().rename("sides").reset_index()
    beside = asked.merge(
        sides, how="left", left_on=["triplet", "seed", "object"], right_on=["triplet", "seed", "lemma"]
    )
    beside = beside.fillna({"sides": 0}).groupby("sides")["chance"].mean()
    assert beside[1] > 2 * beside[0] and beside[1] > beside[2]  # one image of two is where one may be wrong
    again = choose_among(questions, expected, np.random.default_rng(9), 0.9)
    assert len(again) > 1.5 * len(asked)


def test_labelled_triplets_are_not_drawn_and_prompts_come_in_turn():
    world = draw_run(CheckWorld("two seeds", prompts=6, seeds=2), np.random.default_rng(3))
    draws = whole_draws(world.samples, SIDES)
    items = world.samples[(world.samples["triplet"] < 3) & (world.samples["seed"] == 1)]
    seen = [draw_next(draws, items, world.samples, 9, np.random.default_rng(seed)) for seed in range(5)]
    for one in seen:
        assert not one.merge(items, on=["triplet", "seed"]).shape[0] and len(one) == 9
        assert set(one["triplet"].head(3)) == {3, 4, 5}  # prompts without labels first
    assert len({tuple(map(tuple, one.to_numpy())) for one in seen}) == 5
    assert len(draw_next(draws, items, world.samples, 99, np.random.default_rng(0))) == 9  # all that are left


def test_what_was_begun_is_finished_with_the_same_questions(world, labelled):
    labels, items = labelled
    part = items[items["sample_id"] != items["sample_id"].iloc[0]].assign(weight=4.0)
    left = unfinished(world.samples, part, SIDES, 99)
    assert left["sample_id"].unique().tolist() == [items["sample_id"].iloc[0]]
    assert sorted(left["object"]) == sorted(
        labels.loc[labels["sample_id"] == left["sample_id"].iloc[0], "object"]
    )
    assert set(left["chance"]) == {0.25}
    assert (
        unfinished(world.samples, part, SIDES, 0).empty and unfinished(world.samples, items, SIDES, 9).empty
    )


# How wide it will be


def test_planned_widths_are_those_that_come():
    """Of eight runs: the width after the second sheet, planned before it, is right on average."""
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        run = draw_run(CheckWorld("errors", prompts=70, errs=0.1, factor=2.0), rng)
        tables = run.samples, run.nouns, run.objects
        first = choose_questions(*tables, indicators=SIDES, images=90, seed=seed)
        labels = answers(run, first, CheckWorld("all"), rng)
        items, draws = labelled_items(labels, *tables), whole_draws(run.samples, SIDES)
        sides = {"indicators": SIDES, "contrasts": CONTRASTS}
        expected = expected_squares(draws, *tables[1:], items, **sides, extra=8)
        chosen = draw_next(draws, items, run.samples, 30, rng)
        asked = choose_among(questions_of(chosen, *tables[1:], SIDES, 8, rng), expected, rng)
        plan = sheet_plan(items, asked, expected, widths(items, expected.figures, 0.95, **sides))
        more = answers(run, run.samples.merge(asked, on=["triplet", "seed"]), CheckWorld("all"), rng)
        joined = labelled_items(pd.concat([labels, more], ignore_index=True), *tables)
        ratios.append(plan.expected(30) / widths(joined, expected.figures, 0.95, **sides))
    assert np.median(ratios, axis=0) == pytest.approx([1, 1], abs=0.15)


def test_a_plan_of_sheets_that_ask_all_follows_the_root_of_the_number():
    plan = SheetPlan(np.array([0.2, 0.1]), 20, np.ones(2), np.ones(2))
    assert plan.expected(60) == pytest.approx([0.1, 0.05])
    assert plan.needed(0.1001, 1000) == 60 and plan.needed(0.1, 60) is None
    thinned = SheetPlan(np.array([0.2]), 20, np.ones(1), np.full(1, 2.0))
    assert thinned.expected(20) == pytest.approx(0.2 * np.sqrt((1 + 2) / 4))


# The command line, on images of the bundled model

YAML = """\
name: check
model: toyworld
indicators: {neutral: person, feminine: woman, masculine: man}
prompts:
  - a {person} with a dog
  - a {person} with a hat
  - a {person} with a ball
  - a {person} with a cup
seeds: [0, 1]
sampler: {steps: 2}
generate: {device: cpu}
observe: {engine: toyworld-checker}
measure: {bootstrap: 50, permutations: 64}
"""


@pytest.fixture(scope="module")
def toyworld(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toyworld")
    (folder / "triplets.yaml").write_text(YAML, encoding="utf-8")
    assert main(["run", str(folder / "triplets.yaml"), "--out", str(folder / "run")]) == 0
    return folder / "run"


def filled_in(sheet, path, annotator="A", images=None):
    """What the page exports where everything but each third object is ticked."""
    data = json.loads(
        (sheet / "sheet.html").read_text("utf-8").partition('id="data">')[2].partition("</script>")[0]
    )
    rows = [data["columns"]]
    for card in data["cards"][:images]:
        for place, name in enumerate(card["objects"]):
            chance = [str(card["chances"][place])] if "chances" in card else []
            rows.append([annotator, card["id"], card["print"], name, "yes" if place % 3 else "no", *chance])
    path.write_text("\n".join(map(",".join, rows)) + "\n", encoding="utf-8")
    return path


def test_sheets_follow_from_labels_until_nothing_is_left(toyworld, tmp_path, capsys):
    assert check(["sample", str(toyworld), "--images", "9", "--out", str(tmp_path / "one")]) == 0
    first = filled_in(tmp_path / "one", tmp_path / "first.csv", images=8)
    capsys.readouterr()
    after = ["sample", str(toyworld), "--after", str(first)]
    assert check([*after, "--images", "7", "--width", "0.001", "--out", str(tmp_path / "two")]) == 0
    shown = capsys.readouterr().out
    assert "7 images (3 triplets of 3)" in shown and f"agreement {toyworld} {first} labels.csv" in shown
    assert "1 image of triplets whose other images have labels" in shown
    assert "width of the 95 % intervals over all objects: recall" in shown and "with this sheet" in shown
    assert "for 0.001: all 15 images left would not do" in shown
    second = filled_in(tmp_path / "two", tmp_path / "second.csv")
    one, two = (read_labels(path, Run.open(toyworld)) for path in (first, second))
    assert not set(one["sample_id"]) & set(two["sample_id"]) and (one["weight"] == 1).all()
    assert two["weight"].max() > 1
    before = (tmp_path / "two" / "sheet.html").read_bytes()
    assert check([*after, "--images", "7", "--out", str(tmp_path / "two")]) == 0
    assert (tmp_path / "two" / "sheet.html").read_bytes() == before  # the same seed, the same sheet
    both = [str(first), str(second)]
    assert check(["agreement", str(toyworld), *both]) == 0
    rows = Run.open(toyworld).table("human_check").set_index(["quantity", "asked", "object", "indicator"])
    items = labelled_items(
        pd.concat([one, two]),
        *(Run.open(toyworld).samples(), *map(Run.open(toyworld).table, ("nouns", "objects"))),
    )
    there = items[items["present"] == "yes"]
    expected = np.average(there["detected"], weights=there["weight"])
    assert rows.loc[("recall", "all", "all", "all"), "value"] == pytest.approx(expected)
    assert rows.loc[("recall", "all", "all", "all"), "n"] == len(there)
    capsys.readouterr()
    assert (
        check(["sample", str(toyworld), "--after", *both, "--width", "0.999", "--out", str(tmp_path / "no")])
        == 0
    )
    assert "already narrower than 0.999: width" in capsys.readouterr().out and not (tmp_path / "no").exists()
    assert check(["sample", str(toyworld), "--after", *both, "--out", str(tmp_path / "three")]) == 0
    third = filled_in(tmp_path / "three", tmp_path / "third.csv")
    assert len(set(read_labels(third, Run.open(toyworld))["sample_id"])) == 9
    capsys.readouterr()
    assert (
        check(["sample", str(toyworld), "--after", *both, str(third), "--out", str(tmp_path / "four")]) == 2
    )
    assert "expected triplets without labels, found none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "--after {first} {first}",
            "{first}: expected another annotator in each file, or other images, got 'A' twice",
        ),
        ("--after {none}", "{none}: expected a table, found none"),
        ("--after {first} --images 2", "--images: expected at least one of each indicator (3), got 2"),
        ("--width 0.1", "--width: expected the labels so far beside it, got none: name them by --after"),
        ("--after {chance}", "{chance}: line 2: chance: expected a probability above 0, got '1.5'"),
        ("--after {other}", "{other}: expected images of {run}, got another image as 'u0"),
    ],
)
def test_what_cannot_be_used_gives_one_line(toyworld, tmp_path, capsys, arguments, line):
    assert check(["sample", str(toyworld), "--images", "3", "--out", str(tmp_path / "sheet")]) == 0
    first = filled_in(tmp_path / "sheet", tmp_path / "first.csv")
    lines = first.read_text("utf-8").splitlines()
    places = {"first": first, "none": tmp_path / "none.csv", "run": toyworld}
    for name, rows in {
        "chance": [lines[0] + ",chance", lines[1] + ",1.5"],
        "other": [lines[0], lines[1].replace("A,t", "A,u")],
    }.items():
        places[name] = tmp_path / f"{name}.csv"
        places[name].write_text("\n".join(rows) + "\n", encoding="utf-8")
    before = (tmp_path / "sheet" / "sheet.html").read_bytes()
    capsys.readouterr()
    words = arguments.format(**places).split()
    assert check(["sample", str(toyworld), *words, "--out", str(tmp_path / "sheet")]) == 2
    error = capsys.readouterr().err
    assert line.format(**places) in error and error.count("\n") == 1
    assert (tmp_path / "sheet" / "sheet.html").read_bytes() == before
