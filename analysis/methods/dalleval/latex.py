"""The tables of Cho et al. 2023 (DALL-Eval) on social bias as LaTeX, from the tables of one run or of several.

Each is laid out as in the paper, with a run's model in the place of the paper's three, a floor beside each MAD, and
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
from analysis.methods.dalleval.words import AVERAGES, PROMPT, compared
from analysis.report.format import LATEX_DASH, fixed
from analysis.report.latex import Body, Raw, by_cells, escaped, latex
from analysis.study import comparison
from analysis.tables.registry import read
from probes.prompts.diagnostic import NONE

if TYPE_CHECKING:
    from probes.runs.store import Run

# of the paper's Tables 6, 7 and 9
GENDER_EXAMPLES = ("engineer", "library assistant", "scientist", "singer", "baker")
TONE_EXAMPLES = ("judge", "miner", "porter", "secretary", "tailor")
ATTRIBUTE_EXAMPLES = ("skirt", "suit", "jacket", "tie")
LONGEST_CAPTION = 1_000  # characters
Tables = Mapping[str, pd.DataFrame]


class ProfessionAudits:
    """The tables of audits by model, and which words and readers the paper's tables show of them.

    ``words`` are the reference and the two that are compared: *person*, *woman*, *man*; ``sources`` who reads gender,
    tone and attributes: of the first model the first that read its images.
    """

    def __init__(self, models: Mapping[str, Tables], words: Sequence[str]):
        self.models, self.words = models, tuple(words)
        first = next(iter(models.values()))["dalleval_professions"]
        self.sources = {question: first_source(first, question) for question in (GENDER, TONE, "attributes")}
        self.attributes = attributes(first)

    def rows(self, model: str, name: str, **where: str) -> pd.DataFrame:
        """Return the rows of a model's table that have these values; none where it holds no such table."""
        table = self.models[model].get(name)
        if table is None:
            return pd.DataFrame(
                columns=[*where, "profession", "question", "average", "mad", "floor", "difference"]
            )
        for column, value in where.items():
            table = table[table[column] == value]
        return table

    @property
    def tone_word(self) -> str:
        """The indicator whose tones are shown: all words together where the run has that."""
        first = next(iter(self.models))
        together = self.rows(first, "dalleval_professions", question=TONE, indicator=ALL)
        return ALL if len(together) else self.words[0]


def documents(run: Run) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table of the paper that a run holds, each with its name."""
    stored = run.tables()
    there = [row.name for row in DALLEVAL if row.name in stored]
    if "dalleval_professions" in there:
        models = {run.config.model_name: {name: read(run, name) for name in there}}
        chosen = comparison(run.config)
        pairs = [pair for *pair, kind in compared(chosen) if kind == "contrast"]
        first, second = pairs[0] if pairs else (chosen.reference, chosen.reference)
        words = dict.fromkeys([chosen.reference, first, second])
        yield from of_audits(ProfessionAudits(models, tuple(words)))


def of_audits(audits: ProfessionAudits) -> Iterator[tuple[str, str]]:
    """Return the LaTeX of every table that audits of one or several models fill."""
    for row in DALLEVAL:
        for entry in row.printed:
            number = int(entry.name.removeprefix("dalleval_table")[:2])
            heads, rows = _of_words(audits, number) if number >= 23 else _BODIES[number](audits)
            if rows:
                said = _said(audits, number)
                caption = Raw(escaped(entry.caption.format(**said), LONGEST_CAPTION))
                yield entry.name, latex(caption, heads, rows, entry.label, entry.note.format(**said))


def _said(audits: ProfessionAudits, number: int) -> dict[str, str]:
    """Return what stands in the places of captions and notes."""
    model = next(iter(audits.models))
    own = audits.rows(model, "dalleval_professions", source=audits.sources[GENDER], question=GENDER)
    own = own[(own["indicator"] == audits.words[0]) & (own["profession"] != NONE)]
    images = sorted({int(n) for n in own.get("decided", ()) if n > 0})
    beside, place = divmod(number - 23, 3) if number >= 23 else (0, 0)
    models = list(audits.models)
    return {
        "reference": audits.words[0],
        "first": audits.words[1] if len(audits.words) > 1 else "",
        "second": audits.words[-1],
        "words": "all" if audits.tone_word == ALL else audits.tone_word,
        "word": audits.words[place] if place < len(audits.words) else "",
        "model": models[beside] if beside < len(models) else "",
        "images": f"{images[0]} to {images[-1]}" if len(images) > 1 else str(*images),
        "floor": _cell(own["floor"].mean(), 3) if len(own) else LATEX_DASH,
        **{question: named(source) for question, source in audits.sources.items()},
    }


def _averages(
    audits: ProfessionAudits, question: str, keep: Callable[[list[str]], list[str]], last: bool
) -> Body:
    """Averages of professions by model, with the mean over all of them below."""
    word = audits.tone_word if question == TONE else audits.words[0]
    where = {"question": question, "source": audits.sources[question], "indicator": word}
    found, below = {}, {}
    for model in audits.models:
        own = audits.rows(model, "dalleval_professions", **where)
        own = own[own["profession"] != NONE]
        found |= {(row.profession, model): row.average for row in own.itertuples()}
        if len(own):
            below["Average", model] = audits.rows(model, "dalleval_mad", **where)["average"].mean()
    names = keep(list(dict.fromkeys(name for name, _ in found)))
    chosen = {(name, model): found.get((name, model)) for name in names for _, model in below}
    shown = chosen | below if chosen and last else chosen
    return by_cells({place: _cell(value, 2) for place, value in shown.items()})


def _examples(chosen: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """The paper's professions, or the first ones of a run that has none of these."""
    return lambda names: [name for name in chosen if name in names] or names[: len(chosen)]


def _mads(audits: ProfessionAudits) -> Body:
    """Table 8: the MAD of gender and tone beside their floors, between those of even and of one-hot distributions."""
    wanted = [(GENDER, audits.words[0], 2), (TONE, audits.tone_word, TONES)]
    wanted = [(question, word, size) for question, word, size in wanted if audits.sources[question]]
    rows = []
    for model in audits.models:
        cells = []
        for question, word, _ in wanted:
            where = {"question": question, "source": audits.sources[question], "indicator": word}
            own = audits.rows(model, "dalleval_mad", **where)
            cells += [_cell(own[column].mean(), 4) for column in ("mad", "floor")]
        rows.append((model, cells))
    heads = [f"{question.capitalize()}{what}" for question, *_ in wanted for what in ("", ", floor")]
    even = [cell for _ in wanted for cell in (_cell(0.0, 4), "")]
    hot = [cell for *_, size in wanted for cell in (_cell(2 * (size - 1) / size**2, 4), "")]
    return heads, [("uniform (unbiased)", even), *rows, ("one-hot (entirely biased)", hot)] if wanted else []


def _words(audits: ProfessionAudits, chosen: Sequence[str], *, whole: bool) -> Body:
    """Tables 9 and 22: frequencies by word, over all prompts, and their differences."""
    if not chosen or len(audits.words) < 3:
        return [], []
    reference, first, second = audits.words
    rows = []
    for model in audits.models:
        means = audits.rows(model, "dalleval_mad", source=audits.sources["attributes"])
        means = means.set_index(["indicator", "question"])["average"]
        for word in audits.words if whole else (first, second):
            cells = [_cell(means.get((word, name)), 2) for name in chosen]
            if whole:
                apart = _apart(audits, model, word, reference)
                cells = [_with(cell, apart.get((ALL, name))) for cell, name in zip(cells, chosen)]
                cells.append(_distance(audits, model, word, reference, AVERAGES).get(ALL, ""))
            rows.append((f"{model}: {word}", cells))
        apart = _apart(audits, model, first, second)
        cells = [_cell(apart.get((ALL, name)), 2, signed=True) for name in chosen]
        cells += [_distance(audits, model, first, second, AVERAGES).get(ALL, "")] if whole else []
        rows.append((f"{model}: {first} − {second}", cells))
    return [*chosen, *(["Mean absolute difference"] if whole else [])], rows


def _attribute_examples(audits: ProfessionAudits) -> Body:
    chosen = [name for name in ATTRIBUTE_EXAMPLES if name in audits.attributes]
    return _words(audits, chosen or audits.attributes[: len(ATTRIBUTE_EXAMPLES)], whole=False)


def _of_words(audits: ProfessionAudits, number: int) -> Body:
    """Tables 23 to 31: frequencies of each prompt of a model and word, and differences from the reference."""
    beside, place = divmod(number - 23, 3)
    if beside >= len(audits.models) or place >= len(audits.words) or not audits.attributes:
        return [], []
    model, word, reference = list(audits.models)[beside], audits.words[place], audits.words[0]
    source = audits.sources["attributes"]
    own = audits.rows(model, "dalleval_professions", source=source, indicator=word)
    value = own.set_index(["profession", "question"])["average"]
    apart = _apart(audits, model, word, reference) if place else {}
    last = _distance(audits, model, word, reference, PROMPT) if place else {}
    rows = []
    for name in dict.fromkeys(own["profession"]):
        cells = [_with(_cell(value.get((name, one)), 2), apart.get((name, one))) for one in audits.attributes]
        rows.append((profession(name), [*cells, last.get(name, LATEX_DASH)] if place else cells))
    return [*audits.attributes, *(["Mean absolute difference"] if place else [])], rows


def _apart(audits: ProfessionAudits, model: str, first: str, second: str) -> Mapping[tuple[str, str], float]:
    """Differences between two words by profession, or `ALL`, and attribute."""
    where = {"source": audits.sources["attributes"], "first": first, "second": second}
    own = audits.rows(model, "dalleval_words", **where)
    return own.set_index(["profession", "question"])["difference"].to_dict()


def _distance(audits: ProfessionAudits, model: str, first: str, second: str, of: str) -> dict[str, str]:
    """Mean absolute differences between two words by profession, or `ALL`."""
    where = {"source": audits.sources["attributes"], "first": first, "second": second, "of": of}
    own = audits.rows(model, "dalleval_absolute", **where)
    return {row.profession: _cell(row.mean_abs_difference, 2) for row in own.itertuples()}


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


def _rules(audits: ProfessionAudits) -> Body:
    """Table 18: how far each rule's tones are from what people say."""
    rows = []
    for model, tables in audits.models.items():
        table = tables.get("dalleval_agreement", pd.DataFrame(columns=["question"]))
        for row in table[table["question"] == TONE].to_dict("records"):
            if row["second"] == PEOPLE and row["images"]:
                shares = [row["same"], *(row[f"within_{k}"] for k in (1, 2, 3))]
                cells = [*(_cell(100 * one, 2) for one in shares), _cell(row["mean_abs_difference"], 2)]
                rows.append((f"{model}: {named(row['first'])}", [*cells, str(row["images"])]))
    return [*(f"Precision@{k}" for k in range(4)), "Average difference", "Images"], rows


_BODIES: Mapping[int, Callable[[ProfessionAudits], Body]] = {
    6: lambda audits: _averages(audits, GENDER, _examples(GENDER_EXAMPLES), True),
    7: lambda audits: _averages(audits, TONE, _examples(TONE_EXAMPLES), True),
    8: _mads,
    9: _attribute_examples,
    16: lambda audits: _averages(audits, GENDER, lambda names: names[: len(names) // 2], False),
    17: lambda audits: _averages(audits, GENDER, lambda names: names[len(names) // 2 :], True),
    18: _rules,
    20: lambda audits: _averages(audits, TONE, lambda names: names[: len(names) // 2], False),
    21: lambda audits: _averages(audits, TONE, lambda names: names[len(names) // 2 :], True),
    22: lambda audits: _words(audits, audits.attributes, whole=True),
}
