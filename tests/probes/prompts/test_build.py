"""Prompts from elsewhere inside a configuration, ``triptych prompts build``, and a run of what it wrote."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from probes.config.loading import load_config
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts import build, of_captions, sets, stored
from probes.prompts.plan import plan
from probes.runs.store import Run
from tests.tiny import tiny_tokenizer
from triptych.cli import run as stages
from triptych.cli.main import command as command_of

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


def refused(argv, capsys):
    assert command_of("prompts")([str(argument) for argument in argv]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "Traceback" not in said.err
    return said.err


def test_prompts_from_captions_stand_beside_the_file_that_names_them(captions, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    said = []
    config = load_config(written(tmp_path, f"prompts: {{from: {captions.name}}}"), None, said)
    assert [prompt["feminine"] for prompt in config.prompts] == FEMININE
    assert [prompt["id"] for prompt in config.prompts] == ["c000001", "c000003", "c000004"]
    assert said[0].selection.read == 5
    assert Config.model_validate(config.resolved()) == config  # the prompts themselves are kept


def test_every_place_of_a_word_is_the_indicators(captions, tmp_path):
    config = load_config(written(tmp_path, f"prompts: {{from: {captions.name}}}"))
    samples = plan(config, [tiny_tokenizer(32)])
    words = [[s.tokens[i].replace("</w>", "") for i in s.indicator_positions] for s in samples]
    assert [" ".join(w) for w in words[3:6]] == ["people", "women", "men"]
    assert [" ".join(w) for w in words[6:9]] == ["person person", "woman woman", "man man"]
    shared = [[s.tokens[i].replace("</w>", "") for i in s.shared_positions] for s in samples]
    assert shared[6:9] == [["a", "with", "a"]] * 3


def test_a_set_and_a_plural_of_the_users(captions, tmp_path):
    config = load_config(written(tmp_path, "prompts: {from: professions}\nlimit: 3"))
    assert config.prompts[13]["feminine"].startswith("a female ecologist")
    text = (
        f"indicators: {{neutral: person, ze: {{word: ze, plural: zem}}}}\nprompts: {{from: {captions.name}}}"
    )
    config = load_config(written(tmp_path, text))
    assert config.prompts[1]["ze"] == "zem in the park"


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
    "prompts: {from: C, format: xml}": "prompts.format: expected 'auto'",
    "prompts: {from: C, max_words: 0}": "prompts.max_words:",
    "prompts: {from: C, split: train}": "expected a split of a data set alone",
    "prompts: {from: C, format: flickr30k}": "line 1: expected image.jpg#0, a tab and a caption",
    "prompts: {from: C, column: x}": "expected no column",
    "prompts: {from: C, max_words: 2}": "expected a neutral caption",
    "prompts: {from: C, format: triplets}": "expected a Parquet file, got a damaged one",
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
    (tmp_path / "a.txt").write_text("a man\na dog\na person and a man\n")
    with pytest.raises(
        UserError, match=r"found none in 3 \(2 no person or people; 1 another word for a human"
    ):
        load_config(written(tmp_path, "prompts: {from: a.txt}"))
    (tmp_path / "a.csv").write_text("caption\n")
    with pytest.raises(UserError, match=r"expected captions, found none \(csv\)"):
        load_config(written(tmp_path, "prompts: {from: a.csv}"))


def test_few_prompts_are_written_into_the_file(captions, tmp_path, capsys):
    out = tmp_path / "built"
    assert command_of("prompts")(["build", str(captions), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "5 captions, 3 neutral prompts" in said and "1  another word for a human (Table 2): man 1" in said
    assert "Table 4: 51,219 triplets of COCO, 3 here" in said and said.count("feminine") == 3
    data = yaml.safe_load((out / "triplets.yaml").read_text())
    assert [prompt["feminine"] for prompt in data["prompts"]] == FEMININE
    report = json.loads((out / "report.json").read_text())
    assert (report["captions"], report["prompts"], report["human_words"]) == (5, 3, {"man": 1})
    assert "add --overwrite" in refused(["build", captions, "--out", out], capsys)
    assert (
        command_of("prompts")(["build", str(captions), "--out", str(out), "--overwrite", "--limit", "1"]) == 0
    )
    assert len(load_config(out / "triplets.yaml").prompts) == 1


def test_prompts_beyond_a_page_stand_in_parquet(tmp_path, capsys):
    source = tmp_path / "a.txt"
    source.write_text("".join(f"a person with {n} dogs\n" for n in range(build.IN_YAML + 1)))
    out = tmp_path / "built"
    words = ["--indicators", "neutral=person", "adult=adult", "ze=ze/zem"]
    assert command_of("prompts")(["build", str(source), "--out", str(out), *words]) == 0
    assert capsys.readouterr().out.count("\nc0") == build.SHOWN
    config = load_config(out / "triplets.yaml")
    assert len(config.prompts) == build.IN_YAML + 1
    assert config.prompts[7] == {
        **{"id": "c000008", "neutral": "a person with 7 dogs"},
        **{"adult": "an adult with 7 dogs", "ze": "a ze with 7 dogs"},
    }
    text = (out / "triplets.yaml").read_text()
    other = written(out, text.replace("word: adult", "word: human"), "other.yaml")
    with pytest.raises(UserError, match="adult is adult/adults there, human/humans here"):
        load_config(other)
    (out / "prompts.parquet").write_bytes((out / "prompts.parquet").read_bytes()[:-9])
    with pytest.raises(UserError, match="got a damaged one"):
        load_config(out / "triplets.yaml")


def test_stored_prompts_that_are_not_ours_or_empty(tmp_path):
    path, words = tmp_path / "a.parquet", {"n": ("person", "people")}
    pq.write_table(pa.table({"id": ["a"], "n": ["b"]}), path)
    with pytest.raises(UserError, match="got another Parquet file"):
        stored.read(path, words)
    stored.write(path, [], words)
    with pytest.raises(UserError, match="expected prompts, found none"):
        stored.read(path, words)
    stored.write(path, [{"id": "a", "n": " "}], words)
    with pytest.raises(UserError, match="row 1: expected a text in every column"):
        stored.read(path, words)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--max-words", "x"], "--max-words: expected an integer, got 'x'"),
        (["--indicators", "person"], "--indicators: expected NAME=WORD"),
        (["--indicators", "n=person", "n=man"], "each name once"),
        (["--column", "x"], "expected no column"),
        (["--format", "xml"], "invalid choice"),
        (["--limit", "0"], "--limit:"),
    ],
)
def test_the_command_line_refuses_in_a_line(more, expected, captions, tmp_path, capsys):
    assert expected in refused(["build", captions, "--out", tmp_path / "out", *more], capsys)
    assert not (tmp_path / "out").exists()


def test_what_was_built_is_planned_and_drawn(captions, tmp_path, capsys):
    out, folder = tmp_path / "built", tmp_path / "run"
    assert command_of("prompts")(["build", str(captions), "--out", str(out)]) == 0
    line = [str(out / "triplets.yaml"), "--out", str(folder), "--steps", "2", "--workers", "1"]
    assert stages.main([*line, "--stage", "plan"]) == 0
    assert "planned 9 images" in capsys.readouterr().out
    assert stages.main([*line, "--stage", "generate", "--quiet"]) == 0
    samples = Run.open(folder).samples()
    assert sorted(samples["prompt"][samples["indicator"] == "feminine"]) == sorted(FEMININE)


def test_a_run_reads_captions_itself_and_knows_when_they_have_changed(
    captions, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, f"prompts: {{from: {captions.name}}}")
    line = [path.name, "--out", "run", "--stage", "plan"]
    assert stages.main(line) == 0
    assert "prompts: 3 of 5 captions of" in capsys.readouterr().err
    meta = Run.open("run").meta
    assert meta["config"]["passed"]["file"]["prompts"] == {"from": captions.name}
    assert meta["config"]["resolved"]["prompts"][2]["masculine"] == "a man with a man"
    captions.write_text(captions.read_text().replace("in the park", "on the beach"))
    for found in ("others", "none"):
        assert stages.main(line) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert (
            f"{captions.name}: expected the captions that the run was planned from, found {found}: put"
            in error
        )
        assert "(triptych run run)" in error
        captions.unlink(missing_ok=True)
    assert stages.main(["run", "--stage", "plan"]) == 0  # of the prompts that it keeps
    assert stages.main([*line[:2], "other", *line[3:]]) == 2
    assert "expected a file of captions or a set" in capsys.readouterr().err


def test_a_plan_says_how_many_captions_are_left_out_and_why_with_an_example_each(tmp_path, capsys):
    texts = ["a person in a hat", "he sings", "a nurse", "a man", "a person and a man", "people and a boy"]
    texts += ["a person in a hat.", "a person in a hat", "the band in person"]
    (tmp_path / "photos.csv").write_text("caption\n" + "\n".join(texts))
    path = written(tmp_path, "prompts: {from: photos.csv}")
    assert stages.main([str(path), "--out", str(tmp_path / "run"), "--dry-run"]) == 0
    assert capsys.readouterr().err.splitlines()[:4] == [
        f"prompts: 1 of 9 captions of {tmp_path / 'photos.csv'} is neutral, 8 are left out",
        "  3 no person or people, such as “he sings”",
        "  2 another word for a human (Table 2): man 1, boy 1, such as “a person and a man”",
        "  2 said before, such as “a person in a hat.”; 1 for other reasons",
    ]


def test_captions_longer_than_the_model_reads_are_left_out_and_said(tmp_path, capsys):
    long = "a person with a dog and " + "a cat and " * 24 + "a ball"
    text = "\n".join([long, *SAID, "\u00e9" * 40 + " people in the park"])
    (tmp_path / "captions.txt").write_text(text, encoding="utf-8")
    path = written(tmp_path, "prompts: {from: captions.txt, max_words: 100}\nlimit: 2")
    line = [str(path), "--out", str(tmp_path / "run"), "--stage", "plan"]
    assert stages.main(line) == 0
    assert "prompts: 2 are left out, longer than the 32 tokens that the model reads: c000001, c000007" in (
        capsys.readouterr().err
    )
    stored_run = Run.open(tmp_path / "run")
    kept = stored_run.meta["captions"]
    assert kept["longer_than_the_model_reads"] == ["c000001", "c000007"] and kept["tokens_read"] == 32
    assert (kept["captions"], kept["prompts"]) == (7, 5) and kept["dropped"] == {
        "another word for a human (Table 2)": 1,
        "said before": 1,
    }
    assert [prompt["id"] for prompt in stored_run.config.prompts] == ["c000002", "c000004", "c000005"]
    # what needs no model leaves out what the plan left out
    said = []
    read = load_config(path, {("out",): ("--out", str(tmp_path / "run"))}, said)
    assert of_captions.as_planned(read, said[0]).prompts == stored_run.config.prompts != read.prompts
    assert stages.main(line) == 0  # and the run goes on
    (tmp_path / "captions.txt").write_text(long)
    assert stages.main([*line[:2], str(tmp_path / "other"), *line[3:]]) == 2
    assert (
        "expected captions of at most 32 tokens with start and end, found none in 1"
        in capsys.readouterr().err
    )
