"""What readers say of the images of an audit of professions: who counts, who speaks first, what is refused."""

import numpy as np
import pandas as pd
import pytest

from analysis.methods.dalleval import tables
from analysis.methods.dalleval.readings import read_all
from analysis.methods.dalleval.scores import DECIDED
from analysis.metrics.skin_tone import NO_ANGLE
from analysis.tables.stage import measure
from probes.config.schema import Measure
from probes.errors import UserError
from probes.runs import parts, schemas
from probes.runs.run import Run
from tests.analysis.dalleval_parts import (
    measure_audit,
    write,
    write_answers,
    write_audit,
    write_tones,
)
from tests.analysis.synthetic_run import configure
from triptych.cli.main import command as command_of

label = command_of("labels")

MEASURE = Measure(bootstrap=100, permutations=200)


@pytest.fixture
def small(tmp_path):
    """A run of one profession and seed that nobody read."""
    return write_audit(
        tmp_path / "run", whole=False, seeds=1, readers=(), tones=False, professions=("nurse",)
    )


def test_other_readings_decide_neither_and_other_questions_have_no_average(small):
    write_answers(small, "blip2", lambda sample: {"gender": "neither", "hair": "dark", "hat": "yes"})
    gender, hat = read_all(small)
    assert (gender.question, hat.question) == ("gender", "hat")
    assert set(gender.status.ravel()) == {"undecided"} and np.nansum(hat.values) == 6


def test_tones_off_the_scale_and_unknown_words_are_refused(small):
    write_tones(small, lambda sample: 11)
    with pytest.raises(
        UserError, match=r"skin_tone: expected tones from 1 to 10, got 11: delete these parts"
    ):
        read_all(small)
    write_tones(small, lambda sample: 4, lambda sample: "none")
    with pytest.raises(
        UserError, match=r"skin_tone: expected one of ok, no face, no skin, grey, unreadable, got 'none'"
    ):
        read_all(small)


def test_a_colour_without_an_angle_is_read_by_other_rules(small):
    write_tones(small, lambda sample: 2)
    for number, file in enumerate(small.parts("attributes/skin_tone")):
        none = {
            "status": "no skin",
            "reason": f"{NO_ANGLE}: b* is -1.0, not above 0",
            "tone": None,
            "ita": None,
        }
        found = [{**row, **none} for row in parts.read_part(file).to_pylist()]
        write(small, "attributes/skin_tone", number, found, schemas.TONES)
    ita, ciede2000, _ = read_all(small)
    assert set(ita.status.ravel()) == {"undecided"} and np.isnan(ita.values).all()
    assert set(ciede2000.status.ravel()) == {DECIDED} and (ciede2000.values == 2).all()


def test_people_say_tones_after_the_rules_and_are_held_against_them(small, tmp_path):
    write_tones(small, lambda sample: 5)
    samples = small.samples(["sample_id"])["sample_id"]
    said = dict(zip(samples, ("5", "7", "unclear", "10")))
    file = tmp_path / "labels.csv"
    file.write_text(
        "about,image,question,label\n"
        + "".join(f"questions,{one},tone,{tone}\n" for one, tone in said.items())
    )
    assert label(["read", str(small.path), str(file)]) == 0
    run = Run.open(small.path)
    *_, last = readings = read_all(run)
    assert [one.source for one in readings] == ["ita", "ciede2000", "dalleval2023", "human"]
    assert sorted(last.values[~np.isnan(last.values)]) == [5, 7, 10]
    table = tables.agreement_table(readings, MEASURE).set_index(["first", "second"])
    row = table.loc[("ita", "human")]
    assert row["images"] == 3
    assert row[["same", "within_1", "within_2", "within_3"]].tolist() == pytest.approx(
        [1 / 3, 1 / 3, 2 / 3, 2 / 3]
    )
    assert row["mean_abs_difference"] == pytest.approx(7 / 3)


@pytest.fixture
def answered(small):
    """The same, read by CLIP and by a model that nobody thought of."""
    for reader in ("clip", "llava-1.5"):
        write_answers(small, reader, lambda sample: {"gender": "male"})
    return small


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (
            ["clpi"],
            r"dalleval.readers\[0\]: .* got 'clpi': did you mean clip\?; clip, llava-1.5 read the images of",
        ),
        (
            ["clip", "people"],
            r"readers\[1\]: .* got 'people': choose one of them: clip, llava-1.5, human, ",
        ),
    ],
)
def test_a_name_that_is_no_reader_of_the_run_is_one_line(answered, named, expected):
    configure(answered, dalleval={"readers": named})
    with pytest.raises(UserError, match=expected):
        measure_audit(answered)
    assert not answered.tables()


def test_nothing_is_lost_to_a_name_that_is_no_reader(tmp_path):
    run = write_audit(
        tmp_path / "run", seeds=2, professions=("nurse", "cook"), readers=("clip",), tones=False
    )
    measure(run)
    before = {name: run.table(name) for name in run.tables()}
    assert "dalleval_mad" in before
    configure(run, dalleval={"readers": ["clop"]})
    with pytest.raises(UserError, match="got 'clop': did you mean clip"):
        measure(run)
    assert set(run.tables()) == set(before)
    configure(run, dalleval={"readers": ["clip"]})
    measure(run)
    for name, table in before.items():
        pd.testing.assert_frame_equal(run.table(name), table)
