"""Pages that are run: their blocks one after another in a folder of their own, beside small runs that are made once.

What is replaced in a command says `lab.pages.shortened`; nothing else of a page is changed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from lab.pages import shortened
from lab.pages.blocks import ROOT, Block, blocks, commands, name
from probes.runs.run import Run
from tests.analysis.methods.audit.pictures import table_of, write_pictures
from tests.tiny import tiny_pipeline
from tests.tiny_transformers import tiny_transformer_pipeline
from triptych.cli.main import main

FILE = re.compile(r"# ([\w-]+\.yaml)\b")
# What stands in the folder of a page before its first command: runs, files, the names that its Python uses.
HAS: dict[str, tuple[str, ...]] = {
    "README.md": ("triplets.yaml", "runs/first-light", "runs/another", "portraits"),
    "docs/how_to/alignment.md": ("pictures",),
    "docs/how_to/decoding.md": ("triplets.yaml",),
    "docs/how_to/diffusion_transformers.md": ("triplets.yaml", "runs/first-light"),
    "docs/how_to/image_to_image.md": ("pictures",),
    "docs/how_to/labelled_pictures.md": ("portraits",),
    "docs/how_to/latex.md": ("runs/first-light",),
    "docs/how_to/mitigation.md": ("triplets.yaml", "runs/before"),
    "docs/how_to/prompts.md": ("captions_train2017.json",),
    "docs/how_to/python.md": ("triplets.yaml", "runs/quick", "runs/another", "portraits"),
    "docs/how_to/questions.md": ("runs/first-light",),
    "docs/how_to/clusters.md": ("triplets.yaml",),
    "docs/how_to/stopping.md": ("triplets.yaml",),
    "docs/how_to/sharing.md": ("runs/first-light",),
    "docs/how_to/trace.md": ("runs/first-light", "trace.yaml"),
    "docs/how_to/trace_transformers.md": ("triplets.yaml",),
    "docs/how_to/word_map.md": ("runs/first-light",),
}
PIPELINE = """
import torch
from triptych import load_pipeline
pipe = load_pipeline("toyworld")
pipe.set_progress_bar_config(disable=True)
person, woman = "a person holding an umbrella", "a woman holding an umbrella"
prompts = [person, woman, "a man holding an umbrella"]
generators = [torch.Generator().manual_seed(0) for _ in prompts]
"""
GIVEN = {"docs/how_to/python.md": PIPELINE}


class Study:
    """What pages begin with, made once: a small run of toyworld, pictures, captions, pipelines of published layouts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models: dict[str, str] = {}
        self.made: set[str] = set()
        self.figures = False

    def settings(self, text: str, base: dict[str, Any] | None = None, **more: Any) -> str:
        """Return a configuration as `lab.pages.shortened` has it, the models saved that it names."""
        for model, kind in shortened.MODELS.items():
            if model in text and model not in self.models:
                made = tiny_transformer_pipeline(kind) if kind == "sd3" else tiny_pipeline(kind)
                made.save_pretrained(self.folder / kind)
                self.models[model] = str(self.folder / kind)
        return shortened.settings(text, self.models, base, **{"report": {"figures": self.figures}, **more})

    def put(self, item: str, folder: Path) -> None:
        """Copy an item into the folder of a page; make it at the first time."""
        kind = "runs" if item.startswith("runs/") else item
        if kind not in self.made:
            self.made.add(kind)
            getattr(self, f"make_{kind.partition('.')[0]}")()
        source, target = self.folder / ("runs/first-light" if kind == "runs" else item), folder / item
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, target)

    def make_triplets(self) -> None:
        text = (ROOT / "triplets.yaml").read_text("utf-8")
        (self.folder / "triplets.yaml").write_text(self.settings(text, limit=6), "utf-8")

    def make_trace(self) -> None:
        text = (ROOT / "docs/how_to/trace.yaml").read_text("utf-8")
        (self.folder / "trace.yaml").write_text(self.settings(text), "utf-8")

    def make_runs(self) -> None:
        self.make_triplets()
        run = self.folder / "runs/first-light"
        assert main(["run", str(self.folder / "triplets.yaml"), "--out", str(run), "--quiet"]) == 0

    def make_pictures(self) -> None:
        if "runs" not in self.made:
            self.made.add("runs")
            self.make_runs()
        run = Run.open(self.folder / "runs/first-light")
        samples = list(run.samples()["sample_id"])
        (self.folder / "pictures").mkdir()
        for number in range(30):
            run.image(samples[number % len(samples)]).save(self.folder / "pictures" / f"{number}.png")

    def make_portraits(self) -> None:
        counts = {
            (model, profession, setting): numbers
            for model, numbers in (("flux", (3, 1, 0)), ("other", (1, 2, 1)))
            for profession in ("nurse", "CEO")
            for setting in ("baseline", "diverse")
        }
        labels, folder = table_of(counts), self.folder / "portraits"
        write_pictures(folder, labels)
        pd.DataFrame({"profession": ["nurse", "CEO"], "share": [0.87, 0.31], "n": [900, 800]}).to_csv(
            folder / "labour.csv", index=False
        )
        labels.loc[0, "read_as"], labels.loc[3, "read_as"] = "females", "male "
        labels.to_csv(folder / "odd.csv", index=False)

    def make_captions_train2017(self) -> None:
        texts = [
            f"a person with a {thing} in the park" for thing in ("dog", "cat", "ball", "kite", "book", "cup")
        ]
        texts += ["a dog on a chair", "a person with a boy"]
        captions = [{"id": number, "image_id": number, "caption": text} for number, text in enumerate(texts)]
        (self.folder / "captions_train2017.json").write_text(json.dumps({"annotations": captions}), "utf-8")


def run_page(page: Path, study: Study, folder: Path) -> list[Block]:
    """Run the blocks of a page in the current folder; return those that were run.

    Raises
    ------
    AssertionError
        A command ended with another status than 0.
    """
    for item in HAS.get(name(page), ()):
        study.put(item, folder)
    names: dict[str, Any] = {}
    exec(GIVEN.get(name(page), ""), names)
    ran = []
    for block in blocks(page):
        if block.why:
            continue
        if block.language == "yaml":
            write_yaml(block, study, folder)
        elif block.language == "bash":
            for line in commands(block.text):
                run_line(line, study, folder)
            ran.append(block)
        elif block.language == "python":
            text = "\n".join(map(shortened.line, block.text.splitlines()))
            exec(compile(text, f"{block.page}:{block.line}", "exec"), names)
            ran.append(block)
    return ran


def write_yaml(block: Block, study: Study, folder: Path) -> None:
    """Write what a page shows as a file: under the name in its first line, or a whole one as ``triplets.yaml``."""
    shown = yaml.safe_load(block.text)
    named = FILE.match(block.text)
    if not named and not (isinstance(shown, dict) and {"prompts", "model", "indicators"} <= set(shown)):
        return
    base = folder / "triplets.yaml"
    own = "prompts" in shown
    over, more = (None, {}) if own else (yaml.safe_load(base.read_text("utf-8")), {"limit": 6})
    path = folder / (named[1] if named else "triplets.yaml")
    path.write_text(study.settings(block.text, over, **more), "utf-8")


def run_line(line: str, study: Study, folder: Path) -> None:
    """Run a command of `triptych` in this process, and answer where it asks people.

    One of the laboratory that prints a page is to print the page that is there.
    """
    line, _, target = line.partition(" > ")
    if target:
        _, _, module, *options = shlex.split(line)
        with contextlib.redirect_stdout(io.StringIO()) as printed, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [module, *options])
            with contextlib.suppress(SystemExit):
                runpy.run_module(module, run_name="__main__")
        assert printed.getvalue() == (ROOT / target).read_text("utf-8"), line
        return
    before = set(folder.rglob("*.yaml"))
    words = shlex.split(shortened.line(line))
    arguments = words[3:] if words[:3] == ["python", "-m", "probes.run"] else words[1:]
    assert words[0] in ("triptych", "python"), f"mark it as not run: {line}"
    assert main(arguments) == 0, line
    for path in set(folder.glob("**/*.yaml")) - before:
        if "runs" not in path.parts and "shared" not in path.parts and arguments[0] == "init":
            path.write_text(study.settings(path.read_text("utf-8")), "utf-8")
    if arguments[:2] == ["labels", "sheet"]:
        out = arguments[arguments.index("--out") + 1] if "--out" in arguments else "label-sheet"
        answer_sheet(folder, Path(out))


def answer_sheet(folder: Path, sheet: Path) -> None:
    """Write what a sheet exports: the first answer that is offered, or yes."""
    page = (folder / sheet / "sheet.html").read_text("utf-8")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    rows = [
        (card["id"], data["about"], one["key"], (one["answers"] or ["yes"])[0], "A", card["print"])
        for card in data["cards"]
        for one in card["questions"]
    ]
    pd.DataFrame(rows, columns=data["columns"]).to_csv(folder / "labels.csv", index=False)
