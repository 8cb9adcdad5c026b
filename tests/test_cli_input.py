"""What the command line is told: options over the file, and one clear line for what is wrong."""

import json
import re

import pytest

from lab.validate.models import calibrate
from tests.runs import ROOT, one_line, python
from tests.tiny import tiny_pipeline
from triptych.cli.main import main
from triptych.cli.main import main as analysis

YAML = """\
name: small
model: {model}
indicators:
  neutral: person
  feminine: woman
  masculine: man
  individual: {{word: individual, control: true}}
prompts:
  - a {{person}} with a dog
  - a {{person}} reading a book
  - a {{person}} in a car
seeds: [0, 1]
sampler: {{steps: 2}}
generate: {{part_triplets: 1, batch_triplets: 1, device: cpu}}
observe: {{engine: toyworld-checker}}
measure: {{bootstrap: 50, permutations: 64}}
report: {{gallery: 2}}
"""


@pytest.fixture(scope="module")
def yaml_file(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("yaml") / "small.yaml"
    path.write_text(YAML.format(model=tiny.yaml.parent / "tiny"))
    return path


def test_a_plan_writes_nothing(yaml_file, tmp_path, capsys):
    arguments = ["plan", str(yaml_file), "--out", str(tmp_path / "run"), "--limit", "2"]
    assert main([*arguments, "--samples"]) == 0
    out = capsys.readouterr().out
    assert "t00001-s1-individual" in out
    assert "an individual reading a book" in out
    assert "observe: toyworld-checker, 39 things by their palette colours, no vision model\n" in out
    assert re.search(r"16 images, \d+ MB on disk \(", out)
    assert main(arguments) == 0
    short = capsys.readouterr().out
    assert "t00001-s1-individual" not in short and set(short.splitlines()) < set(out.splitlines())
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


def test_the_plan_says_how_many_workers(yaml_file, capsys):
    told = []
    for workers in (1, 2):
        assert main(["plan", str(yaml_file), "--workers", str(workers)]) == 0
        told.append(capsys.readouterr().out)
    assert "(1 worker of 1 thread)" in told[0] and "(2 workers of 1 thread)" in told[1]


# Bad input: exit status 2, one line that names the place.

BAD_YAML = {
    "too long": ("a car", "a car" + " and a car" * 15, "prompts[2] (neutral): expected at most 32 tokens"),
    "model": ("model: ", "model: /nowhere", "unknown; expected toyworld"),
    "primary": (
        "measure: {",
        "measure: {primary: lpips, ",
        "measure.primary: expected 't', 'z0', 'ssim'",
    ),
    "site": ("sampler: {", "capture: {sites: [unet.dwn.*]}\nsampler: {", "unet.dwn.*"),
}


@pytest.mark.parametrize("case", BAD_YAML)
def test_bad_yaml(case, yaml_file, tmp_path, capsys):
    old, new, message = BAD_YAML[case]
    file = tmp_path / "bad.yaml"
    text = yaml_file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert main([str(file), "--out", str(tmp_path / "run"), "--quiet"]) == 2
    one_line(capsys.readouterr(), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "1", "x"], "--seeds: expected an integer, got 'x'"),
        (["--steps", "0"], "--steps: "),
        (["--workers", "0"], "--workers: expected `auto` or an integer from 1 to 256, got 0: choose one"),
        (["--workers", "two"], "--workers: expected `auto` or an integer from 1 to 256, got 'two': choose"),
        (["--model", "toyword"], "did you mean toyworld"),
        (["--model", "CompVis/stable-diffusion-v1-4"], "give a local folder"),
        (["--device", "cuda:7"], "--device cuda:7"),
        (["--stage", "draw"], "command line: argument --stage"),
        (["--stepz", "3"], "unrecognized arguments: --stepz 3"),
        (["--dtype", "int8"], "--dtype: expected 'auto'"),
        (["--height", "50"], "--height: expected a multiple of 16"),
        (["--scheduler", "eulr"], "did you mean euler"),
        (["--stage", "observe"], "expected a generated run, found it empty"),
    ],
)
def test_bad_options(arguments, message, yaml_file, tmp_path, capsys):
    assert main([str(yaml_file), "--out", str(tmp_path / "run"), "--quiet", *arguments]) == 2
    one_line(capsys.readouterr(), message)
    assert not (tmp_path / "run" / "samples").exists()


@pytest.mark.parametrize("out", ["/proc/nowhere/run", "{file}/run"])
def test_an_unwritable_folder(out, yaml_file, capsys):
    assert main([str(yaml_file), "--out", out.format(file=yaml_file), "--quiet"]) == 2
    one_line(capsys.readouterr(), "cannot be written")


ADDRESSES = {
    "s3:/bucket/run": "copy it to a folder by `aws s3 sync`, and name that",
    "hdfs:/nodes/run": "copy it to a folder by `rsync`, and name that",
    "file:///data/run": "write /data/run alone",
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_meant_as_an_address_makes_no_folder_of_its_name(
    address, yaml_file, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    written, taken = tmp_path / "written.yaml", tmp_path / "taken.yaml"
    written.write_text(f"{yaml_file.read_text()}out: {address}\n")
    taken.write_text(f"images: {{from: {address}}}\n")
    places = {
        "--out": [str(yaml_file), "--out", address],
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


def test_a_folder_that_holds_something_else(yaml_file, tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    for more in ([], ["--overwrite"]):
        assert main([str(yaml_file), "--out", str(tmp_path), "--quiet", *more]) == 2
        one_line(capsys.readouterr(), "expected an empty folder or a run, got other files (thesis.txt)")
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_example_is_complete(tiny, capsys):
    """At least 24 prompts, three words a group that share their article, and the tokenizer takes them all."""
    assert main(["plan", str(ROOT / "triplets.yaml"), "--model", str(tiny.yaml.parent / "tiny")]) == 0
    from probes.config.schema import load_config
    from probes.prompts.grammar.english import article

    config = load_config(ROOT / "triplets.yaml")
    assert (config.model, config.sampler.steps, config.seeds) == ("toyworld", 20, [0])
    assert len(config.prompts) >= 24
    controls = {name: one.control for name, one in config.indicators.items() if one.control}
    feminine, masculine = (
        dict.fromkeys(("lady", "female"), "feminine"),
        dict.fromkeys(("gentleman", "male"), "masculine"),
    )
    assert controls == {"human": True, "figure": True} | feminine | masculine
    assert {article(one.word) for one in config.indicators.values()} == {"a"}
