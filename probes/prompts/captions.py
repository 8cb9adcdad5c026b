"""From captions to triplets: the neutral ones, each once, with the words of every indicator in the place of people's.

The rules are in `probes.prompts.neutral`; here they are applied to a stream of captions, and what became of each is
counted: Wu et al. 2025, section 3.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from probes.errors import printable
from probes.fields.types import CHARACTERS
from probes.prompts.neutral import HUMAN, Articles, CaptionVerdict, Forms, judge, swap

DUPLICATE = "said before"
LONG = "too long"
JUDGED = 10 * CHARACTERS  # characters of a text that is looked through; who writes more writes no caption
UNPRINTABLE = "control characters"
WORDS = 50  # of a caption: text encoders take 77 tokens, and a word is one or more


@dataclass(frozen=True)
class Neutral:
    """A neutral caption: its `text` and its `number` in the file from 1."""

    number: int
    text: str


@dataclass
class Selection:
    """Outcome of reading captions: the neutral ones, and how many were left out for which reason."""

    source: str = "captions"
    form: str = "text"  # format
    read: int = 0  # captions in all
    kept: list[Neutral] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)  # how many, by reason
    examples: dict[str, str] = field(default_factory=dict)  # the first of each reason
    words: Counter[str] = field(default_factory=Counter)  # for which words captions were left out as `HUMAN`

    def frequent(self, reason: str) -> str:
        """Return the most frequent words for which captions were left out, where the reason is another such word."""
        listed = ", ".join(f"{word} {count:,}" for word, count in self.words.most_common(3))
        return f": {listed}" if reason == HUMAN else ""


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
    seen: set[str] = set()
    for result.read, caption in enumerate(captions, 1):
        text = " ".join(caption.split())
        verdict = judge(text, forms) if len(text) <= JUDGED else CaptionVerdict(LONG)
        reason, key = verdict.reason or _unfit(text, max_words), text.lower().rstrip(" .")
        if not reason and key in seen:
            reason = DUPLICATE
        if not reason:
            seen.add(key)
            result.kept.append(Neutral(result.read, text))
            continue
        result.dropped[reason] += 1
        result.examples.setdefault(reason, text[:JUDGED])
        if verdict.reason == HUMAN:
            result.words[verdict.word] += 1
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
