"""A folder with a ``triplets.yaml`` whose prompts were made from captions or from a set, and the report of it.

Few prompts stand in ``triplets.yaml`` themselves; where they are more than a page holds they stand in
``prompts.parquet`` beside it (`probes.prompts.stored`), which it names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from probes.command_line import writable
from probes.config.checks import template
from probes.config.loading import build_config
from probes.config.schema import Config
from probes.config.yaml import YamlSource
from probes.errors import UserError, printable
from probes.prompts import stored
from probes.prompts.alignment import fill
from probes.prompts.source import LoadedPrompts
from probes.runs.parts import digest, disk_error, write_bytes

IN_YAML = 500  # prompts; more go to a Parquet file
SHOWN = 10  # examples
FILES = ("triplets.yaml", "prompts.parquet", "report.json")
_HEAD = "# Made by `triptych prompts build`; what was kept and why stands in report.json.\n"


def build(
    data: Mapping[str, Any], options: Mapping[tuple[str, ...], tuple[str, Any]]
) -> tuple[Config, LoadedPrompts]:
    """Return the configuration of the prompts, and what became of the captions.

    `data` has ``name``, ``prompts: {from: ...}`` and what else ``triplets.yaml`` may say; `options` which flag each
    value came from, for errors.
    """
    loaded: list[LoadedPrompts] = []
    source = YamlSource(name="command line", text="", data=dict(data))
    config = build_config(data, source, options, {"loaded": loaded})
    return config, loaded[0]


def write(folder: Path, config: Config, loaded: LoadedPrompts, *, overwrite: bool = False) -> list[Path]:
    """Write ``triplets.yaml``, ``report.json`` and, where prompts are many, ``prompts.parquet``; return the paths."""
    require_free(folder, overwrite)
    writable(folder, folder=True)
    words = {name: entry.forms for name, entry in config.indicators.items()}
    prompts: list[dict[str, Any]] = loaded.prompts[: config.limit]
    files = {"report.json": _json(_report(config, loaded, len(prompts)))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).unlink(missing_ok=True)
        inside = len(prompts) <= IN_YAML or any(map(template, prompts))  # a Parquet file has captions alone
        if not inside:
            stored.write(folder / "prompts.parquet", prompts, words)
        text = _HEAD + _yaml(config, prompts if inside else {"from": "prompts.parquet"})
        files["triplets.yaml"] = text.encode()
        for name, content in files.items():
            write_bytes(folder / name, content)
    except OSError as error:
        raise disk_error(folder, error) from None
    return [folder / name for name in FILES if (folder / name).exists()]


def require_free(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that holds such files already, before anything is read."""
    there = [name for name in FILES if (folder / name).exists()]
    if there and not overwrite:
        raise UserError(
            f"{folder / there[0]}: expected no such file, found one: add --overwrite or choose another --out"
        )


def _yaml(config: Config, prompts: Any) -> str:
    indicators = {
        name: {"word": entry.word, **({"plural": entry.plural} if entry.plural else {})}
        for name, entry in config.indicators.items()
    }
    data = {
        "name": config.name,
        "model": config.model,
        "indicators": indicators,
        "reference": config.reference,
        "prompts": prompts,
        "seeds": config.seeds,
    }
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=2_000, default_flow_style=False)


def _report(config: Config, loaded: LoadedPrompts, prompts: int) -> dict[str, Any]:
    source = loaded.selection.counts() if loaded.selection else {}
    path = Path(source.get("source", ""))
    return {
        **source,
        "written": prompts,
        "indicators": {name: entry.word for name, entry in config.indicators.items()},
        **({"sha256": digest(path.read_bytes())} if source and path.is_file() else {}),
    }


def _json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def shown(config: Config, loaded: LoadedPrompts) -> str:
    """Return the report and ten prompts, spread over all of them, as text."""
    prompts = loaded.prompts[: config.limit]
    step = max(1, len(prompts) // SHOWN)
    width = max(map(len, config.indicators))
    lines = [loaded.selection.report() if loaded.selection else f"{len(prompts):,} prompts"]
    for prompt in prompts[: step * SHOWN : step]:
        texts = {
            name: fill(template(prompt), entry.word)[0] if template(prompt) else prompt[name]
            for name, entry in config.indicators.items()
        }
        lines += ["", prompt["id"], *(f"  {name:<{width}}  {text}" for name, text in texts.items())]
    return "\n".join(printable(line) for text in lines for line in text.split("\n"))
