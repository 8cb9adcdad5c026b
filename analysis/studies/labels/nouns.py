"""The human check as Wu et al. 2025 report it (section 7.3): are the nouns of a prompt in its image?

They ask for the nouns of an image's prompt alone, and count how many are seen by people and by the detector, by
people alone and by the detector alone, each noun under its own word. So *woman* and *person* are apart here: the
detector sees a *woman* where it calls something that. People were asked for *a person* for every word that refers to
humans, since nobody is asked to see a gender; what they answered stands for each of these words.
"""

from __future__ import annotations

from importlib import resources

import pandas as pd

from analysis.report.format import fixed, listed
from analysis.stats.rates import ALL
from analysis.studies.labels.detector import AGREED, agreed, ask
from analysis.tables.registry import SEEN_BY, TABLES

PAPER = "Wu et al. 2025"
NOUN_COLUMNS = TABLES["human_nouns"].columns
SHOWN = 8  # words in a line


def noun_agreement(
    labels: pd.DataFrame, samples: pd.DataFrame, nouns: pd.DataFrame, objects: pd.DataFrame
) -> pd.DataFrame:
    """Who saw the nouns of each image's prompt, in all and word by word, with the paper's figures below.

    One row per annotator and word (``all`` first), with `NOUN_COLUMNS`: ``nouns`` counts nouns of images, each lemma
    once an image, that were answered yes or no; of several annotators those with equal answers of all stand under
    ``all agree``, others are ``unclear`` there. ``percent_both`` is the share of ``nouns`` that people and detector
    saw. The paper's rows (Wu et al. 2025, section 7.3) hold what it prints; NaN where it prints nothing.
    """
    spoken = samples[["sample_id", "triplet", "indicator"]].merge(
        nouns.drop_duplicates(["triplet", "indicator", "lemma"])[["triplet", "indicator", "lemma", "human"]]
    )
    spoken["object"] = [ask(lemma, human) for lemma, human in zip(spoken["lemma"], spoken["human"])]
    found = objects[objects["object"] >= 0][["sample_id", "lemma"]].drop_duplicates().assign(detected=True)
    spoken = spoken.merge(found, how="left").assign(detected=lambda rows: rows["detected"].notna())
    answers = spoken.merge(labels, on=["sample_id", "object"])
    by_person = {name: answers[answers["annotator"] == name] for name in dict.fromkeys(labels["annotator"])}
    if len(by_person) > 1:
        by_person[AGREED] = agreed(answers, ["sample_id", "lemma"], len(by_person))
    tables = [_counted(rows, name) for name, rows in by_person.items()]
    return pd.concat([*tables, published()], ignore_index=True)[list(NOUN_COLUMNS)]


def _counted(answers: pd.DataFrame, annotator: str) -> pd.DataFrame:
    seen, detected = answers["present"] == "yes", answers["detected"]
    clear = answers["present"] != "unclear"
    cells = answers[["lemma"]].assign(
        nouns=clear,
        both=seen & detected,
        detector_only=clear & ~seen & detected,
        people_only=seen & ~detected,
        neither=clear & ~seen & ~detected,
        unclear=~clear,
    )
    by_word = cells.groupby("lemma", sort=True).sum().astype(float)
    table = pd.concat([by_word.sum().rename(ALL).to_frame().T, by_word])
    table["percent_both"] = 100 * table["both"] / table["nouns"].where(table["nouns"] > 0)
    return table.rename_axis("word").reset_index().assign(annotator=annotator)


def published() -> pd.DataFrame:
    """The paper's figures, as far as it prints them, with the columns `NOUN_COLUMNS`."""
    with (resources.files("analysis.studies.labels") / "wu2025_section7_3.csv").open() as file:
        table = pd.read_csv(file)
    table = table.assign(annotator=PAPER).reindex(columns=list(NOUN_COLUMNS))
    return table.astype({name: float for name in NOUN_COLUMNS if name not in ("annotator", "word")})


def noun_summary(table: pd.DataFrame) -> str:
    """The table of `noun_agreement` in lines: one row per annotator, and the words that one side alone saw."""
    total = table[table["word"] == ALL].drop(columns="word")
    total["percent_both"] = [fixed(value, 2, "–") for value in total["percent_both"]]
    numbers = {name: lambda value: fixed(value, 0, "–") for name in ("nouns", *SEEN_BY)}
    lines = [
        "nouns of an image's prompt, as in section 7.3 of Wu et al. 2025 (people were asked for a person, whatever the"
        " word):",
        total.to_string(index=False, formatters=numbers),
    ]
    for column, what in (("detector_only", "the detector alone saw"), ("people_only", "people alone saw")):
        for annotator, rows in table[table["word"] != ALL].groupby("annotator", sort=False):
            chosen = rows[rows[column] > 0].sort_values([column, "word"], ascending=[False, True])
            words = [f"{row.word} ({getattr(row, column):.0f})" for row in chosen.head(SHOWN).itertuples()]
            words += [f"{len(chosen) - SHOWN} more"] if len(chosen) > SHOWN else []
            lines.append(f"{annotator}: {what} {listed(words) if words else 'nothing'}")
    return "\n".join(lines)
