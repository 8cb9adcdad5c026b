"""What the command line is told: options over the file, and one clear line for what is wrong."""

import json
import re

import pytest

from lab.validate.models import calibrate
from tests.analysis.observe.tiny_models import save_detector, save_segmenter
from tests.runs import ROOT, one_line, python
from tests.tiny import tiny_pipeline
from triptych.cli.main import main
from triptych.cli.main import main as analysis


def test_a_plan_writes_nothing(tiny, tmp_path, capsys):
    arguments = ["plan", str(tiny.yaml), "--out", str(tmp_path / "run"), "--limit", "2"]
    assert main([*arguments, "--samples"]) == 0
    out = capsys.readouterr().out
    assert "t00001-s0-individual" in out
    assert "an individual reading a book" in out
    assert "observe: toyworld-checker, 39 things by their palette colours, no vision model\n" in out
    assert re.search(r"8 images, \d+ MB on disk \(", out)
    assert main(arguments) == 0
    short = capsys.readouterr().out
    assert "t00001-s0-individual" not in short and set(short.splitlines()) < set(out.splitlines())
    assert not (tmp_path / "run").exists()


def test_the_plan_of_the_default_run_fits_one_screen(capsys):
    """It names words, prompts, images, memory, disk and who observes."""
    assert main(["plan", str(ROOT / "triplets.yaml")]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 40
    assert "  feminine: woman, lady, female\n" in out and "24 prompts\n" in out
    assert re.search(r"^216 images, .* on disk \(", out, re.M), out


@pytest.mark.slow
def test_a_process_of_its_own_says_nothing_but_our_lines(tmp_path):
    """The README's command, of one prompt."""
    line = f"-m probes.run {ROOT / 'triplets.yaml'} --out {tmp_path / 'run'} --limit 1 --steps 2".split()
    done = python(*line)
    lines = [line for line in re.split(r"[\r\n]+|\x1b\[A", done.stderr) if line.strip()]
    said = "(generate|observe .*|measure|report):|with 1 prompt no p"
    assert done.returncode == 0 and done.stdout.endswith("report.html\n")
    assert lines and [line for line in lines if not re.match(said, line)] == []


def test_a_process_of_its_own_that_refuses_says_one_line(tmp_path):
    """Of a model whose scheduler cannot be made, for which the libraries were loaded."""
    tiny_pipeline("sd1").save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "scheduler" / "scheduler_config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"beta_schedule": "x"}), "utf-8")
    line = f"-m triptych plan {ROOT / 'triplets.yaml'} --model {tmp_path / 'model'}".split()
    done = python(*line)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(f"model {tmp_path / 'model'}: ")


def test_a_word_that_the_model_does_not_know_is_told(tmp_path, capsys):
    """In the plan, with the triplets whose prompts it makes longer."""
    words = {"neutral": ["person", "nonbinary person"], "feminine": "woman", "masculine": "doctor"}
    file = tmp_path / "a.yaml"
    file.write_text(
        json.dumps({"prompts": ["a {person} in a hat", "a {person}"], "indicators": words}), "utf-8"
    )
    assert main(["plan", str(file)]) == 0
    out = capsys.readouterr().out
    assert "toyworld does not know “doctor” or “nonbinary”: its images say nothing of them" in out
    assert (
        "2 of 2 triplets have prompts of different numbers of tokens (p000, p001; “doctor” +4, “nonbinary person” +6"
        " of “person”)" in out
    )


def test_the_plan_of_a_real_model_says_who_looks_and_for_what(tmp_path, capsys):
    """Everyday nouns and those of its prompts; without a detector the two lines that would look are named."""
    tiny_pipeline("sd1").save_pretrained(tmp_path / "model")
    detectors = {"detector": str(save_detector(tmp_path)), "segmenter": str(save_segmenter(tmp_path))}
    config, told = {"model": str(tmp_path / "model"), "prompts": ["a {person} with a dog"]}, []
    for observe in (detectors, dict.fromkeys(detectors)):
        (tmp_path / "a.yaml").write_text(json.dumps(config | {"observe": observe}))
        assert main(["plan", str(tmp_path / "a.yaml")]) == 0
        told.append(capsys.readouterr().out)
    assert "tags from vocabulary, prompt (" in told[0] and "and `segmenter: facebook/" in told[1]
    assert "objects skipped: no detector for the images of this model: write `detector: IDEA-" in told[1]


def test_the_plan_says_how_many_workers(tiny, capsys):
    told = []
    for workers in (1, 2):
        assert main(["plan", str(tiny.yaml), "--workers", str(workers)]) == 0
        told.append(capsys.readouterr().out)
    assert "(1 worker of 1 thread)" in told[0] and "(2 workers of 1 thread)" in told[1]


# Bad input: exit status 2, one line that names the place.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "1", "x"], "--seeds: expected an integer, got 'x'"),
        (["--steps", "0"], "--steps: "),
        (["--workers", "0"], "--workers: expected `auto` or an integer from 1 to 256, got 0: choose one"),
        (["--device", "cuda:7"], "--device cuda:7"),
        (["--stage", "draw"], "command line: argument --stage"),
        (["--dtype", "int8"], "--dtype: expected 'auto'"),
        (["--stage", "observe"], "expected a generated run, found it empty"),
    ],
)
def test_bad_options(arguments, message, tiny, tmp_path, capsys):
    assert main([str(tiny.yaml), "--out", str(tmp_path / "run"), "--quiet", *arguments]) == 2
    one_line(capsys.readouterr(), message)
    assert not (tmp_path / "run" / "samples").exists()


@pytest.mark.parametrize("out", ["/proc/nowhere/run", "{file}/run"])
def test_an_unwritable_folder(out, tiny, capsys):
    assert main([str(tiny.yaml), "--out", out.format(file=tiny.yaml), "--quiet"]) == 2
    one_line(capsys.readouterr(), "cannot be written")


ADDRESSES = {
    "s3:/bucket/run": "copy it to a folder by `aws s3 sync`, and name that",
    "hdfs:/nodes/run": "copy it to a folder by `rsync`, and name that",
    "file:///data/run": "write /data/run alone",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_meant_as_an_address_makes_no_folder_of_its_name(
    address, tiny, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    written, taken = tmp_path / "written.yaml", tmp_path / "taken.yaml"
    written.write_text(json.dumps(json.loads(tiny.yaml.read_text()) | {"out": address}))
    taken.write_text(f"images: {{from: {address}}}\n")
    places = {
        "--out": [str(tiny.yaml), "--out", address],
        "written.yaml: out": [str(written)],
        "taken.yaml: images.from": [str(taken), "--out", "run"],
        "command line": [address, "--stage", "measure"],
    }
    for place, arguments in places.items():
        assert main([*arguments, "--quiet"]) == 2
        one_line(capsys.readouterr(), f"{place}: expected", ADDRESSES[address])
    for command, arguments in (
        (analysis, ["compare", address, address, "--out", "page.md"]),
        (calibrate.main, ["--repeated", address, "--out", "page.md"]),
    ):
        assert command(arguments) == 2
        one_line(capsys.readouterr(), ADDRESSES[address])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["taken.yaml", "written.yaml"]
