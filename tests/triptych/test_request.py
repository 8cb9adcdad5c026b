"""What a command asks for: its stages, and what it replaces."""

import pytest

from probes.errors import UserError
from triptych.cli.run import config_overrides, parser
from triptych.request import read_request


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "triplets.yaml"
    path.write_text('prompts: ["a {person} with a dog"]\n')
    return str(path)


def command(*line):
    found = parser().parse_args(line)
    return read_request(found.config, config_overrides(found), found.stage, overwrite=found.overwrite)


def test_all_stages_but_a_trace_that_nobody_asked_for(file):
    request = command(file)
    assert request.stages == ("generate", "observe", "measure", "report")
    assert not request.clustered
    assert request.config.trace is None


def test_a_trace_that_is_named_has_the_options_of_one(file):
    request = command(file, "--stage", "trace")
    assert request.stages == ("trace",)
    assert request.config.trace is not None and request.config.trace.sites == "default"


def test_only_what_is_gone_through_is_replaced(file):
    request = command(file, "--stage", "observe", "--overwrite")
    assert (request.replaces("observe"), request.replaces("trace")) == (True, False)
    assert not command(file, "--stage", "observe").replaces("observe")


def test_the_place_of_a_field_is_the_file(file):
    assert command(file).location_of("measure.primary") == "triplets.yaml: measure.primary"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("capture.sites: matches no site", "triplets.yaml: capture.sites: matches no site"),
        ("prompts[3]: expected words: quote: them", "triplets.yaml: prompts[3]: expected words: quote: them"),
        ("sampler.scheduler: expected one of ddim", "--scheduler: expected one of ddim"),
        ("sampler.steps: expected more", "triplets.yaml: sampler.steps: expected more"),
        ("model nowhere: unknown", "model nowhere: unknown"),
        ("samples: expected a table", "samples: expected a table"),
        ("runs/a: trace: expected none", "runs/a: trace: expected none"),
    ],
)
def test_an_error_in_a_field_says_in_which_file_or_by_which_flag(file, message, expected):
    with pytest.raises(UserError) as raised, command(file, "--scheduler", "eulr").locate_errors():
        raise UserError(message)
    assert str(raised.value) == expected


def test_columns_of_a_table_of_prompts_are_said(tmp_path, capsys):
    (tmp_path / "p.csv").write_text("Prompt,profession,rating\na nurse,nurse,5\na pilot,pilot,4\n")
    path = tmp_path / "t.yaml"
    path.write_text("prompts: {table: p.csv, levels: [profession]}\n")
    assert command(str(path)).config.prompts[0].levels == {"profession": "nurse"}
    assert (
        capsys.readouterr().err
        == "p.csv: columns taken: 'Prompt' as prompt\np.csv: columns not used: rating\n"
    )
