"""A run of an earlier format is refused in a line, whatever is asked for, and is left as it is."""

import shutil

import pytest

from hooks.prompt.spans import split_words
from probes.errors import UserError
from probes.runs import parts
from probes.runs.store import Run
from tests.probes.conftest import generated, settings, stored


@pytest.fixture(scope="module")
def whole(saved, tmp_path_factory):
    return generated(tmp_path_factory.mktemp("runs") / "whole", settings(saved()))


@pytest.fixture
def earlier(whole, tmp_path):
    """The same run as format 2."""
    run = Run.open(shutil.copytree(whole.path, tmp_path / "earlier"))
    run.write_meta(format=2)
    return run.path


def test_a_run_holds_the_words_of_its_prompts(whole):
    samples, maps = Run.open(whole.path).samples(), whole.words()
    for row in samples.itertuples():
        assert [(word, tuple(span)) for word, span in zip(row.words, row.word_spans)] == split_words(
            row.prompt
        )
        assert maps.loc[maps["sample_id"] == row.sample_id, "word"].tolist() == list(row.words)
    assert samples["word_positions_2"].isna().all() and whole.meta["format"] == parts.FORMAT


@pytest.mark.parametrize("overwrite", [False, True])
def test_it_is_neither_read_nor_gone_on_with(overwrite, earlier, saved):
    before = stored(earlier)
    line = (
        f"{earlier / 'run.json'}: expected a run of format 3, got one of format 2, which an earlier triptych wrote:"
        " run its triplets.yaml again with another --out, or read it with the version that wrote it"
    )
    with pytest.raises(UserError) as caught:
        generated(earlier, settings(saved()), overwrite=overwrite)
    assert str(caught.value) == line
    with pytest.raises(UserError) as caught:
        Run.open(earlier)
    assert str(caught.value) == line and stored(earlier) == before


def test_a_part_of_it_among_others_is_refused(whole, tmp_path, saved):
    mixed = Run.open(shutil.copytree(whole.path, tmp_path / "mixed"))
    file = mixed.part_path("samples", 1)
    kept = {key: value for key, value in parts.read_identity(file).items() if key != "content"}
    parts.write_part_table(file, parts.read_part(file).drop_columns(["word_spans"]), kept | {"format": 1})
    with pytest.raises(
        UserError, match=r"part-00001\.parquet of .*: format is 1 there, expected 3: use --overwr"
    ):
        generated(mixed.path, settings(saved()))
    with pytest.raises(UserError, match=r"part-00001.*: expected a column `word_spans`, got none"):
        mixed.samples()
