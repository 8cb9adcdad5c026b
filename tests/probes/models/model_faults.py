"""Model folders that are not whole: named faults, and mutations drawn from a seed."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from triptych.cli.main import main

INDEX = "model_index.json"
YAML = """\
model: {model}
indicators: {{neutral: person, feminine: woman, masculine: man}}
prompts: ["a {{person}} with a dog"]
seeds: [0]
sampler: {{steps: 1}}
generate: {{device: cpu}}
"""
STRANGE = (None, True, -1, 7, 0.5, float("nan"), "", "x", [], [[]], {"a": 1}, "epsilon")


def change(folder: Path, file: str, **fields: Any) -> None:
    """Put fields over a JSON file; Ellipsis takes one out."""
    data = json.loads((folder / file).read_text())
    data |= {key: value for key, value in fields.items() if value is not ...}
    data = {key: value for key, value in data.items() if fields.get(key) is not ...}
    (folder / file).write_text(json.dumps(data))


def mutate(folder: Path, number: int) -> str:
    """Damage a model folder in one way drawn from the number; says how."""
    draw = random.Random(number)
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    described = [file for file in files if file.suffix == ".json"]
    act, among = draw.choice([(_retype, described), (_truncate, files), (_remove, files), (_flip, files)])
    file = draw.choice(among)
    return f"{number}: {act.__name__} {file.relative_to(folder)}: {act(draw, file)}"


def _retype(draw: random.Random, file: Path) -> str:
    """A field, or an entry of one, gone or of another kind."""
    data, value = json.loads(file.read_text()), draw.choice((..., *STRANGE))
    holder, key = data, draw.choice(sorted(data)) if isinstance(data, dict) else 0
    if isinstance(data[key], (dict, list)) and data[key] and draw.random() < 0.5:
        holder = data[key]
        key = draw.choice(sorted(holder)) if isinstance(holder, dict) else draw.randrange(len(holder))
    if value is ...:
        del holder[key]
    else:
        holder[key] = value
    file.write_text(json.dumps(data))
    return f"{key} {value!r}"[:120]


def _truncate(draw: random.Random, file: Path) -> str:
    data = file.read_bytes()
    size = draw.choice((0, 1, 7, 8, 9, len(data) // 2, max(len(data) - 1, 0)))
    file.write_bytes(data[:size])
    return f"to {size} of {len(data)}"


def _remove(draw: random.Random, file: Path) -> str:
    if draw.random() < 0.3:
        shutil.rmtree(file.parent)
        return "with its folder"
    file.unlink()
    return "gone"


def _flip(draw: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    where = [draw.randrange(len(data)) for _ in range(draw.choice((1, 1, 4)))]
    for index in where:
        data[index] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return f"bits at {where}"


def refused(model, tmp_path, capsys, *arguments, **sections):
    """The one line with which the command line refuses a model, or it with a section; nothing may be written."""
    file, out = tmp_path / "triplets.yaml", tmp_path / "run"
    lines = [line for line in YAML.format(model=model).splitlines() if line.partition(":")[0] not in sections]
    file.write_text("\n".join([*lines, *(f"{name}: {json.dumps(of)}" for name, of in sections.items())]))
    arguments = arguments or ("--stage", "generate")
    capsys.readouterr()  # what making the model said
    line = [str(file), "--out", str(out), *(one for one in arguments if one != "plan")]
    status = main(["plan", *line] if "plan" in arguments else ["run", *line, "--quiet"])
    text = capsys.readouterr()
    assert (status, text.out) == (2, "")
    assert text.err.count("\n") == 1 and "Traceback" not in text.err
    assert len(text.err) <= 400
    assert not out.exists()
    return text.err
