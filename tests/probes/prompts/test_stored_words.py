"""The words that a sample stores: those its prompt is split into anew, with the tokens of every text encoder."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.prompt.spans import encode, split_words, token_positions
from probes.config.schema import Config
from probes.prompts.plan import plan
from probes.runs import parts, schemas
from probes.runs.store import Run
from tests.hooks.prompt.test_spans import KINDS, TEXTS, tokenizer

PLAIN = TEXTS.map(lambda text: text.translate({ord("{"): "(", ord("}"): ")"}))
PROMPTS = st.tuples(
    PLAIN, st.sampled_from(["", " ", "-", '"']), st.sampled_from(["", " ", "'s ", "-like "]), PLAIN
).map(lambda found: "{}{}{{person}}{}{}".format(*found))


@pytest.fixture(scope="module")
def tokenizers():
    return [tokenizer(kind) for kind in KINDS]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("runs"), {})


def written(run, samples):
    """What is read of samples once they are stored; the images are left out."""
    rows = [{**sample.row(), "image": None} for sample in samples]
    parts.write_part(run.part_path("samples", 0), rows, schemas.SAMPLES, parts.identity(0, {}))
    return run.samples().to_dict("records")


def lists(values):
    return [list(map(int, one)) for one in values]


@settings(deadline=None)
@given(prompt=PROMPTS)
def test_words_stored_are_those_split_anew(run, tokenizers, prompt):
    samples = plan(Config(prompts=[prompt]), tokenizers)
    for sample, row in zip(samples, written(run, samples), strict=True):
        text = sample.prompt
        words = split_words(text)
        assert row["prompt"] == text and list(row["words"]) == [word for word, _ in words]
        assert lists(row["word_spans"]) == [list(span) for _, span in words]
        for name, read in zip(("word_positions", "word_positions_2"), tokenizers, strict=True):
            ((_, offsets),) = encode(read, [text], "here")
            assert lists(row[name]) == [list(token_positions(offsets, span)) for _, span in words]


def test_a_model_with_one_text_encoder_has_no_second_positions(run, tokenizers):
    (row, *_) = written(run, plan(Config(prompts=["the {person}'s non-binary hat"]), tokenizers[:1]))
    assert list(row["words"]) == ["the", "person's", "non-binary", "hat"]
    assert lists(row["word_spans"]) == [[0, 3], [4, 12], [13, 23], [24, 27]]
    assert row["word_positions_2"] is None
    spoken = ["".join(row["tokens"][place] for place in own) for own in row["word_positions"]]
    assert [word.replace("</w>", "") for word in spoken] == list(row["words"])
