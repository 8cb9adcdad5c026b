"""Claims of a run's report, each beside what was planted in the benchmark model.

Every claim is read by the function that words or draws it: cards (`analysis.report.findings`), filled dots of the atlas
and of the lines, the section on objects, attributes, professions, and the trace. A claim is false where it contradicts
what was planted: a difference where the words mean the same, or the other direction. Where nothing was planted (how
often a model leaves out what a prompt names) it is neither true nor false.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from analysis.methods.dalleval.method import METHOD as DALLEVAL
from analysis.methods.dalleval.page_tests import (
    even_refuted,
    gender_rows,
    said_attributes,
    said_rows,
    said_words,
)
from analysis.methods.dalleval.scores import GENDER, TONE
from analysis.methods.gep.method import METHOD as GEP
from analysis.report import wording_objects
from analysis.report.figures.atlas import atlas_rows, beyond_words
from analysis.report.figures.layers import layer_rows
from analysis.report.figures.objects import filled_scores, shown_scores
from analysis.report.finding import Finding
from analysis.report.findings import summaries
from analysis.report.objects import SCORES, Objects, read_objects, scored, section
from analysis.report.section import measured
from analysis.study import contrasts
from analysis.tables.objects.claims import HEDGED, HINT, HOLDS
from analysis.tables.registry import read
from analysis.tables.similarities.word_gap import joined_gaps
from lab.train.base.truth import planted
from probes.config.schema import Config
from probes.prompts.grammar.nouns import lemma
from probes.runs.run import Run
from probes.toyworld.scene import chance_of_b, parse
from probes.toyworld.world import load_world

CARDS, OBJECT_CARDS = "cards", "cards of co-occurrence"
ATLAS, LINES = "dots of the atlas", "dots of lines"
OBJECTS, SCORES_FILLED = "objects", "dots of bias scores"
WHOLE, CHI_SQUARE = "objects as a whole", "chi-square"
ATTRIBUTES, VECTOR = "attributes, score", "attributes, vector"
GENDERS, BETWEEN, WORDS = "professions", "between professions", "between words"
KINDS = (
    *(
        CARDS,
        OBJECT_CARDS,
        ATLAS,
        LINES,
        OBJECTS,
        SCORES_FILLED,
        WHOLE,
        CHI_SQUARE,
        ATTRIBUTES,
        VECTOR,
    ),
    *(GENDERS, BETWEEN, WORDS),
)
ALPHA = 0.05  # of the tests of the page
SAME = 1e-9  # planted probabilities that differ by no more are equal


@dataclass(frozen=True)
class Claim:
    """A claim of a difference."""

    kind: str  # one of `KINDS`
    about: str  # the measure, object, attribute or profession
    side: int  # 1 towards the first of the two, -1 towards the second, 0: it is said that they differ
    planted: int | None  # 1 or -1: the side (of side 0: they differ); 0: no difference; None: unknown
    hedged: bool = False  # the report calls it a hint, or speaks of two words alone
    primary: bool = False  # the card of the run's primary measure

    @property
    def false(self) -> bool:
        """Whether it contradicts what was planted."""
        if self.planted is None:
            return False
        return self.planted == 0 or self.side not in (0, self.planted)


class Truth:
    """Planted probabilities of the prompts of a run: means over the prompts of each indicator (and profession).

    A UserError where nothing was planted in the model, or a prompt is none of the toy world.
    """

    def __init__(self, run: Run):
        world = load_world(run.config.model)
        samples = run.samples(["triplet", "indicator", "prompt"]).drop_duplicates()
        rows, named = [], []
        for prompt in samples["prompt"]:
            caption = parse(prompt, world)
            rows.append({"b": chance_of_b(caption, world)} | planted(prompt, world))
            named.append(caption.profession or "")
        chances = pd.DataFrame(rows).assign(indicator=samples["indicator"].to_numpy(), profession=named)
        self._words = chances.drop(columns="profession").groupby("indicator").mean()
        self._professions = chances.groupby(["indicator", "profession"]).mean()
        things = [name for name in self._words if name != "b" and not name.startswith(("side:", "skin_"))]
        self._things = {name: lemma(name) for name in things}

    @property
    def lean(self) -> pd.Series:
        """Planted probability of mixture component b by indicator."""
        return self._words["b"]

    def nearer(self, contrast: tuple[str, str], reference: str) -> int:
        """Return towards which of a contrast the reference was planted: 1 the first, -1 the second, 0 neither."""
        first, second = (abs(self.lean[name] - self.lean[reference]) for name in contrast)
        return sign(second - first)

    def differ(self, first: str, second: str) -> int:
        """Return 1 where images of the two indicators were planted to differ, else 0."""
        return abs(sign(self.lean[first] - self.lean[second]))

    def more(self, thing: str, first: str, second: str) -> int:
        """Return for which of two indicators a thing (or its lemma) was planted oftener; 0 for what is in no world."""
        names = [name for name, word in self._things.items() if thing in (name, word)]
        share = self._words[names].max(axis=1) if names else pd.Series(0.0, index=self._words.index)
        return sign(share[first] - share[second])

    def female(self, indicator: str, profession: str | None = None) -> int:
        """Return 1 where more images than half were planted as feminine words', -1 where fewer, 0 where half."""
        lean = self.lean[indicator]
        if profession is not None:
            lean = self._professions["b"].get((indicator, profession), lean)
        return sign(0.5 - lean)

    def uneven(self, indicator: str) -> int:
        """Return 1 where professions were planted to deviate from half and half, else 0."""
        return int((self._of(indicator)["b"] - 0.5).abs().max() > SAME)

    def professions_differ(self, question: str, indicator: str) -> int | None:
        """Return 1 where professions were planted to differ in what a question asks, else 0; None if unknown."""
        own = self._of(indicator)
        if question == GENDER:
            columns = ["b"]
        elif question == TONE:
            columns = [name for name in own if name.startswith("skin_")]
        else:
            columns = [name for name in self._things if name == question]
        if not columns:
            return None
        return int((own[columns].max() - own[columns].min()).max() > SAME)

    def _of(self, indicator: str) -> pd.DataFrame:
        """Rows of the professions of an indicator; of all indicators where it is none."""
        there = self._professions.index.get_level_values("indicator")
        own = self._professions if indicator not in set(there) else self._professions[there == indicator]
        own = own.groupby(level="profession").mean()
        return own.drop(index="", errors="ignore") if len(own) > 1 else own


def sign(value: float) -> int:
    """Sign of a difference of planted probabilities; 0 where they are equal."""
    return 0 if abs(value) <= SAME else 1 if value > 0 else -1


@dataclass(frozen=True)
class Said:
    """A report's statements: its cards, those of gaps first, and every claim of a difference."""

    cards: list[Finding]
    claims: list[Claim]


def said(run: Run, truth: Truth) -> Said:
    """Return the cards of a run's report, and every claim of a difference beside what was planted."""
    cards, found = [], []
    if "gap" in run.tables():
        gap = joined_gaps(partial(read, run))
        cards = [card for summary in summaries(gap, run.config) for card in summary.findings]
        found += [*of_cards(cards, CARDS, run.config, truth), *of_dots(gap, run.config, truth)]
    if objects := read_objects(run):
        shown = section(objects, run.config)
        own = [card for entry in shown["contrasts"] for card in entry["findings"]]
        cards = cards + own
        found += [*of_cards(own, OBJECT_CARDS, run.config, truth), *of_objects(objects, shown, truth)]
    if audit := measured(GEP, {run.config.model_name: run}):
        said = "source == @source and kind == 'contrast'"
        found += of_attributes(audit.rows("gep_score", said), audit.rows("gep_vector", said), truth)
    if work := measured(DALLEVAL, {run.config.model_name: run}):
        found += of_professions(work.tables, run.config.reference, truth)
    return Said(cards, found)


def of_cards(found: list[Finding], kind: str, config: Config, truth: Truth) -> Iterator[Claim]:
    """Directions of cards."""
    for card in found:
        if card.direction:
            lean = truth.nearer(card.contrast, config.reference)
            hedged = card.verdict.licence != "claim"
            yield Claim(kind, card.metric.symbol, card.direction, lean, hedged, card.primary)


def of_dots(gap: pd.DataFrame, config: Config, truth: Truth) -> Iterator[Claim]:
    """Filled dots of the atlas and of the lines."""
    for contrast in contrasts(config):
        lean = truth.nearer(contrast, config.reference)
        own = gap[gap["contrast"] == "-".join(contrast)]
        drawn = [(ATLAS, atlas_rows(gap, contrast)), (LINES, layer_rows(own))]
        for kind, rows in drawn:
            for row in rows[beyond_words(rows["p_control_sites"], ALPHA)].itertuples(index=False):
                yield Claim(kind, f"{row.site} {row.metric} {row.step}", int(np.sign(row.word_gap)), lean)


def of_objects(objects: Objects, shown: dict, truth: Truth) -> Iterator[Claim]:
    """Claims of the section on objects (`analysis.report.objects.section`); positive differences are the second's."""
    for entry in shown["contrasts"]:
        (first, second), differ = entry["pair"], truth.differ(*entry["pair"])
        rows = objects.rows("object_claims", first=first, second=second)
        for row in wording_objects.claimed(rows, HOLDS, HEDGED, HINT).to_dict("records"):
            side = -int(np.sign(row["difference"]))
            true = truth.more(row["object"], first, second)
            yield Claim(OBJECTS, row["object"], side, true, row["claim"] != HOLDS)
        for group, where in SCORES.values():
            drawn, _ = shown_scores(scored(objects, entry["contrast"], group))
            for row in drawn[filled_scores(drawn["p_objects"], ALPHA)].itertuples(index=False):
                true = truth.more(row.object, first, second)
                yield Claim(SCORES_FILLED, f"{row.object}, {where}", -sign(row.bias_score - 0.5), true)
        if wording_objects.told(entry["whole"], ALPHA):
            held = (rows["claim"] == HOLDS).any()
            yield Claim(WHOLE, f"{first}, {second}", 0, differ, hedged=not held)
        if wording_objects.told(entry["paper"], ALPHA) and not entry["paper"]["warnings"]:
            yield Claim(CHI_SQUARE, f"{first}, {second}", 0, differ, hedged=True)


def of_attributes(score: pd.DataFrame, vector: pd.DataFrame, truth: Truth) -> Iterator[Claim]:
    """Claims of an audit of attributes; what a prompt names was planted for no word more than for another."""
    for row in score.to_dict("records"):
        if row["p_adjusted"] < ALPHA:
            true = truth.differ(row["first"], row["second"])
            yield Claim(ATTRIBUTES, row["setting"], 0, _unless_named(row, true))
    for row in vector[vector["p_adjusted"] < ALPHA].to_dict("records"):
        pair = row["first"], row["second"]
        true = truth.more(row["attribute"], *pair) if truth.differ(*pair) else 0
        about = f"{row['attribute']}, {row['setting']}"
        yield Claim(VECTOR, about, int(np.sign(row["difference"])), _unless_named(row, true))


def _unless_named(row: dict, true: int) -> int | None:
    """The planted side, but None where prompts name the attributes and words differ in what else they show."""
    return None if true and row["setting"] == "explicit" else true


def of_professions(tables: Mapping[str, pd.DataFrame], reference: str, truth: Truth) -> Iterator[Claim]:
    names = ("professions", "mad", "between", "words")
    table, mad, between, apart = (tables[f"dalleval_{name}"] for name in names)
    refuted = even_refuted(mad, reference, ALPHA)
    if refuted:
        yield Claim(GENDERS, "half and half", 0, truth.uneven(reference))
    for row in said_rows(between, reference).to_dict("records"):
        true = truth.professions_differ(row["question"], row["indicator"])
        told = 1 + int(row["different"]) if row["p_adjusted"] < ALPHA else 0
        yield from (Claim(BETWEEN, row["question"], 0, true) for _ in range(told))
    for row in said_attributes(between).to_dict("records"):
        if row["p_adjusted"] < ALPHA:
            true = truth.professions_differ(row["question"], row["indicator"])
            yield Claim(BETWEEN, row["question"], 0, true)
    dots = gender_rows(table, reference)
    for row in dots[refuted & (dots["p_adjusted"] < ALPHA)].to_dict("records"):
        true = truth.female(reference, row["profession"])
        yield Claim(GENDERS, row["profession"], int(np.sign(row["average"])), true)
    yield from _between_words(apart, truth)


def _between_words(apart: pd.DataFrame, truth: Truth) -> Iterator[Claim]:
    """Rows of the report's table of differences between words that it tells from 0."""
    rows = said_words(apart)
    rows = rows[rows["p_adjusted"] < ALPHA]
    for row in rows.to_dict("records"):
        one, other = row["first"], row["second"]
        if row["question"] == GENDER:
            true = sign(truth.lean[other] - truth.lean[one])
        elif row["question"] == TONE:
            true = 0  # skins do not depend on the word
        else:
            true = truth.more(row["question"], one, other)
        yield Claim(WORDS, row["question"], int(np.sign(row["difference"])), true)
