"""Model folders that are not whole: named faults, and mutations drawn from a seed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from triptych.cli.run import main

INDEX = "model_index.json"
YAML = """\
model: {model}
indicators: {{neutral: person, feminine: woman, masculine: man}}
prompts: ["a {{person}} with a dog"]
seeds: [0]
sampler: {{steps: 1}}
generate: {{device: cpu}}
"""
STRANGE = (
    None,
    True,
    False,
    0,
    1,
    -1,
    3,
    7,
    2**31,
    10**30,
    0.5,
    -2.5,
    float("nan"),
    float("inf"),
    1e300,
    "",
    "x",
    "\0",
    "1",
    [],
    [1],
    [[]],
    [None],
    {},
    {"a": 1},
    "epsilon",
    "gelu",
)


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
    kinds: dict[str, tuple[Callable[[random.Random, Path], str], list[Path]]] = {
        "delete": (_delete, described),
        "retype": (_retype, described),
        "scale": (_scale, described),
        "replace": (_replace, described),
        "truncate": (_truncate, files),
        "remove": (_remove, files),
        "flip": (_flip, files),
        "header": (_header, [file for file in files if file.suffix == ".safetensors"]),
    }
    kind = draw.choice(sorted(kinds))
    act, among = kinds[kind]
    file = draw.choice(among)
    return f"{number}: {kind} {file.relative_to(folder)}: {act(draw, file)}"


def _places(data: Any, path: tuple = ()) -> list[tuple]:
    """Every place in a JSON value, as a path of keys; at most two deep, so that a vocabulary is not all."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    found = []
    for key, value in items:
        found.append((*path, key))
        if len(path) < 2:
            found += _places(value, (*path, key))
    return found


def _at(data: Any, path: tuple) -> Any:
    for key in path:
        data = data[key]
    return data


def _edit(
    draw: random.Random, file: Path, act: Callable[[Any, Any], Any], fits: Callable[[Any], bool]
) -> str:
    data = json.loads(file.read_text())
    places = [path for path in _places(data) if fits(_at(data, path))]
    top = sorted({path[0] for path in places}, key=str)
    first = draw.choice(top)  # every field alike, however long its list is
    path = draw.choice([path for path in places if path[0] == first])
    what = act(_at(data, path[:-1]), path[-1])
    file.write_text(json.dumps(data))
    return f"{path} {what}"[:120]


def _delete(draw: random.Random, file: Path) -> str:
    def act(holder: Any, key: Any) -> str:
        del holder[key]
        return "gone"

    return _edit(draw, file, act, lambda value: True)


def _retype(draw: random.Random, file: Path) -> str:
    value = draw.choice(STRANGE)

    def act(holder: Any, key: Any) -> str:
        holder[key] = value
        return repr(value)

    return _edit(draw, file, act, lambda value: True)


def _scale(draw: random.Random, file: Path) -> str:
    by = draw.choice((0, -1, 2, 3, 10, 1000, 10**6, 10**9))

    def act(holder: Any, key: Any) -> str:
        holder[key] *= by
        return f"* {by}"

    def number(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    try:
        return _edit(draw, file, act, number)
    except IndexError:  # no number in this file
        return _retype(draw, file)


def _replace(draw: random.Random, file: Path) -> str:
    text = draw.choice(
        ("", "{", "null", "[]", "[1]", '"x"', "{}", "1", "\0", "[" * 100_000, '{"a":' * 20_000)
    )
    file.write_text(text)
    return repr(text[:20])


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


def _header(draw: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[:8], "little")
    index = draw.randrange(8) if draw.random() < 0.2 else 8 + draw.randrange(size)
    data[index] = draw.randrange(256)
    file.write_bytes(data)
    return f"byte {index}"


def refused(model, tmp_path, capsys, *arguments, **sections):
    """The one line with which the command line refuses a model, or it with a section; nothing may be written."""
    file, out = tmp_path / "triplets.yaml", tmp_path / "run"
    file.write_text(
        YAML.format(model=model) + "".join(f"{name}: {json.dumps(of)}\n" for name, of in sections.items())
    )
    arguments = arguments or ("--stage", "generate")
    capsys.readouterr()  # what making the model said
    status = main([str(file), "--out", str(out), "--quiet", *arguments])
    text = capsys.readouterr()
    assert (status, text.out) == (2, "")
    assert text.err.count("\n") == 1 and "Traceback" not in text.err
    assert len(text.err) <= 400
    assert not out.exists()
    return text.err
