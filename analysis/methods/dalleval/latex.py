"""The tables of Cho et al. 2023 (DALL-Eval) on social bias as LaTeX, from the tables of a run.

Each is laid out as in the paper, with the run's model in the place of the paper's three, a floor beside each MAD, and
numbers rounded where the paper cuts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from analysis.methods.dalleval.names import attributes, first_source, named, profession
from analysis.methods.dalleval.readings import PEOPLE
from analysis.methods.dalleval.registry import DALLEVAL
from analysis.methods.dalleval.scores import GENDER, TONE, TONES
from analysis.methods.dalleval.tables import ALL
from analysis.methods.dalleval.words import first_contrast
from analysis.report.format import LATEX_DASH, fixed
from analysis.report.latex import Body, by_cells, printed
from analysis.study import comparison
from analysis.tables.registry import read
from probes.prompts.diagnostic import NONE

if TYPE_CHECKING:
    from probes.runs.run import Run

# of the paper's Tables 6, 7 and 9
GENDER_EXAMPLES = ("engineer", "library assistant", "scientist", "singer", "baker")
TONE_EXAMPLES = ("judge", "miner", "porter", "secretary", "tailor")
ATTRIBUTE_EXAMPLES = ("skirt", "suit", "jacket", "tie")
LONGEST_CAPTION = 1_000  # characters


class ProfessionAudit:
    """The tables of an audit, and which words and readers the paper's tables show of them.

    ``words`` are the reference and the two that are compared: *person*, *woman*, *man*; ``sources`` who reads gender,
    tone and attributes: the first that read the images.
    """

    def __init__(self, model: str, tables: Mapping[str, pd.DataFrame], words: Sequence[str]):
        self.model, self.tables, self.words = model, tables, tuple(words)
        own = tables["dalleval_professions"]
        self.sources = {question: first_source(own, question) for question in (GENDER, TONE, "attributes")}
        self.attributes = attributes(own)
        together = (own["question"] == TONE) & (own["indicator"] == ALL)
        self.tone_word = ALL if together.any() else self.words[0]  # whose tones are shown

    def rows(self, name: str, **where: str) -> pd.DataFrame:
        """Return the rows of a table that have these values; none where the run holds no such table."""
        table = self.tables.get(name)
        if table is None:
            columns = [*where, "profession", "question", "average", "mad", "floor", "difference"]
            return pd.DataFrame(columns=list(dict.fromkeys(columns)))
        for column, value in where.items():
            table = table[table[column] == value]
        return table

    def differences(self, first: str, second: str) -> Mapping[tuple[str, str], float]:
        """Return differences between two words by profession, or `ALL`, and attribute."""
        own = self.rows("dalleval_words", source=self.sources["attributes"], first=first, second=second)
        return own.set_index(["profession", "question"])["difference"].to_dict()

    def distances(self, first: str, second: str) -> dict[str, str]:
        """Return cells of mean absolute differences between two words by profession, or `ALL`."""
        where = {"source": self.sources["attributes"], "first": first, "second": second}
        own = self.rows("dalleval_absolute", **where)
        return {row.profession: _cell(row.mean_abs_difference, 2) for row in own.itertuples()}


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that a run holds, each with its name."""
    tables = {row.name: read(run, row.name) for row in DALLEVAL if row.name in run.tables()}
    if "dalleval_professions" in tables:
        chosen = comparison(run.config)
        words = dict.fromkeys([chosen.reference, *(first_contrast(chosen) or ())])
        yield from of_audit(ProfessionAudit(run.config.model_name, tables, tuple(words)))


def of_audit(audit: ProfessionAudit) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that an audit fills."""

    def body(name: str) -> Body:
        return _BODIES[int(name.removeprefix("dalleval_table")[:2])](audit)

    yield from printed(DALLEVAL, body, _said(audit), LONGEST_CAPTION)


def _said(audit: ProfessionAudit) -> dict[str, str]:
    """Return what stands in the places of captions and notes."""
    own = audit.rows("dalleval_professions", source=audit.sources[GENDER], question=GENDER)
    own = own[(own["indicator"] == audit.words[0]) & ~own["profession"].isin([NONE, ALL])]
    images = sorted({int(n) for n in own.get("decided", ()) if n > 0})
    where = {"source": audit.sources[GENDER], "question": GENDER, "indicator": audit.words[0]}
    floor = audit.rows("dalleval_mad", **where)["floor"]
    return {
        "reference": audit.words[0],
        "first": audit.words[1] if len(audit.words) > 1 else "",
        "second": audit.words[-1],
        "words": "all" if audit.tone_word == ALL else audit.tone_word,
        "model": audit.model,
        "images": f"{images[0]} to {images[-1]}" if len(images) > 1 else str(*images),
        "floor": _cell(floor.mean(), 3) if len(floor) else LATEX_DASH,
        **{question: named(source) for question, source in audit.sources.items()},
    }


def _averages(
    audit: ProfessionAudit, question: str, keep: Callable[[list[str]], list[str]], last: bool
) -> Body:
    """Averages of professions, with the mean over all of them below."""
    word = audit.tone_word if question == TONE else audit.words[0]
    where = {"question": question, "source": audit.sources[question], "indicator": word}
    own = audit.rows("dalleval_professions", **where)
    found = own[own["profession"] != NONE].set_index("profession")["average"].to_dict()
    mean = found.pop(ALL, None)
    shown = {name: found[name] for name in keep(list(found))}
    if shown and last:
        shown["Average"] = mean
    return by_cells({(name, audit.model): _cell(value, 2) for name, value in shown.items()})


def _examples(chosen: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """The paper's professions, or the first ones of a run that has none of these."""
    return lambda names: [name for name in chosen if name in names] or names[: len(chosen)]


def _mads(audit: ProfessionAudit) -> Body:
    """Table 8: the MAD of gender and tone beside their floors, between those of even and of one-hot distributions."""
    heads, even, own, hot = [], [], [], []
    for question, word, size in ((GENDER, audit.words[0], 2), (TONE, audit.tone_word, TONES)):
        if source := audit.sources[question]:
            rows = audit.rows("dalleval_mad", question=question, source=source, indicator=word)
            heads += [question.capitalize(), f"{question.capitalize()}, floor"]
            even += [_cell(0.0, 4), ""]
            own += [_cell(rows[column].mean(), 4) for column in ("mad", "floor")]
            hot += [_cell(2 * (size - 1) / size**2, 4), ""]
    rows = [("uniform (unbiased)", even), (audit.model, own), ("one-hot (entirely biased)", hot)]
    return heads, rows if heads else []


def _words(audit: ProfessionAudit, chosen: Sequence[str], *, whole: bool) -> Body:
    """Tables 9 and 22: frequencies by word, over all prompts, and their differences."""
    if not chosen or len(audit.words) < 3:
        return [], []
    reference, first, second = audit.words
    rows = []
    means = audit.rows("dalleval_professions", source=audit.sources["attributes"], profession=ALL)
    means = means.set_index(["indicator", "question"])["average"]
    for word in audit.words if whole else (first, second):
        cells = [_cell(means.get((word, name)), 2) for name in chosen]
        if whole:
            apart = audit.differences(word, reference)
            cells = [_with(cell, apart.get((ALL, name))) for cell, name in zip(cells, chosen)]
            cells.append(audit.distances(word, reference).get(ALL, ""))
        rows.append((f"{audit.model}: {word}", cells))
    apart = audit.differences(first, second)
    cells = [_cell(apart.get((ALL, name)), 2, signed=True) for name in chosen]
    cells += [audit.distances(first, second).get(ALL, "")] if whole else []
    rows.append((f"{audit.model}: {first} − {second}", cells))
    return [*chosen, *(["Mean absolute difference"] if whole else [])], rows


def _attribute_examples(audit: ProfessionAudit) -> Body:
    chosen = [name for name in ATTRIBUTE_EXAMPLES if name in audit.attributes]
    return _words(audit, chosen or audit.attributes[: len(ATTRIBUTE_EXAMPLES)], whole=False)


def _of_word(audit: ProfessionAudit, place: int) -> Body:
    """Tables 23 to 25: frequencies of each prompt of a word, and differences from the reference."""
    if place >= len(audit.words) or not audit.attributes:
        return [], []
    word, reference = audit.words[place], audit.words[0]
    own = audit.rows("dalleval_professions", source=audit.sources["attributes"], indicator=word)
    value = own.set_index(["profession", "question"])["average"]
    apart = audit.differences(word, reference) if place else {}
    last = audit.distances(word, reference) if place else {}
    rows = []
    for name in dict.fromkeys(own.loc[own["profession"] != ALL, "profession"]):
        cells = [_with(_cell(value.get((name, one)), 2), apart.get((name, one))) for one in audit.attributes]
        rows.append((profession(name), [*cells, last.get(name, LATEX_DASH)] if place else cells))
    return [*audit.attributes, *(["Mean absolute difference"] if place else [])], rows


def _with(cell: str, difference: float | None) -> str:
    """A frequency with its difference in parentheses; without any where it is none, as the paper has it."""
    return (
        cell
        if not difference or difference != difference
        else f"{cell} ({_cell(difference, 2, signed=True)})"
    )


def _cell(value: float | None, digits: int, *, signed: bool = False) -> str:
    """A number as LaTeX; one that is rounded to nothing has no sign."""
    text = fixed(value, digits, LATEX_DASH)
    if text != LATEX_DASH and float(text) == 0:
        text = text.lstrip("-")
    elif signed and text != LATEX_DASH and not text.startswith("-"):
        text = f"+{text}"
    return text if text == LATEX_DASH else text.replace("-", "$-$").replace("+", "$+$")


def _rules(audit: ProfessionAudit) -> Body:
    """Table 18: how far each rule's tones are from what people say."""
    rows = []
    for row in audit.rows("dalleval_agreement", question=TONE, second=PEOPLE).to_dict("records"):
        if row["images"]:
            shares = [row["same"], *(row[f"within_{k}"] for k in (1, 2, 3))]
            cells = [*(_cell(100 * one, 2) for one in shares), _cell(row["mean_abs_difference"], 2)]
            rows.append((f"{audit.model}: {named(row['first'])}", [*cells, str(row["images"])]))
    return [*(f"Precision@{k}" for k in range(4)), "Average difference", "Images"], rows


_BODIES: Mapping[int, Callable[[ProfessionAudit], Body]] = {
    6: lambda audit: _averages(audit, GENDER, _examples(GENDER_EXAMPLES), True),
    7: lambda audit: _averages(audit, TONE, _examples(TONE_EXAMPLES), True),
    8: _mads,
    9: _attribute_examples,
    16: lambda audit: _averages(audit, GENDER, lambda names: names[: len(names) // 2], False),
    17: lambda audit: _averages(audit, GENDER, lambda names: names[len(names) // 2 :], True),
    18: _rules,
    20: lambda audit: _averages(audit, TONE, lambda names: names[: len(names) // 2], False),
    21: lambda audit: _averages(audit, TONE, lambda names: names[len(names) // 2 :], True),
    22: lambda audit: _words(audit, audit.attributes, whole=True),
    23: lambda audit: _of_word(audit, 0),
    24: lambda audit: _of_word(audit, 1),
    25: lambda audit: _of_word(audit, 2),
}
