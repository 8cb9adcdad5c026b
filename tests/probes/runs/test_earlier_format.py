"""Samples of format 1: read with the characters of their words made anew, and never gone on with."""

import shutil

import pandas as pd
import pytest

from analysis.tables.objects.nouns import PROMPT_COLUMNS, noun_table
from hooks.prompt.spans import split_words
from probes.errors import UserError
from probes.runs import parts
from probes.runs.earlier_format import spans_anew
from probes.runs.store import Run
from tests.probes.conftest import generated, settings, stored

NEW = ["word_spans", "word_positions_2", "fault"]


def as_format_1(file):
    """Write a part as the version before did."""
    table, ident = parts.read_part(file), parts.read_identity(file)
    ident = {key: value for key, value in ident.items() if key != "content"} | {"format": 1}
    parts.write_part_table(
        file, table.drop_columns([name for name in NEW if name in table.column_names]), ident
    )


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    return generated(tmp_path_factory.mktemp("runs") / "whole", settings(saved()))


@pytest.fixture
def former(whole, tmp_path):
    """The same run in format 1."""
    run = Run.open(shutil.copytree(whole.path, tmp_path / "former"))
    for kind in ("samples", "captures", "words"):
        for file in run.parts(kind):
            as_format_1(file)
    run.write_meta(format=1)
    return Run.open(run.path)


def test_a_run_holds_the_words_of_its_prompts(whole):
    samples, maps = Run.open(whole.path).samples(), whole.words()
    for row in samples.itertuples():
        assert [(word, tuple(span)) for word, span in zip(row.words, row.word_spans)] == split_words(
            row.prompt
        )
        assert maps.loc[maps["sample_id"] == row.sample_id, "word"].tolist() == list(row.words)
    assert samples["word_positions_2"].isna().all() and whole.meta["format"] == 3


def test_its_words_are_laid_over_the_prompt_again(whole, former):
    samples, anew = whole.samples(), former.samples()
    assert set(samples) - set(anew) == {"word_positions_2", "fault"} and former.faults() == {}
    spans = [[[tuple(span) for span in row] for row in side["word_spans"]] for side in (samples, anew)]
    assert spans[0] == spans[1]
    assert list(former.samples(PROMPT_COLUMNS)) == list(PROMPT_COLUMNS)
    assert list(former.samples(["seed"])) == ["seed"]
    tables = [noun_table(run.samples(PROMPT_COLUMNS)) for run in (whole, former)]
    pd.testing.assert_frame_equal(*tables)
    assert (tables[0]["word_index"] >= 0).all() and len(tables[0])


@pytest.mark.parametrize("missing", [None, "samples"])
def test_it_is_not_gone_on_with(former, saved, missing):
    if missing:
        former.part_path(missing, 1).unlink()
    before = stored(former.path)
    with pytest.raises(UserError) as caught:
        generated(former.path, settings(saved()))
    assert str(caught.value) == (
        f"part-00000.parquet of {former.path}: holds another run: format is 1 there, expected 3: use --stage measure to"
        " measure what is there, --overwrite to draw it anew, or another --out"
    )
    assert stored(former.path) == before and Run.open(former.path).meta["format"] == 1


def test_a_part_of_it_among_others_is_refused(whole, former, tmp_path, saved):
    mixed = Run.open(shutil.copytree(whole.path, tmp_path / "mixed"))
    shutil.copy(former.part_path("samples", 1), mixed.part_path("samples", 1))
    with pytest.raises(UserError, match=r"part-00001\.parquet of .*: format is 1 there, expected 3"):
        generated(mixed.path, settings(saved()))
    with pytest.raises(UserError, match=r"part-00001.*: expected a column `word_spans`, got none"):
        mixed.samples()


def test_it_is_drawn_anew_where_that_is_asked_for(whole, former, saved):
    generated(former.path, settings(saved()), overwrite=True)
    assert stored(former.path) == stored(whole.path)


def test_spans_of_words_that_are_parts_of_others():
    assert spans_anew('"art" in a cart, art', ["art", "in", "a", "cart", "art"]) == [
        (1, 4),
        (6, 8),
        (9, 10),
        (11, 15),
        (17, 20),
    ]
