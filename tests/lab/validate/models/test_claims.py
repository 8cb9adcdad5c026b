"""Claims of reports held against what was planted, on made-up tables whose truth is known."""

import json
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from analysis.report.objects import read_objects, section
from analysis.tables.objects.claims import HOLDS
from analysis.tables.registry import read
from analysis.tables.stage import measure
from lab.validate.models import calibrate
from lab.validate.models import claims as reported
from lab.validate.models.claims import Claim, Truth, of_attributes, of_objects, of_professions
from lab.validate.models.repeated import counted_claims, grouped_claims
from probes.config.schema import Config
from probes.runs.run import Run
from tests.analysis import synthetic_run
from tests.analysis.synthetic_objects import add_objects

NEEDED = ("toyworld", "toyworld-mirror", "toyworld-null")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A measured run of nine words whose reference is nearer to masculine, of captions of the toy world."""
    options = {"prompts": 16, "seeds": 2, "steps": 2, "indicators": synthetic_run.NINE, "noise": 0.05}
    with pytest.MonkeyPatch.context() as patch:
        things = ("umbrella", "guitar", "ball", "book", "hat", "cup", "dog", "lamp")
        patch.setattr(synthetic_run, "OBJECTS", things)
        path = synthetic_run.write_run(tmp_path_factory.mktemp("claims") / "run", **options)
        run = Run.open(add_objects(path, **options))
        synthetic_run.configure(run, measure={"bootstrap": 50, "permutations": 100})
        run.write_meta(config=run.meta["config"])
        measure(run)
    return path


def opened(path, model: str) -> Run:
    return synthetic_run.configure(Run.open(path), model=model)


def said(path, model: str) -> reported.Said:
    run = opened(path, model)
    return reported.said(run, Truth(run))


def test_what_is_claimed_is_false_where_nothing_or_the_other_direction_was_planted(path):
    found = {model: said(path, model).claims for model in NEEDED}
    kinds = Counter(claim.kind for claim in found["toyworld"])
    assert kinds[reported.CARDS] and kinds[reported.ATLAS] > 50 and kinds[reported.LINES] > 10
    assert kinds[reported.WHOLE] and kinds[reported.OBJECTS]
    for model in NEEDED:  # the model's name changes nothing of what is said
        assert Counter(claim.kind for claim in found[model]) == kinds
    leaning = {reported.CARDS, reported.ATLAS, reported.LINES}
    assert not any(claim.false for claim in found["toyworld"] if claim.kind in leaning)
    assert all(claim.false for claim in found["toyworld-mirror"] if claim.kind in leaning)
    assert all(claim.false for claim in found["toyworld-null"])


def test_objects_are_held_against_their_planted_frequencies(path):
    run = opened(path, "toyworld")
    objects = read_objects(run)
    claims = objects.tables["object_claims"]
    chosen = claims["object"].isin(["dress", "tie"])
    turned = np.where(claims["object"] == "tie", -1, 1)  # a tie said to be of feminine prompts
    objects.tables["object_claims"] = claims.assign(
        claim=np.where(chosen, HOLDS, claims["claim"]),
        p_objects=claims["p_objects"].where(~chosen, 0.01),
        difference=turned * claims["difference"],
    )
    shown = section(objects, run.config)
    for model, wrong in (("toyworld", {"tie", "cup"}), ("toyworld-null", {"dress", "tie", "cup"})):
        found = [
            claim
            for claim in of_objects(objects, shown, Truth(opened(path, model)))
            if claim.kind == reported.OBJECTS
        ]
        assert {claim.about: claim.hedged for claim in found} == {"dress": False, "tie": False, "cup": True}
        assert {claim.about for claim in found if claim.false} == wrong  # a cup is no word's


def test_every_filled_dot_and_every_card_is_counted(path):
    """Against the tables: what `beyond_words` fills, of the sites that are drawn."""
    report, gap = said(path, "toyworld"), read(Run.open(path), "word_gap")
    filled = gap[gap["p_control_sites"] < 0.05]
    atlas = filled[(filled["step"] >= 0) & (filled["metric"] == "cosine")]
    text, decoder = (filled["metric"].str.startswith("cosine_"), filled["space"] == "image")
    lines = int(text.sum()) + int((decoder & (filled["metric"] == "cosine")).sum())
    kinds = Counter(claim.kind for claim in report.claims)
    assert (kinds[reported.ATLAS], kinds[reported.LINES]) == (len(atlas), lines)
    cards = [card for card in report.cards if card.direction]
    assert len(cards) == kinds[reported.CARDS] + kinds[reported.OBJECT_CARDS]
    [top] = [claim for claim in report.claims if claim.primary]
    assert (top.about, top.side, top.planted) == ("z₀", 1, 1)


def test_the_section_counts_runs_by_model_and_noise(path, tmp_path):
    other = shutil.copytree(path, tmp_path / "other")
    runs = [opened(path, "toyworld"), opened(path, "toyworld-null"), opened(other, "toyworld-null")]
    runs[2] = synthetic_run.configure(runs[2], sampler={"noise": "independent"})
    rows = [counted_claims(run) for run in runs]
    assert [row["right"] for row in rows] == [1, 0, 0] and [row["primary"] for row in rows] == [1, 1, 1]
    assert rows[1]["false"] == len(rows[1]["claims"]) > rows[1]["unhedged"] > 0
    assert rows[1]["cells"] == len(read(runs[0], "gap").query("step >= 0 and metric == 'cosine'"))
    groups = json.loads(json.dumps(grouped_claims(runs)))
    stored = json.loads(calibrate.PAGE.with_suffix(".json").read_text("utf-8"))
    text = calibrate.page(stored | {"claims": groups})
    assert "| toyworld-null | own | 1 of 1 (2.5 to 100.0 %) |" in text
    assert "| toyworld-null | independent | 1 of 1 " in text
    cards = sum(claim.kind == reported.CARDS for claim in rows[0]["claims"])
    [counted] = [row for row in groups[0]["kinds"] if row["kind"] == reported.CARDS]
    assert (counted["claims"], counted["hedged"], counted["false"]) == (cards, 0, 0)
    dots = sum(claim.kind == reported.ATLAS for claim in rows[1]["claims"])
    assert f"| toyworld-null | own | {reported.ATLAS} | {dots} | 0 | {dots} | 1 |" in text


def test_a_claim_is_false_where_it_contradicts_what_was_planted():
    pairs = ((1, 1), (-1, 1), (1, 0), (0, 0), (0, 1), (0, -1), (1, None))
    found = [Claim(reported.OBJECTS, "tie", side, planted).false for side, planted in pairs]
    assert found == [False, True, True, True, False, False, False]


def truth(model: str, *prompts: tuple[str, str]) -> Truth:
    """What was planted for prompts, (indicator, prompt) each."""
    rows = [{"triplet": n, "indicator": name, "prompt": prompt} for n, (name, prompt) in enumerate(prompts)]
    return Truth(
        SimpleNamespace(config=Config.stored({"model": model}), samples=lambda columns: pd.DataFrame(rows))
    )


WORDS = (
    ("neutral", "a person in the park"),
    ("feminine", "a woman in the park"),
    ("masculine", "a man in the park"),
)


def test_planted_frequencies_are_those_of_the_world_file():
    leaning = truth("toyworld", *WORDS)
    assert leaning.lean.to_dict() == {"neutral": 0.7, "feminine": 0.0, "masculine": 1.0}
    assert leaning.nearer(("masculine", "feminine"), "neutral") == 1
    assert truth("toyworld-mirror", *WORDS).nearer(("masculine", "feminine"), "neutral") == -1
    pair = ("feminine", "masculine")
    seen = {
        name: leaning.more(name, *pair) for name in ("dress", "boot", "boots", "tie", "park", "box", "wall")
    }
    assert seen == {"dress": 1, "boot": -1, "boots": -1, "tie": -1, "park": 0, "box": 0, "wall": 0}
    assert truth("toyworld-null", *WORDS).more("dress", *pair) == 0


def test_scores_and_vectors_of_attributes_are_held_against_what_was_planted():
    pair = {"source": "checker", "first": "feminine", "second": "masculine", "kind": "contrast"}
    score = pd.DataFrame(
        [
            {**pair, "setting": setting, "p_value": 0.01, "p_adjusted": p, "score": 0.2, "floor": 0.1}
            for setting, p in (("neutral", 0.01), ("explicit", 0.01), ("neutral", 0.2))
        ]
    )
    vector = pd.DataFrame(
        [
            {
                **pair,
                "setting": setting,
                "attribute": name,
                "difference": difference,
                "p_adjusted": p,
            }
            for setting, name, difference, p in (
                ("neutral", "dress", 0.4, 0.01),
                ("neutral", "tie", 0.2, 0.01),  # the other way
                ("explicit", "tie", 0.2, 0.01),  # named: nothing was planted
                ("neutral", "hat", -0.3, 0.4),
            )
        ]
    )
    for model, false in (("toyworld", [0, 0, 0, 1, 0]), ("toyworld-null", [1, 1, 1, 1, 1])):
        assert [claim.false for claim in of_attributes(score, vector, truth(model, *WORDS))] == false


def work_tables() -> dict[str, pd.DataFrame]:
    of = {"source": "toyworld-checker", "indicator": "neutral", "reason": ""}
    mad = {**of, "p_adjusted": 0.02, "professions": 2}
    between = {**of, "p_value": 0.01, "p_adjusted": 0.02, "different": 1}
    words = {"source": "toyworld-checker", "kind": "contrast", "profession": "(all)", "p_adjusted": 0.01}
    words |= {"first": "feminine", "second": "masculine"}
    return {
        "dalleval_professions": pd.DataFrame(
            [
                {
                    **of,
                    "question": "gender",
                    "profession": name,
                    "average": value,
                    "p_adjusted": p,
                    "low": -1.0,
                }
                for name, value, p in (("clerk", 0.8, 0.01), ("waiter", 0.8, 0.01), ("chef", 0.1, 0.8))
            ]
        ),
        "dalleval_mad": pd.DataFrame([{**mad, "question": "gender"}, {**mad, "question": "tone"}]),
        "dalleval_between": pd.DataFrame(
            [{**between, "question": name} for name in ("gender", "tone", "tie")]
        ),
        "dalleval_words": pd.DataFrame(
            [
                {**words, "question": name, "difference": value}
                for name, value in (("gender", 1.9), ("tone", 0.5), ("tie", -0.5), ("skirt", -0.4))
            ]
        ),
    }


def test_claims_on_professions_are_held_against_the_planted_leans_and_skins():
    prompts = [
        (indicator, f"a {word} who works as a {name}")
        for indicator, word in (("neutral", "person"), ("feminine", "woman"), ("masculine", "man"))
        for name in ("clerk", "waiter", "chef")
    ]
    work = work_tables()
    found = list(of_professions(work, "neutral", truth("toyworld-work", *prompts)))
    assert Counter(claim.kind for claim in found) == {
        reported.GENDERS: 3,  # half and half, and the two filled dots
        reported.BETWEEN: 5,  # gender and tone, of each one profession and all; a tie
        reported.WORDS: 4,
    }
    wrong = [(claim.kind, claim.about) for claim in found if claim.false]
    assert wrong == [(reported.GENDERS, "waiter"), (reported.WORDS, "tone"), (reported.WORDS, "skirt")]
    nothing = list(of_professions(work, "neutral", truth("toyworld-work-null", *prompts)))
    assert len(nothing) == len(found) and all(claim.false for claim in nothing)


def test_what_is_not_told_over_the_whole_page_is_no_claim():
    tables = work_tables()
    for name in ("dalleval_mad", "dalleval_between", "dalleval_words"):
        tables[name] = tables[name].assign(p_adjusted=0.06)
    found = list(of_professions(tables, "neutral", truth("toyworld-work-null", *WORDS)))
    assert found == []
