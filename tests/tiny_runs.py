"""What tests of whole runs begin with: a tiny pipeline on the disk, a YAML file that names it, the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.forked import Forked
from tests.tiny import tiny_pipeline
from triptych.cli.run import main


def saved_yaml(folder: Path, config: Mapping[str, Any], name: str = "tiny.yaml", **over: Any) -> Path:
    """Save a tiny pipeline and a configuration that draws with it; gives the file of the latter."""
    tiny_pipeline("toy").save_pretrained(folder / "tiny")
    path = folder / name
    path.write_text(json.dumps({**config, "model": str(folder / "tiny"), **over}))
    return path


def run_here(yaml_file: Path, path: Path, *more: object) -> int:
    """The exit status of the command line, called in this process."""
    return main([str(yaml_file), "--out", str(path), "--quiet", *map(str, more)])


def measured(yaml_file: Path, path: Path, *more: object) -> Path:
    """A run up to its tables, stage by stage."""
    for stage in ("generate", "observe", "measure"):
        assert run_here(yaml_file, path, *more, "--stage", stage) == 0
    return path


def shards_started(yaml_file: Path, path: Path, count: int, *more: object) -> list[Forked]:
    """So many shards of a run, all at once, each in a process of its own."""
    line = [yaml_file, "--out", path, "--quiet", *more]
    return [Forked("triptych.cli.run", *line, "--shard", f"{index}/{count}") for index in range(count)]


def record(path: Path) -> dict[str, Any]:
    """What ``run.json`` says but for times, processes and the folder."""
    meta = json.loads((path / "run.json").read_text())
    for entry in (meta["device"], meta.get("observer", {}), meta["config"]["resolved"]["generate"]):
        entry.pop("workers", None)
    meta.pop("shards", None)
    del meta["times"], meta["checksum"], meta["config"]["passed"], meta["config"]["resolved"]["out"]
    return meta
