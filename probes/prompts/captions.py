"""From captions to triplets: the neutral ones, each once, with the words of every indicator in the place of people's.

The rules are in `probes.prompts.neutral`; here they are applied to a stream of captions, and what became of each is
counted: Wu et al. 2025, section 3.1, and Table 4 for the paper's counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from probes.config.types import CHARACTERS
from probes.errors import printable
from probes.prompts.neutral import HUMAN, Articles, CaptionVerdict, Forms, judge, swap

DUPLICATE = "said before"
LONG = "too long"
JUDGED = 10 * CHARACTERS  # characters of a text that is looked through; who writes more writes no caption
UNPRINTABLE = "control characters"
EXAMPLES = 3  # of each reason
WORDS = 50  # of a caption: text encoders take 77 tokens, and a word is one or more
# Wu et al. 2025, Table 4: triplets, by the format that the data set is published in
TABLE_4 = {
    "gcc": ("GCC (val)", 418),
    "coco": ("COCO", 51219),
    "textcaps": ("TextCaps", 4041),
    "flickr30k": ("Flickr30k", 16507),
    "flickr30k-csv": ("Flickr30k", 16507),
    "professions": ("Profession", 811),
}


@dataclass(frozen=True)
class Neutral:
    """A neutral caption: its `text`, its `number` in the file from 1, and how often it stands there."""

    number: int
    text: str
    count: int = 1


@dataclass
class Selection:
    """Outcome of reading captions: the neutral ones, and how many were left out for which reason."""

    source: str = "captions"
    form: str = "text"  # format
    read: int = 0  # captions in all
    kept: list[Neutral] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)  # how many, by reason
    examples: dict[str, list[str]] = field(default_factory=dict)  # the first few of each reason
    words: Counter[str] = field(default_factory=Counter)  # for which words captions were left out as `HUMAN`

    def frequent(self, reason: str, most: int = 8) -> str:
        """Return the most frequent words for which captions were left out, where the reason is another such word."""
        listed = ", ".join(f"{word} {count:,}" for word, count in self.words.most_common(most))
        return f": {listed}" if reason == HUMAN else ""

    def counts(self) -> dict:
        """Return the counts as plain data."""
        table_4 = dict(zip(("dataset", "triplets"), TABLE_4[self.form])) if self.form in TABLE_4 else None
        return {
            "source": self.source,
            "format": self.form,
            "captions": self.read,
            "prompts": len(self.kept),
            "dropped": dict(self.dropped.most_common()),
            "human_words": dict(self.words.most_common()),
            "examples": self.examples,
            "wu2025_table4": table_4,
        }


def select(
    captions: Iterable[str],
    *,
    forms: Forms = "inflected",
    max_words: int = WORDS,
    source: str = "captions",
    form: str = "text",
) -> Selection:
    """Return the neutral captions, each once, and what became of the others.

    White space is made single. Two captions are the same where they differ in case and in a full stop at their end
    alone; the first is kept. A text encoder cannot read those of more than `max_words` to their end.

    >>> said = select(["A person in a hat.", "a person in a hat", "A man in a hat", "A hat"])
    >>> [neutral.text for neutral in said.kept], dict(said.dropped)
    (['A person in a hat.'], {'said before': 1, 'no person or people': 2})
    """
    result = Selection(source, form)
    first: dict[str, int] = {}
    counts: list[int] = []
    texts: list[tuple[int, str]] = []
    number = 0
    for number, caption in enumerate(captions, 1):
        text = " ".join(caption.split())
        verdict = judge(text, forms) if len(text) <= JUDGED else CaptionVerdict(LONG)
        reason = verdict.reason or _unfit(text, max_words)
        if not reason:
            key = text.lower().rstrip(" .")
            if key in first:
                counts[first[key]] += 1
                reason = DUPLICATE
            else:
                first[key] = len(texts)
                texts.append((number, text))
                counts.append(1)
        if reason:
            result.dropped[reason] += 1
            shown = result.examples.setdefault(reason, [])
            if len(shown) < EXAMPLES:
                shown.append(text[:JUDGED])
            if verdict.reason == HUMAN:
                result.words[verdict.word] += 1
    result.read = number
    result.kept = [Neutral(number, text, count) for (number, text), count in zip(texts, counts)]
    return result


def _unfit(text: str, max_words: int) -> str:
    if len(text) > CHARACTERS or text.count(" ") >= max_words:
        return LONG
    return "" if text.isprintable() or printable(text) == text else UNPRINTABLE


def triplets(
    kept: Iterable[Neutral],
    words: Mapping[str, tuple[str, str]],
    *,
    articles: Articles = "fitting",
    forms: Forms = "inflected",
) -> list[dict[str, str]]:
    """Return one prompt a caption: its id, and a text by each indicator, of whose word and plural `words` holds.

    >>> words = {"neutral": ("person", "people"), "feminine": ("woman", "women")}
    >>> triplets([Neutral(7, "Two people.")], words)
    [{'id': 'c000007', 'neutral': 'Two people.', 'feminine': 'Two women.'}]
    """
    swapped = partial(swap, articles=articles, forms=forms)
    return [
        {
            "id": f"c{neutral.number:06d}",
            **{name: swapped(neutral.text, *forms_of) for name, forms_of in words.items()},
        }
        for neutral in kept
    ]
