"""``trace`` and ``report`` are stages of ``triptych run``; ``plan`` writes nothing."""

import pytest

from tests.runs import one_line
from triptych.cli import report, trace
from triptych.cli.main import main
from triptych.cli.run import parser


@pytest.mark.parametrize(
    ("command", "line", "of_run"),
    [
        (trace, "runs/a", "runs/a --stage trace"),
        (trace, "runs/a --device cpu --overwrite", "runs/a --stage trace --device cpu --overwrite"),
        (report, "runs/a --quiet", "runs/a --stage report --quiet"),
    ],
)
def test_it_asks_for_what_a_line_of_run_asks(command, line, of_run):
    assert vars(command.parser().parse_args(line.split())) == vars(parser().parse_args(of_run.split()))


@pytest.mark.parametrize("name", ["trace", "report"])
def test_a_run_that_is_not_there_is_one_line(name, tmp_path, capsys):
    assert main([name, str(tmp_path / "none.yaml")]) == 2
    one_line(capsys.readouterr(), "none.yaml")
