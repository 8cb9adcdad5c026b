"""Runs that stop by themselves as a method: the table of looks, its sentences and figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from analysis.methods.stopping.gaps import SequentialGap
from analysis.methods.stopping.looks import Looks
from analysis.methods.stopping.question import FIRST, SECOND, StopQuestion
from analysis.report.format import amount
from analysis.report.section import Lead, lines
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec
from probes.runs.record import REGISTERED
from probes.runs.run import Run

NAME, VERSION = "stopping", "stopping/1"
NOT_YET = "too few prompts to rule anything out"
COLUMNS = (
    *("look", "n_prompts", "n_left_out", "measure", "metric", "contrast", "gap", "low", "high", "level"),
    *("prompts_low", "prompts_high", "words_half", "e_value", "within", "answer", "reason"),
    "version",
)
_ANSWER = """
{% set gap = number(last.gap, quantity.digits, true) ~ (" " ~ interval(last.low, last.high, quantity.digits)
    if defined(last.low)) %}
{% if not last.answer %}
Not answered by {{ counted(last.n_prompts, "prompt") }} of at most {{ "{:,}".format(question.most) }}: the gap is
 {{ gap }}.
{% else %}
Answered after {{ counted(last.n_prompts, "prompt") }} of at most {{ "{:,}".format(question.most) }}:
{% if last.answer in (first, second) %}
 {{ quantity.noun }} {{ reference }} prompts are nearer to those of {{ last.answer }} than of
 {{ second if last.answer == first else first }} prompts
{%- else %}
 the gap is
 {{ "smaller than %s, either way" % close if last.answer == "equivalence" else "known to within ±" ~ close }}
{%- endif %}
{{ " (of these words alone)" if not defined(last.words_half) }}. The gap is {{ gap }}.
{% endif %}
"""
_INTRO = """
The question was registered before the first image (`{{ sha256[:12] }}` in run.json). The run looked at its images part
 after part and stopped when it was answered, after {{ counted(images, "image") }}. The interval holds wherever a run
 stops: of 100 such runs at most {{ "%g" | format((100 - level * 100) | round(6)) }} have one that misses the truth at
 any look{% if defined(last.words_half) %}; other words are counted in as in a fixed design, since no more of them are
 generated{% endif %}. It assumes that no prompt differs by more than
{% if question.reach == "run" %}
 similarities of the prompts before it lie apart, or that differences are symmetric.
{% else %}
 the range of the measure.
{% endif %}
{% if last.n_left_out %}
 {{ counted(last.n_left_out, "prompt") }} {{ "lacks" if last.n_left_out == 1 else "lack" }} an image that could be read
 and {{ "is" if last.n_left_out == 1 else "are" }} left out, which can matter where what is shown decides it.
{% endif %}


All other intervals and p-values on this page are those of a fixed number of prompts. They do not know that the run
 stopped when it had seen enough, and claim too much of what it stopped for.
"""


def read_looks(run: Run, sharing: object = None, checked: object = None) -> Looks | None:
    """Return the interim analyses of a run whose question was registered; None of any other."""
    registered = run.meta.get(REGISTERED)
    return Looks(run, run.config, StopQuestion.stored(registered)) if registered else None


def looks_table(question: StopQuestion, path: Iterable[SequentialGap]) -> pd.DataFrame | None:
    """Table ``stopping``: one row per look; None where no prompt is whole."""
    looks, contrast = list(path), question.contrast
    if not looks:
        return None
    table = pd.DataFrame([asdict(look) for look in looks])
    ends = table[["low", "high", "prompts_low", "prompts_high"]]
    asked = {name: getattr(question, name) for name in ("measure", "metric", "level", "within")}
    sides = dict(zip((FIRST, SECOND), contrast))
    answers = [sides.get(answer, answer) for answer in map(question.answer, looks)]
    return table.assign(
        look=range(len(looks)),
        **asked,
        **ends.where(np.isfinite(ends)),
        contrast="-".join(contrast),
        answer=answers,
        reason=np.where(np.isfinite(ends[["low", "high"]]).all(axis=1), "", NOT_YET),
        version=VERSION,
    )


def words(shown: Measured) -> dict[str, Any]:
    """Names that the templates know: the question, and the last look."""
    registered = shown.run.meta[REGISTERED]
    question = StopQuestion.stored(registered)
    first, second = question.contrast
    return {
        **{"question": question, "quantity": question.shown, "first": first, "second": second},
        "last": shown.rows(NAME).iloc[-1].to_dict(),
        "images": shown.run.meta["images"],
        "sha256": registered["sha256"],
        "close": amount(question.within, question.shown),
    }


def lead(shown: Measured) -> Lead:
    """The first screen: the question, and where it was answered."""
    return Lead(
        shown.words["question"].text(shown.config.reference),
        lines(_ANSWER, shown.words)[0],
        ("stopping",),
        beside="With intervals of a fixed number of prompts, which do not know that the run stopped:",
    )


METHOD = MethodSpec(
    needs="a run with `stop` in its configuration",
    inputs=read_looks,
    title="How it stopped",
    anchor="stopped",
    intro=_INTRO,
    words=words,
    lead=lead,
    tables=(
        TableSpec(
            NAME,
            "a look of a run that stops by itself",
            COLUMNS,
            make=lambda looks: looks_table(looks.question, looks.path()),
            sentences=_ANSWER,
            figure="analysis.methods.stopping.figures:draw_path",
            pivots=(
                Pivot(
                    "{{ n_prompts }} prompts",
                    {
                        "gap": "{{ number(gap, quantity.digits) }} {{ interval(low, high, quantity.digits) }}",
                        "for other prompts alone": "{{ interval(prompts_low, prompts_high, quantity.digits) }}",
                        "e-value against 0": "{{ number(e_value, 1) }}",
                        "answer": "{{ answer }}",
                    },
                    "What each look found; intervals hold wherever the run stops.",
                    title="Looks in numbers",
                ),
            ),
        ),
    ),
)
