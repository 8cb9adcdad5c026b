"""How long do captions take: to be chosen, to be swapped, to be planned? Processor seconds of one process.

    python -m tests.benchmarks.captions [--captions 600000] [--triplets 51219]

chooses the neutral ones of made-up captions of COCO's form (one in eight has *person* or *people*, a quarter of those
another word of Table 2), swaps and plans as many triplets as COCO gave Wu et al. 2025 (Table 4), and prints JSON. The
tokenizer is CLIP's in kind, with toyworld's vocabulary and 77 tokens. Texts are tokenized by their chunks and, beside
it in the same run, directly (`probes.prompts.chunks`). The machine may be shared, so that only seconds
of the processor, which include those of the tokenizer's threads, say something.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from probes.config.schema import Config
from probes.models import loading
from probes.prompts import tokens
from probes.prompts.captions import select, triplets
from probes.prompts.plan import plan

# toyworld's, so that a word is a token, as everyday words are in CLIP's vocabulary
NOUNS = (
    "horse",
    "table",
    "umbrella",
    "kite",
    "rack",
    "guitar",
    "park",
    "bike",
    "car",
    "box",
    "beach",
    "couch",
    "dog",
)
VERBS = ("riding", "holding")
NEUTRAL = ("A person", "Two people", "The person's dog", "A group of people", "A person with two people")
NOT_NEUTRAL = ("A person and a boy", "Several people and a man")
OTHERS = ("A dog", "A man", "A woman", "A red bus", "A plate of food", "A cat", "Two giraffes", "A train")
WORDS = {"neutral": ("person", "people"), "feminine": ("woman", "women"), "masculine": ("man", "men")}


def captions(count: int, seed: int = 0) -> list[str]:
    """Made-up captions of ten words, most of them different."""
    draw = random.Random(seed)
    made = []
    for number in range(count):
        kind = NEUTRAL * 3 + NOT_NEUTRAL * 2 if number % 8 == 0 else OTHERS
        made.append(
            f"{draw.choice(kind)} {draw.choice(VERBS)} a {draw.choice(NOUNS)} with a {draw.choice(NOUNS)} and a"
            f" {draw.choice(NOUNS)} on the {draw.choice(NOUNS)} {draw.choice(NOUNS)}."
        )
    return made


def timed(work):
    """The result of `work`, and the processor seconds that it took."""
    began = time.process_time()
    result = work()
    return result, round(time.process_time() - began, 2)


def measure(count: int, triplet_count: int) -> dict:
    """The figures of the benchmark."""
    select(captions(1000))  # the dictionary of plurals is read once
    source = captions(count)
    chosen, choosing = timed(lambda: select(source))
    kept = chosen.kept
    while len(kept) < triplet_count:
        kept = select([f"{neutral.text} {len(kept)}" for neutral in kept] + [n.text for n in kept]).kept
    prompts, swapping = timed(lambda: triplets(kept[:triplet_count], WORDS))
    config, checking = timed(lambda: Config(prompts=prompts))
    tokenizers, _ = loading.tokenizers(loading.resolve("toyworld", weights=False))
    tokenizers[0].model_max_length = 77
    samples, planning = timed(lambda: plan(config, tokenizers, 77))
    texts = [sample.prompt for sample in samples]
    by_chunks, quick = timed(lambda: tokens.tokenize_all(texts, tokenizers[0], str))
    tokens.BY_CHUNKS = len(texts) + 1
    directly, slow = timed(lambda: tokens.tokenize_all(texts, tokenizers[0], str))
    assert by_chunks == directly
    return {
        "captions": count,
        "neutral": len(chosen.kept),
        "choosing_seconds": choosing,
        "triplets": len(prompts),
        "swapping_seconds": swapping,
        "checking_seconds": checking,
        "images": len(samples),
        "planning_seconds": planning,
        "tokenizing_seconds": {"by chunks": quick, "directly": slow, "ratio": round(slow / quick, 1)},
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--captions", type=int, default=600_000)
    parser.add_argument("--triplets", type=int, default=51_219)
    parser.add_argument("--out", type=Path, help="a JSON file, beside what is printed")
    options = parser.parse_args()
    text = json.dumps(measure(options.captions, options.triplets), indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
