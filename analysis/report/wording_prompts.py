"""Sentences on the differences of a triplet's prompts: the word for the person, its article, or whole captions."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.report.format import counted, listed
from analysis.study import Member
from hooks.prompt.spans import split_words
from probes.config.schema import Config
from probes.prompts.sample import PromptTokens, Text, token_counts_line, unknown_words_line
from probes.runs.run import Run

ARTICLES = ("a", "an")
PERSON = "{person}"


def origin_sentence(samples: pd.DataFrame, config: Config) -> str:
    """Say who drew the images of a run, and what those of a triplet share."""
    if config.images is None:
        return shared_sentence(samples, config.paired) if config.compares else ""
    if not config.compares:
        return "Another program drew them."
    if config.paired:
        return "Another program drew them; by the rows that came with them, the images of a triplet share a seed."
    return "Another program drew them, and nothing pairs the images of a triplet."


def spoken_words(config: Config, people: Sequence[Member]) -> dict[str, list[str]]:
    """The words of each indicator that is no control, with its controls': what stands in the prompts; else nothing."""
    if not config.compares and not any(prompt.template for prompt in config.prompts):
        return {}
    return {
        one.name: [one.word, *(own.word for own in people if own.control == one.name)]
        for one in people
        if not one.control
    }


def shared_sentence(samples: pd.DataFrame, paired: bool = True) -> str:
    """Say what the members of a triplet share, and in what they differ."""
    prompts = samples.drop_duplicates(["triplet", "indicator"])
    free = prompts[prompts["template"].fillna("") == ""]
    if free.empty:
        article = " and its article" if article_warning(samples) else ""
        differs = "differ" if article else "differs"
        if not paired:
            return (
                "Every image has its own noise; members of a triplet share the prompt but for the word for the "
                f"person{article}."
            )
        return (
            f"Members of a triplet share prompt and noise; only the word for the person{article} {differs}."
        )
    separate = []
    for _, own in free.groupby("triplet", sort=False):
        rests = [_rest(words, word) for words, word in zip(own["words"], own["word"])]
        if len(set(rests)) > 1:
            other = next(number for number, rest in enumerate(rests) if rest != rests[0])
            separate.append((own["prompt"].iloc[0], own["prompt"].iloc[other]))
    n = free["triplet"].nunique()
    noise = "Members of a triplet share the noise." if paired else "Every image has its own noise."
    whole = prompts["triplet"].nunique()
    which = (
        "Their captions were" if n == whole else f"The captions of {n} of {counted(whole, 'triplet')} were"
    )
    if not separate:
        return f"{noise} {which} written freely; only the word for the person and its article differ."
    shown = ", ".join(f"“{prompt}”" for prompt in separate[0])
    return (
        f"{noise} {which} written freely: in {len(separate)} of {counted(n, 'triplet')} "
        f"more than the word for the person and its article differs ({shown})."
    )


def article_warning(samples: pd.DataFrame) -> str:
    """Say which words stand after another article than the others; empty where all share theirs.

    >>> rows = {"triplet": 0, "template": "a {person}", "indicator": ["n", "c"], "word": ["person", "adult"]}
    >>> article_warning(pd.DataFrame(rows | {"words": [["a", "person"], ["an", "adult"]]}))[:44]
    '“adult” takes “an” where “person” takes “a”:'
    """
    prompts = samples.drop_duplicates(["triplet", "indicator"])
    prompts = prompts[prompts["template"].fillna("").str.contains(PERSON, regex=False)]
    words: dict[str, list[str]] = {}
    for _, own in prompts.groupby("triplet", sort=False):
        before = [_article(template, spoken) for template, spoken in zip(own["template"], own["words"])]
        if len(set(before)) > 1:
            for article, word in zip(before, own["word"]):
                if word not in words.setdefault(article, []):
                    words[article].append(word)
    words = {article: names for article, names in words.items() if article}
    if len(words) < 2:
        return ""
    (usual, others), *rest = sorted(words.items(), key=lambda item: -len(item[1]))
    odd = "; ".join(f"{_quoted(names)} {_take(names)} “{article}”" for article, names in rest)
    return (
        f"{odd} where {_quoted(others)} {_take(others)} “{usual}”: an article is a word too, and changes what is "
        f"drawn. What it makes is counted among the differences of words; words that share their article do not mix "
        f"the two."
    )


def _article(template: str, words: Sequence[str]) -> str:
    """The article right before the word for the person, as the prompt has it; empty where there is none."""
    place = len(split_words(template.split(PERSON)[0]))
    word = words[place - 1].lower() if place else ""
    return word if word in ARTICLES else ""


def _rest(words: Sequence[str], word: str) -> tuple[str, ...]:
    """The words of a free caption without the word for the person and the article before it."""
    have, wanted = [one.lower() for one in words], [one.lower() for one, _ in split_words(word)]
    for start in range(len(have) - len(wanted) + 1):
        if wanted and have[start : start + len(wanted)] == wanted:
            begin = start - 1 if start and have[start - 1] in ARTICLES else start
            return (*have[:begin], *have[start + len(wanted) :])
    return tuple(have)


def _quoted(names: Sequence[str]) -> str:
    return listed(f"“{name}”" for name in names)


def _take(names: Sequence[str]) -> str:
    return "takes" if len(names) == 1 else "take"


def token_sentences(run: Run) -> list[str]:
    """Say which words the model of a run does not know, and which prompts differ in their number of tokens.

    Nothing where all words are known and all prompts of a triplet have as many tokens, or where another program
    generated the images, whose tokens are not known.
    """
    rows = (row for table in run.part_tables("samples", Text._fields) for row in table.to_pylist())
    read = PromptTokens.from_texts(Text(**row) for row in rows)
    lines = (unknown_words_line(read, run.config.model), token_counts_line(read, run.config.reference))
    return [
        f"{line[0].upper()}{line[1:]}." if line.startswith("read") else f"{line}." for line in lines if line
    ]


def left_out_sentence(samples: pd.DataFrame) -> str:
    """Say how many images enter no mean, why, and with which words; empty where all do."""
    out = samples[samples["left_out"].notna()]
    if out.empty:
        return ""
    reasons = out["left_out"].str.removeprefix("image left out: ").value_counts(sort=False)
    why = "; ".join(f"{reason}: {number:,}" for reason, number in reasons.items())
    each = [
        f"{name} {int(own['left_out'].notna().sum()):,} of {len(own):,}"
        for name, own in samples.groupby("indicator", sort=False)
    ]
    return (
        f"{len(out):,} of {counted(len(samples), 'image')} ({why}). By indicator: {', '.join(each)}. What is compared"
        " with such an image is undefined in every space, and n counts the rest; a filter that takes images of one"
        " word more often than of another can make a difference of its own."
    )
