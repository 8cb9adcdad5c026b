"""Sentences on prompts (``templates/sentences/prompts.j2``): what a triplet shares, its words, its tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.report.environment import sentence
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
        started = f"Images start from pictures (image to image, strength {config.generate.strength:g})"
        shared = shared_sentence(samples, config.paired) if config.compares else ""
        return f"{started}, those of a triplet from one. {shared}" if config.generate.from_images else shared
    return sentence("prompts", "origin", config.compares, config.paired)


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
    separate = []
    for _, own in free.groupby("triplet", sort=False):
        rests = [_rest(words, word) for words, word in zip(own["words"], own["word"])]
        other = next((number for number, rest in enumerate(rests) if rest != rests[0]), None)
        if other is not None:
            separate.append((own["prompt"].iloc[0], own["prompt"].iloc[other]))
    counts = (prompts["triplet"].nunique(), free["triplet"].nunique())
    return sentence("prompts", "shared", paired, article_warning(samples), *counts, separate)


def article_warning(samples: pd.DataFrame) -> str:
    """Say which words stand after another article than the others; empty where all share theirs.

    >>> rows = {"triplet": 0, "template": "a {person}", "indicator": ["n", "c"], "word": ["person", "adult"]}
    >>> article_warning(pd.DataFrame(rows | {"words": [["a", "person"], ["an", "adult"]]}))[:44]
    '“adult” takes “an” where “person” takes “a”:'
    """
    prompts = samples.drop_duplicates(["triplet", "indicator"])
    prompts = prompts[prompts["template"].fillna("").str.contains(PERSON, regex=False)]
    words: dict[str, dict[str, None]] = {}
    for _, own in prompts.groupby("triplet", sort=False):
        before = [_article(template, spoken) for template, spoken in zip(own["template"], own["words"])]
        if len(set(before)) > 1:
            for article, word in zip(before, own["word"]):
                words.setdefault(article, {})[f"“{word}”"] = None
    words.pop("", None)
    ordered = sorted(
        ((article, list(names)) for article, names in words.items()), key=lambda one: -len(one[1])
    )
    return sentence("prompts", "articles", ordered) if len(ordered) > 1 else ""


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
    out = samples["left_out"].dropna().astype(str).str.removeprefix("image left out: ")
    if out.empty:
        return ""
    counts = samples.groupby("indicator", sort=False)["left_out"].agg(["count", "size"])
    by_indicator = {name: (int(own), int(every)) for name, own, every in counts.itertuples()}
    reasons = out.value_counts(sort=False).to_dict()
    return sentence("prompts", "left_out", len(out), len(samples), reasons, by_indicator)
