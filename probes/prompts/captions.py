"""From captions to prompts: each becomes a prompt or has a reason why not, and what became of all is counted.

A reader of captions is a function from a text to a prompt, or to the verdict that says why it is none; `neutral_reader`
is that of Wu et al. 2025, section 3.1, whose rules are in `probes.prompts.neutral`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from probes.errors import printable
from probes.fields.types import CHARACTERS
from probes.prompts.neutral import HUMAN, Articles, CaptionVerdict, Forms, judge, swap
from probes.prompts.prompt import Prompt

Reader = Callable[[str], Prompt | CaptionVerdict]

DUPLICATE = "said before"
LONG = "too long"
UNPRINTABLE = "control characters"
JUDGED = 10 * CHARACTERS  # characters of a text that is looked through; who writes more writes no caption
WORDS = 50  # of a caption: text encoders take 77 tokens, and a word is one or more
_REASONS, _SHOWN = 3, 80  # reasons why captions are left out that are named, and characters of an example


@dataclass
class Selection:
    """Outcome of reading captions: the prompts, and how many captions were left out for which reason."""

    source: str = "captions"
    format: str = "text"
    read: int = 0  # captions in all
    prompts: list[Prompt] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)  # how many, by reason
    examples: dict[str, str] = field(default_factory=dict)  # the first of each reason
    words: Counter[str] = field(default_factory=Counter)  # for which words captions were left out as `HUMAN`

    def summary(self) -> list[str]:
        """Return lines on how many captions became prompts, and why others did not, with an example of each reason."""
        count, out = len(self.prompts), self.dropped.total()
        lines = [
            f"prompts: {count:,} of {self.read:,} captions of {self.source} {_are(count)} neutral"
            + (f", {out:,} {_are(out)} left out" if out else "")
        ]
        reasons = self.dropped.most_common()
        for reason, number in reasons[:_REASONS]:
            words = ", ".join(f"{word} {count:,}" for word, count in self.words.most_common(3))
            named = f": {words}" if reason == HUMAN else ""
            lines.append(f"  {number:,} {reason}{named}, such as “{self.examples[reason][:_SHOWN]}”")
        if rest := sum(number for _, number in reasons[_REASONS:]):
            lines[-1] += f"; {rest:,} for other reasons"
        return lines


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def neutral_reader(
    words: Mapping[str, tuple[str, str]],
    *,
    articles: Articles = "fitting",
    forms: Forms = "inflected",
    max_words: int = WORDS,
) -> Reader:
    """Return the reader of neutral captions, which puts the words of every indicator in the place of people's.

    `words` has for each indicator the word for a person and its plural. A text encoder cannot read captions of more
    than `max_words` to their end.

    >>> read = neutral_reader({"neutral": ("person", "people"), "feminine": ("woman", "women")})
    >>> read("Two people."), read("A hat").reason
    ({'neutral': 'Two people.', 'feminine': 'Two women.'}, 'no person or people')
    """

    def read(text: str) -> Prompt | CaptionVerdict:
        verdict = judge(text, forms) if len(text) <= JUDGED else CaptionVerdict(LONG)
        if verdict and (len(text) > CHARACTERS or text.count(" ") >= max_words):
            verdict = CaptionVerdict(LONG)
        if verdict and printable(text) != text:
            verdict = CaptionVerdict(UNPRINTABLE)
        if not verdict:
            return verdict
        return Prompt(
            {
                name: swap(text, word, plural, articles=articles, forms=forms)
                for name, (word, plural) in words.items()
            }
        )

    return read


def select(
    captions: Iterable[str], read: Reader, source: str = "captions", file_format: str = "text"
) -> Selection:
    """Return the prompts of captions, each once, and what became of the others.

    White space is made single. Two captions are the same where they differ in case and in a full stop at their end
    alone; the first is kept. An id has the caption's number in the file from 1.
    """
    result = Selection(source, file_format)
    seen: set[str] = set()
    for result.read, caption in enumerate(captions, 1):
        text = " ".join(caption.split())
        prompt, key = read(text), text.lower().rstrip(" .")
        if isinstance(prompt, Prompt) and key not in seen:
            seen.add(key)
            result.prompts.append(replace(prompt, id=f"c{result.read:06d}"))
            continue
        verdict = CaptionVerdict(DUPLICATE) if isinstance(prompt, Prompt) else prompt
        result.dropped[verdict.reason] += 1
        result.examples.setdefault(verdict.reason, text[:JUDGED])
        if verdict.reason == HUMAN:
            result.words[verdict.word] += 1
    return result
