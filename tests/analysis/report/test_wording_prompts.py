"""What the report says of the words and tokens of its prompts, read from the stored samples."""

from types import SimpleNamespace

import pyarrow as pa

from analysis.report.wording_prompts import token_sentences
from probes.config.schema import Config
from probes.models import loading
from probes.runs.schemas import SAMPLES
from probes.stages.plan import plan


def stored(model="toyworld", tokens=True, **words):
    """A run as far as its samples go, in parts of four rows."""
    config = Config(
        prompts=["a {person} in a hat", "a {person} with a dog"], seeds=[0, 1], model=model, indicators=words
    )
    source = loading.resolve("toyworld")
    made = plan(config, source.tokenizers, source.token_limit)
    rows = [
        sample.row() | ({} if tokens else {"tokens": [], "words": [], "word_positions": []})
        for sample in made
    ]

    def part_tables(kind, columns):
        assert kind == "samples"
        for start in range(0, len(rows), 4):
            yield pa.Table.from_pylist(rows[start : start + 4], schema=SAMPLES).select(columns)

    return SimpleNamespace(config=config, part_tables=part_tables)


def test_words_that_are_known_and_as_long_need_no_sentence():
    assert token_sentences(stored(neutral="person", feminine="woman", masculine="man")) == []


def test_of_another_model_the_pieces_are_said():
    first, _ = token_sentences(stored("owner/model", neutral="person", feminine="woman", doctor="doctor"))
    assert first.startswith(
        "Read in pieces: “doctor” as 5 tokens (do·c·t·o·r, short pieces, as of rare words); a model"
    )


def test_of_images_of_another_program_nothing_is_known():
    assert token_sentences(stored(tokens=False, neutral="person", feminine="woman", doctor="doctor")) == []
