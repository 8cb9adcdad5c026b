"""Text on what a run will generate and compare, for ``--dry-run``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from analysis.report.format import counted
from analysis.report.prompt_tokens import PromptTokens, token_counts_line, unknown_words_line
from probes.config.schema import Config
from probes.errors import printable

if TYPE_CHECKING:
    from probes.prompts.sample import Sample

PROMPTS, SIDES, WIDTH = 5, 8, 90  # prompts, and sides of words, that are named; characters of a prompt
CONTRASTS = 12  # that are named


def describe(config: Config, read: PromptTokens) -> list[str]:
    """Return the plan in lines: model, words, prompts, contrasts, and what is to be known of them."""
    return [
        printable(
            f"model {config.model_name}, {config.sampler.steps} steps, seeds {_listed(config.seeds, 8)}"
        ),
        *_words(config),
        *_prompts(config),
        contrasts(config),
        *map(printable, warnings(config, read)),
        *_gallery(config),
    ]


def _gallery(config: Config) -> list[str]:
    """A line where the report shows some triplets of many and no folder with every one."""
    triplets = len(config.prompts[: config.limit]) * len(config.seeds)
    if config.report.all_triplets != "auto" or config.report.shows_all(triplets):
        return []
    return [
        f"gallery/ is not written of {triplets:,} triplets: report.all_triplets: true writes it, some"
        f" {math.ceil(triplets * 4e-5)} GB at most"
    ]


def comparison(config: Config) -> list[str]:
    """Return lines on what is compared, and on what so few prompts cannot show."""
    return [line for line in (contrasts(config), few_prompts(config)) if line]


def warnings(config: Config, read: PromptTokens) -> list[str]:
    """Return lines on what so few prompts cannot show, on words that the model does not know, and on tokens."""
    lines = (
        few_prompts(config),
        unknown_words_line(read, config.model),
        token_counts_line(read, config.reference),
    )
    return [line for line in lines if line]


def _words(config: Config) -> list[str]:
    """A line for each side: its word, and its synonyms; nothing where prompts hold no word of an indicator."""
    if not any(prompt.template for prompt in config.prompts) and not config.compares:
        return []
    sides = {name: [entry.word] for name, entry in config.indicators.items() if not entry.control}
    for entry in config.indicators.values():
        if entry.control:
            sides[config.reference if entry.control is True else entry.control].append(entry.word)
    lines = [
        f"  {name}{' (reference)' if name == config.reference else ''}: {_listed(own, 12)}"
        for name, own in sides.items()
    ]
    return [printable(line) for line in _some(["words", *lines], SIDES + 1, "sides")]


def _prompts(config: Config) -> list[str]:
    """The first prompts, a line each."""
    prompts = config.prompts[: config.limit]
    texts = [prompt.main_text(config.reference) for prompt in prompts[: PROMPTS + 1]]
    lines = [
        counted(len(prompts), "prompt"),
        *(f"  {' '.join(text.split())[:WIDTH]}" for text in texts[:PROMPTS]),
    ]
    if len(prompts) > PROMPTS:
        lines.append(f"  and {len(prompts) - PROMPTS:,} more")
    return [printable(line) for line in lines]


def _some(lines: list[str], most: int, what: str) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"  and {len(lines) - most} more {what}"]


def _listed(values: Sequence[object], most: int) -> str:
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return f"{', '.join(map(str, values[:most]))}{more}"


def table(samples: Sequence[Sample]) -> str:
    """Return the images as text, one row per image."""
    width = max(len(sample.sample_id) for sample in samples)
    rows = (
        f"{sample.sample_id:<{width}}  {sample.seed:>6}  {len(sample.tokens):>6}"
        f"  {printable(' '.join(sample.prompt.split()))}"
        for sample in samples
    )
    return "\n".join([f"{'sample_id':<{width}}  {'seed':>6}  tokens  prompt", *rows])


def contrasts(config: Config) -> str:
    """Return the contrasts in a line.

    >>> contrasts(Config(prompts=["a {person}"]))
    'contrasts, nearness to neutral (person): masculine (man) - feminine (woman)'
    >>> contrasts(Config(prompts=["a nurse"]))[:59]
    'one indicator, so nothing is compared. Left out: similarity'
    """
    if not config.compares:
        from analysis.tables.not_measured import left_out

        return f"one indicator, so nothing is compared. Left out: {'; '.join(left_out(config))}"
    words = {name: f"{name} ({indicator.word})" for name, indicator in config.indicators.items()}
    pairs = [f"{words[first]} - {words[second]}" for first, second in config.contrasts or []]
    if len(pairs) > CONTRASTS:
        pairs = [*pairs[:CONTRASTS], f"and {len(pairs) - CONTRASTS} more"]
    listed = "; ".join(pairs) or "none, so no gap is measured (there is no second word beside the reference)"
    if not pairs and len(config.indicators) > 2:
        listed = "none, so no gap is measured"
    return printable(f"contrasts, nearness to {words[config.reference]}: {listed}")


def stopping_lines(config: Config) -> list[str]:
    """Return lines on the question that ends a run, and on how many images it will take; nothing without one."""
    if config.stop is None:
        return []
    from analysis.methods.stopping.expected import EFFECTS, expected_prompts
    from analysis.methods.stopping.question import INTERVAL, StopQuestion
    from analysis.methods.stopping.wording import question_text

    question = StopQuestion.of(config)
    each = len(config.seeds) * len(config.indicators)
    lines = [
        f"    {effect:g} standard deviations: some {n:,} prompts, {n * each:,} images"
        for effect in EFFECTS
        if (n := expected_prompts(effect, level=question.level)) <= 2 * question.most
    ]
    off = "`within` is" if question.question == INTERVAL else "the gap is off 0, or off `within`, by"
    return [
        printable(
            f"stops when this is answered: {question_text(question, config.reference, question.shown)}"
        ),
        f"  asked from {question.fewest} prompts on, after each part; at most {question.most:,} prompts",
        f"  answered, in standard deviations between prompts, where {off}",
        *lines,
    ]


def cluster_lines(config: Config) -> list[str]:
    """Return a line on the workers of a cluster, if there are to be any.

    >>> options = {"address": "head:6379", "workers": 8, "gpus_per_worker": 1}
    >>> cluster_lines(Config(prompts=["a {person}"], cluster=options))
    ['cluster: up to 8 workers of Ray (head:6379), each with 1 GPU and 1 CPU']
    """
    if not config.clustered or (options := config.cluster) is None:
        return []
    gpus = options.gpus_per_worker
    count = "as many workers" if options.workers == "auto" else f"up to {options.workers} workers"
    each = "a GPU, where there are any," if gpus == "auto" else f"{gpus:g} GPU{'s' if gpus > 1 else ''}"
    cpus = f"{options.cpus_per_worker} CPU{'s' if options.cpus_per_worker > 1 else ''}"
    room = " as there is room for" if options.workers == "auto" else ""
    return [f"cluster: {count} of Ray ({options.address}){room}, each with {each} and {cpus}"]


def few_prompts(config: Config) -> str:
    """Return the warning that no p can fall below the level with so few prompts; nothing where it can.

    Prompts are exchangeable under the null hypothesis up to the sign of their gap: of 2^n equally likely signs two
    are as extreme as the most extreme, so that the smallest p is 2^-(n - 1).

    >>> few_prompts(Config(prompts=["a {person}", "the {person}"]))
    'with 2 prompts no p of a gap can fall below 0.5: 6 or more are needed for one below 0.05'
    """
    count = len(config.seeds if config.unit == "seed" else config.prompts[: config.limit])
    alpha = 1 - config.measure.level
    floor = 2.0 ** -(count - 1)
    if not config.contrasts or floor < alpha or (needed := _needed(alpha)) <= count:
        return ""
    prompts = counted(count, "prompt")
    if config.unit == "seed":
        prompts = f"1 prompt and {counted(count, 'seed')}"
    more = f"{needed} or more are needed for one below {alpha:.3g}"
    return f"with {prompts} no p of a gap can fall below {floor:g}: {more}"


def _needed(alpha: float) -> int:
    return next(count for count in range(1, 2000) if 2.0 ** -(count - 1) < alpha or count == 1999)
