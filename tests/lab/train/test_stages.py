"""The runner of trainings: stages run in their order, what is missing is said before any work, and nothing is left."""

from pathlib import Path

from lab.train.stages import Stage, Trainer
from probes import command_line


def trainer(done: list[str]) -> Trainer:
    def write(name):
        def run(options):
            done.append(name)
            (options.work / name).write_text(name)

        return run

    def file(*names):
        return lambda options: [options.work / name for name in names]

    return Trainer(
        "lab.somewhere",
        "Train.",
        stages=(
            Stage("resume", write("resume"), makes=file("a", "b")),
            Stage("a", write("a"), makes=file("a")),
            Stage("b", write("b"), reads=file("a"), makes=file("b")),
            Stage(
                "either", write("either"), reads=lambda options: [(options.work / "a", options.work / "b")]
            ),
            Stage("export", write("export"), reads=file("b"), exports=True),
        ),
        add_options=lambda main: None,
        usual=("a", "b", "either", "export"),
        remedy=", or resume",
    )


def run(tmp_path: Path, *arguments: str) -> tuple[int, list[str]]:
    done: list[str] = []
    made = trainer(done)
    folders = ["--work", str(tmp_path / "work"), "--weights", str(tmp_path / "weights")]
    return command_line.run(made.run, made.parser(), [*folders, *arguments]), done


def test_stages_run_in_their_order_whatever_the_order_they_are_named_in(tmp_path):
    assert run(tmp_path, "--stage", "b", "a") == (0, ["a", "b"])
    assert run(tmp_path) == (0, ["a", "b", "either", "export"])  # `resume` on request alone
    assert run(tmp_path, "--stage", "export") == (0, ["export"])  # from what the stages before left


def test_what_no_stage_makes_is_one_line_before_any_work(tmp_path, capsys):
    assert run(tmp_path, "--stage", "a", "export") == (2, [])
    expected = f"--work: stage export: expected {tmp_path / 'work' / 'b'}, found none"
    assert capsys.readouterr().err == f"{expected}: run --stage b before it, or resume\n"
    assert run(tmp_path, "--stage", "either") == (2, [])
    assert "work/a or b, found none: run --stage a or b before it, or resume\n" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_one_of_several_files_is_enough_and_a_stage_before_counts(tmp_path):
    assert run(tmp_path, "--stage", "a", "either") == (0, ["a", "either"])
    (tmp_path / "work" / "a").unlink()
    (tmp_path / "work" / "b").write_text("")
    assert run(tmp_path, "--stage", "either") == (0, ["either"])
