"""People's answers: read from a file, joined over annotators, in the form of the other readers'."""

import numpy as np
import pytest

from analysis.metrics.skin_tone import monk_colours
from analysis.studies.labels.command import read_files
from analysis.tables.objects.human_answers import human_answers
from probes.errors import UserError
from probes.runs import schemas
from probes.runs.run import Run
from tests.analysis.observe.stored_images import image_run
from triptych.cli.main import command

HEAD = "about,image,question,annotator,label"
ONE, TWO = "t00000-s0-neutral", "t00001-s0-feminine"


@pytest.fixture
def run(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (64, 64, 3), np.uint8) for _ in range(5)]
    return image_run(tmp_path / "run", [*images, b"no image"], ["a person"])


def written(tmp_path, *rows, head=HEAD, name="labels.csv"):
    path = tmp_path / name
    path.write_text("\n".join((head, *(f"questions,{row}" for row in rows))) + "\n")
    return path


def answers_of(run, path):
    kind, rows = read_files(run, [path])
    assert kind.name == "questions"
    return rows


def test_what_most_say_counts_and_a_tie_is_undecided(run, tmp_path):
    assert human_answers(run).empty
    rows = [f"{ONE},gender,{who},{said}" for who, said in zip("abc", ("Female", "male", "a woman"))]
    rows += [f"{TWO},tie,{who},{said}" for who, said in (("a", "yes"), ("b", "no"), ("c", ""))]
    rows += [f"{TWO},gender,a,unclear"]
    assert command("labels")(["read", str(run.path), str(written(tmp_path, *rows))]) == 0
    said = human_answers(Run.open(run.path))
    assert list(said.columns) == schemas.ANSWERS.names
    by_key = {(row.sample_id, row.question): row for row in said.itertuples()}
    first = by_key[ONE, "gender"]
    assert (first.reading, first.answer, first.triplet, first.indicator) == (
        "female",
        "Female; male; a woman",
        0,
        "neutral",
    )
    assert first.score == pytest.approx(2 / 3) and first.asked == "the person looks like a male or a female?"
    assert by_key[TWO, "tie"].reading is None and by_key[TWO, "gender"].reading is None and len(said) == 3


def test_people_say_tones_where_tones_are_read(tmp_path, capsys):
    image = np.zeros((64, 64, 3), np.uint8)
    run = image_run(
        tmp_path / "run", [image] * 3, ["a person"], engine="toyworld-checker", skin_tone={"look": True}
    )
    sheet = [
        "sheet",
        str(run.path),
        "--about",
        "questions",
        "--images",
        "1",
        "--out",
        str(tmp_path / "sheet"),
    ]
    assert command("labels")(sheet) == 0 and "51 questions about 3 images" in capsys.readouterr().out
    page = (tmp_path / "sheet" / "sheet.html").read_text()
    assert '["1","2","3","4","5","6","7","8","9","10","unclear"]' in page
    assert all("#{:02x}{:02x}{:02x}".format(*map(int, colour)) in page for colour in monk_colours())
    rows = [f"{ONE},tone,a,10", f"{ONE},tone,b,10", f"{ONE},tone,c,1"]
    assert answers_of(run, written(tmp_path, *rows))["answer"].tolist() == ["10", "10", "1"]
    two = "t00000-s0-feminine"
    more = [f"{two},tone,{who},{tone}" for who, tone in zip("abcd", (6, 4, 5, "unclear"))]
    assert command("labels")(["read", str(run.path), str(written(tmp_path, *rows, *more))]) == 0
    said = human_answers(Run.open(run.path)).set_index("sample_id")
    assert said["reading"].to_dict() == {ONE: "10", two: "5"}  # the median: tones have an order
    assert said["score"].tolist() == pytest.approx([2 / 3, 1 / 4])
    for wrong in ("0", "11", "5.5", "dark"):
        with pytest.raises(UserError, match=f"line 2: expected 1, 2, .* 10 or unclear, got '{wrong}'"):
            answers_of(run, written(tmp_path, f"{ONE},tone,a,{wrong}"))


@pytest.mark.parametrize(
    ("rows", "head", "said"),
    [
        ([f"{ONE},yes"], "about,image,label", "expected a column `question`, found about, image, label"),
        ([f"{ONE},shoes,a,yes"], HEAD, "line 2: expected one of gender, boots"),
        ([f"{ONE},tie,a,maybe"], HEAD, "line 2: expected yes, no or unclear, got 'maybe'"),
    ],
)
def test_a_file_that_cannot_be_taken_is_refused_in_a_line(run, tmp_path, rows, head, said):
    with pytest.raises(UserError, match=said):
        answers_of(run, written(tmp_path, *rows, head=head))
