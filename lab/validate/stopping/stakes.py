"""Other stakes than those of `analysis.stats.confidence_sequences`, in the same audits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.methods.stopping.gaps import MEASURE, RUN
from analysis.methods.stopping.question import DIRECTION, GAP
from analysis.metrics.registry import definition
from lab.validate.stopping.audits import OWN, PromptAudits, Stakes, WordAudits
from lab.validate.stopping.designs import LEVEL, MOST, by_itself, looks_until, question
from lab.validate.stopping.objects import PairWorld
from lab.validate.stopping.pools import MEASURES, NULL, audits_of
from lab.validate.stopping.simulation import (
    PROMPT_WORLDS,
    WORD_WORLDS,
    WORDS_DELTA,
    drawn_prompts,
    drawn_words,
    true_gap,
)

_ALL = (1.0, 1.0, 1.0, 1.0)
STAKES = {
    "own": OWN,
    "no cap": Stakes(caps=_ALL[:3]),
    "1/16 to 1/2": Stakes((1 / 16, 1 / 8, 1 / 4, 1 / 2), _ALL),
    "1/8 to 1/2": Stakes((1 / 8, 1 / 4, 1 / 2), _ALL[:3]),
    "1/8 to 1": Stakes((1 / 8, 1 / 4, 1 / 2, 1.0), _ALL),
    "finer": Stakes(tuple(2.0 ** (-k / 2) for k in range(2, 9)), (1.0,) * 7),
    "5 values first": Stakes(fewest=5),
    "shrunk": Stakes(caps=_ALL[:3], shrink=0.25),
}
FEW, FAR = 400, 2000  # audits of a world; prompts of a long audit
FAR_LOOKS = tuple(np.unique(np.geomspace(12, FAR, 50).round().astype(int)).tolist())
OF_PROMPTS = (
    "normal",
    "lognormal",
    "normal, d_z 0.5",
    "normal, d_z 1",
    "5 % change, one way",
    "5 % change by 1",
)
OF_WORDS = ("words alike", "2 % of images differ", "lean .4, own parts .2 and .2", "lean .2, 10 % differ")
LONG = {
    "no lean, δ 0.1": (0.0, 0.1),
    "no lean, δ 0.15": (0.0, 0.15),
    "d_z 0.1": (0.1, 0.02),
    "d_z 0.2": (0.2, 0.02),
}
PAIRS = (
    PairWorld("2 %, independent", 0.02, 0.02),
    PairWorld("2 % and 0.5 %", 0.02, 0.005),
    PairWorld("5 % and 1 %", 0.05, 0.01),
    PairWorld("10 % and 5 %", 0.1, 0.05),
)
PAIRS_DELTA = 0.03
Row = dict[str, Any]


def of_stakes(pools: dict[str, Any], few: int = FEW) -> Iterator[Row]:
    """Yield a row of each world, with what becomes of its audits under each choice of stakes."""
    for name in OF_PROMPTS:
        world = PROMPT_WORLDS[name]
        audits = PromptAudits(drawn_prompts(world, few), world.reach)
        of = MEASURE if world.reach is not None else RUN
        yield _row(name, audits, world.mean, world.delta, of)
    for name, (mean, delta) in LONG.items():
        rng = np.random.default_rng([0, 1600, list(LONG).index(name)])
        audits = PromptAudits(mean + rng.standard_normal((FAR, few)))
        yield _row(f"normal, {FAR:,} prompts, {name}", audits, mean, delta, RUN, looks=FAR_LOOKS)
    for number, pair in enumerate(PAIRS):
        rng = np.random.default_rng([0, 1700, number])
        audits = PromptAudits(pair.drawn(FAR, few, rng), 1.0)
        kind = DIRECTION if pair.mean else GAP
        name = f"object, {FAR:,} prompts, {pair.name}"
        yield _row(name, audits, pair.mean, PAIRS_DELTA, MEASURE, looks=FAR_LOOKS, kind=kind)
    for name in OF_WORDS:
        words = WORD_WORLDS[name]
        yield _row(name, drawn_words(words, 0, max(few // 4, 2)), true_gap(words), WORDS_DELTA, RUN)
    for name, pool in pools.items():
        replayed = audits_of(pool, "z0")
        truth = 0.0 if pool["model"].endswith(NULL) else float(replayed.values[:, 0].mean())
        delta = definition(MEASURES["z0"]).least_delta
        yield _row(name, replayed, truth, delta, RUN, looks=looks_until(len(replayed.values)))


def _row(
    name: str,
    audits: PromptAudits | WordAudits,
    truth: float,
    delta: float,
    reach: str,
    *,
    looks: tuple[int, ...] = looks_until(MOST),
    kind: str = GAP,
) -> Row:
    asked, everyone = question(delta, looks[-1], kind), np.arange(audits.values.shape[1])
    seen = {n: audits.usual(n, LEVEL, everyone) for n in looks}
    designs = {
        choice: by_itself(audits, asked, reach, truth, seen, stakes).row(truth, delta)
        for choice, stakes in STAKES.items()
    }
    return {
        "part": "stakes",
        "world": name,
        "truth": round(truth, 5),
        "delta": round(delta, 5),
        "designs": designs,
    }
