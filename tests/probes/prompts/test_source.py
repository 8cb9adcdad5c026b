"""Prompts from elsewhere inside a configuration, and ``triptych init --from``."""

import json

import pytest
import yaml

from probes.config.schema import Config, build_config, load_config, read_source
from probes.errors import UserError
from probes.prompts import sets
from probes.runs.run import Run
from probes.stages import captions as captions_stage
from probes.stages.plan import plan
from tests.tiny import tiny_tokenizer
from triptych.cli.main import command as command_of
from triptych.cli.main import main

# words that toyworld knows; with a man, a plural, two people and a duplicate
SAID = [
    "A person with a dog.",
    "A man with a person",
    "people in the park",
    "a person with a person",
    "a person with a dog",
]
FEMININE = ["A woman with a dog.", "women in the park", "a woman with a woman"]


@pytest.fixture
def captions(tmp_path):
    path = tmp_path / "captions_val2017.json"
    entries = [{"id": i, "image_id": i, "caption": caption} for i, caption in enumerate(SAID)]
    path.write_text(json.dumps({"annotations": entries}))
    return path


def written(tmp_path, text, name="triplets.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_prompts_from_captions_stand_beside_the_file_that_names_them(captions, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    said = []
    source = read_source(written(tmp_path, f"prompts: {{from: {captions.name}}}"))
    config = build_config(source.data, source, context={"folder": tmp_path, "loaded": said})
    assert [prompt.texts["feminine"] for prompt in config.prompts] == FEMININE
    assert [prompt.id for prompt in config.prompts] == ["c000001", "c000003", "c000004"]
    assert said[0].read == 5
    assert Config.model_validate(config.resolved()) == config  # the prompts themselves are kept


def test_every_place_of_a_word_is_the_indicators(captions, tmp_path):
    config = load_config(written(tmp_path, f"prompts: {{from: {captions.name}}}"))
    samples = plan(config, [tiny_tokenizer(32)])
    words = [[s.tokens[i].replace("</w>", "") for i in s.indicator_positions] for s in samples]
    assert [" ".join(w) for w in words[3:6]] == ["people", "women", "men"]
    assert [" ".join(w) for w in words[6:9]] == ["person person", "woman woman", "man man"]
    shared = [[s.tokens[i].replace("</w>", "") for i in s.shared_positions] for s in samples]
    assert shared[6:9] == [["a", "with", "a"]] * 3


WRONG = {
    "prompts: {from: none.json}": (
        f"none.json: expected a file of captions or a set ({', '.join(sets.names())}), found none"
    ),
    "prompts: {form: a}": (
        "prompts: expected a list of prompts, {from: captions.json}, {table: prompts.csv}, {grid: ...} or"
        " {template: ..., texts: ...}, got {'form': 'a'}"
    ),
    "prompts: {from: C, colum: x}": "prompts.colum: unknown key, got 'x': did you mean `column`?",
    "prompts: {from: 3}": "prompts.from: expected a text, got 3",
    "prompts: {from: C, format: xml}": "prompts.format: expected 'auto' or 'datasets'",
    "prompts: {from: C, max_words: 0}": "prompts.max_words:",
    "prompts: {from: C, split: train}": "expected a split of a data set alone",
    "prompts: {from: C, column: x}": "annotations[0]: expected a column 'x', got id, image_id, caption",
    "prompts: {from: C, max_words: 2}": "expected a caption of one person",
    "prompts: {from: .}": "got a folder",
    "prompts: {from: C}\nreference: x": "reference: expected one of",
    "prompts: {from: C}\nindicators: {a: 3}": "indicators.a",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_said_in_a_line(text, captions, tmp_path):
    path = written(tmp_path, text.replace("from: C", f"from: {captions.name}"))
    with pytest.raises(UserError) as said:
        load_config(path)
    assert WRONG[text] in str(said.value)


def test_captions_without_a_neutral_one_say_what_there_was(tmp_path):
    (tmp_path / "a.txt").write_text("a cat\na dog\na person and a man\n")
    with pytest.raises(UserError, match=r"found none in 3 \(2 no person or people; 1 somebody else"):
        load_config(written(tmp_path, "prompts: {from: a.txt}"))
    (tmp_path / "a.csv").write_text("caption\n")
    with pytest.raises(UserError, match=r"expected captions, found none \(csv\)"):
        load_config(written(tmp_path, "prompts: {from: a.csv}"))


def test_init_writes_a_configuration_of_captions(captions, tmp_path, capsys):
    out = tmp_path / "own" / "triplets.yaml"
    out.parent.mkdir()
    init = command_of("init")
    assert init([str(out), "--from", str(captions)]) == 0
    assert yaml.safe_load(out.read_text())["prompts"] == {"from": f"../{captions.name}"}
    line = [str(out), "--out", str(tmp_path / "run"), "--steps", "2"]
    assert main(["plan", *line]) == 0
    said = capsys.readouterr()
    assert "\n9 images, " in said.out and "prompts: 3 of 5 captions of" in said.err
    assert init([str(out), "--from", "professions", "--overwrite"]) == 0
    assert (
        load_config(out).prompts[0].texts["feminine"]
        == "a female botanist presses a fern between two sheets of paper"
    )
    for wrong in (["--from", "a.txt", "--for", "sd15"], ["--column", "text"], ["--from", "a.txt"]):
        assert init([str(out), *wrong]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_a_run_reads_captions_itself_and_knows_when_they_have_changed(
    captions, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, f"prompts: {{from: {captions.name}}}")
    line = [path.name, "--out", "run", "--stage", "generate", "--steps", "1"]
    assert main(line) == 0
    assert "prompts: 3 of 5 captions of" in capsys.readouterr().err
    meta = Run.open("run").meta
    assert meta["config"]["passed"]["file"]["prompts"] == {"from": captions.name}
    assert meta["config"]["resolved"]["prompts"][2]["masculine"] == "a man with a man"
    captions.write_text(captions.read_text().replace("in the park", "on the beach"))
    assert main(line) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{captions.name}: expected the captions that the run was planned from, found others: put" in error
    assert "(triptych run run)" in error
    captions.unlink()
    assert main(["run", "run", "--stage", "generate"]) == 0  # of the prompts that it keeps
    assert main([*line[:2], "other", *line[3:]]) == 2
    assert "expected a file of captions or a set" in capsys.readouterr().err


def test_a_plan_says_how_many_captions_are_left_out_and_why_with_an_example_each(tmp_path, capsys):
    texts = ["a person in a hat", "he sings", "a nurse", "a man", "a person and a man", "people and a boy"]
    texts += ["a person in a hat.", "a person in a hat", "the band in person"]
    rows = ["Caption,photo", *(f"{text},1" for text in texts)]
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    path = written(tmp_path, "prompts: {from: photos.csv, rule: wu2025}")
    assert main(["plan", str(path), "--out", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().err.splitlines()[:6] == [
        f"prompts: 1 of 9 captions of {tmp_path / 'photos.csv'} is taken, 8 are left out",
        "  3 no person or people, such as “he sings”",
        "  2 another word for a human (Table 2): man 1, boy 1, such as “a person and a man”",
        "  2 said before, such as “a person in a hat.”; 1 for other reasons",
        "photos.csv: columns taken: 'Caption' as caption",
        "photos.csv: columns not used: photo",
    ]


def test_captions_longer_than_the_model_reads_are_left_out_and_said(tmp_path, capsys):
    long = "a person with a dog and " + "a cat and " * 24 + "a ball"
    text = "\n".join([long, *SAID, "\u00e9" * 40 + " people in the park"])
    (tmp_path / "captions.txt").write_text(text, encoding="utf-8")
    path = written(tmp_path, "prompts: {from: captions.txt, max_words: 100}\nlimit: 2")
    line = [str(path), "--out", str(tmp_path / "run"), "--stage", "generate", "--steps", "1"]
    assert main(line) == 0
    assert "prompts: 2 are left out, longer than the 32 tokens that the model reads: c000001, c000007" in (
        capsys.readouterr().err
    )
    stored_run = Run.open(tmp_path / "run")
    kept = stored_run.meta["captions"]
    assert kept["longer_than_the_model_reads"] == ["c000001", "c000007"] and kept["tokens_read"] == 32
    assert (kept["captions"], kept["prompts"]) == (7, 5) and kept["dropped"] == {
        "somebody else beside the person": 1,
        "said before": 1,
    }
    assert [prompt.id for prompt in stored_run.config.prompts] == ["c000002", "c000004", "c000005"]
    # what needs no model leaves out what the plan left out
    read = load_config(path, {("out",): ("--out", str(tmp_path / "run"))})
    assert captions_stage.without_recorded_captions(read).prompts == stored_run.config.prompts != read.prompts
    assert main(line) == 0  # and the run goes on
    (tmp_path / "captions.txt").write_text(long)
    assert main([*line[:2], str(tmp_path / "other"), *line[3:]]) == 2
    assert (
        "expected captions of at most 32 tokens with start and end, found none in 1"
        in capsys.readouterr().err
    )
