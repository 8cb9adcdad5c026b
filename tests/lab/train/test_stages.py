"""The runner of trainings: stages run in their order, what is missing is said before any work, and nothing is left."""

from dataclasses import dataclass
from pathlib import Path

from lab.__main__ import PARTS, listing, main
from lab.train.stages import Options, Stage, Trainer


@dataclass
class Recipe:
    steps: int = 3


def run(tmp_path: Path, *arguments: str) -> tuple[int, list[str]]:
    done: list[str] = []

    def write(name):
        def stage(options: Options) -> None:
            done.append(name)
            (options.work / name).write_text(name)

        return stage

    trainer = Trainer(
        "Train.",
        Recipe,
        stages=(
            Stage("a", write("a"), makes=("a",)),
            Stage("b", write("b"), needs=("a",), makes=("b",)),
            Stage("either", write("either"), needs=(("a", "b"),)),
            Stage("export", write("export"), needs=("b",), exports=True),
        ),
        work=str(tmp_path / "work"),
        weights=tmp_path / "weights",
    )
    return trainer.main("python -m lab train it", arguments), done


def test_stages_run_in_their_order_whatever_the_order_they_are_named_in(tmp_path):
    assert run(tmp_path, "--stage", "b", "a", "--steps", "5") == (0, ["a", "b"])
    assert run(tmp_path) == (0, ["a", "b", "either", "export"])
    assert run(tmp_path, "--stage", "export") == (0, ["export"])  # from what the stages before left
    lines = (tmp_path / "work" / "history.txt").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["a", "b", "a", "b", "either"]
    assert ["unlike the recipe: {'steps': 5}" in line for line in lines] == [True, True, False, False, False]


def test_what_no_stage_makes_is_one_line_before_any_work(tmp_path, capsys):
    assert run(tmp_path, "--stage", "a", "export") == (2, [])
    expected = f"--work: stage export: expected {tmp_path / 'work' / 'b'}, found none"
    assert capsys.readouterr().err == f"{expected}: run --stage b before it\n"
    assert run(tmp_path, "--stage", "either") == (2, [])
    assert "work/a or b, found none: run --stage a or b before it\n" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_one_of_several_files_is_enough_and_a_stage_before_counts(tmp_path):
    assert run(tmp_path, "--stage", "a", "either") == (0, ["a", "either"])
    (tmp_path / "work" / "a").unlink()
    (tmp_path / "work" / "b").write_text("")
    assert run(tmp_path, "--stage", "either") == (0, ["either"])


def test_every_part_names_a_module_that_is_there_and_a_wrong_name_is_one_line(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out == listing() + "\n"
    root = Path(__file__).parents[3]
    for part in PARTS:
        path = root / part.target.partition(":")[0].replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), part
        assert part.page == "" or (root / part.page).exists(), part
    assert main(["train", "nothing"]) == 2
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
