"""The page of the docs on errors, with every refusal: ``python -m lab.pages.errors > docs/reference/errors.md``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.templates import render

ROOT = Path(__file__).parents[2]
# Where in the code a refusal stands, and what it is about; the first that fits.
KINDS = {
    "triptych/": "Command line and stages",
    "probes/command_line": "Command line and stages",
    "probes/csv_text": "Files: YAML, JSON, CSV",
    "probes/json_text": "Files: YAML, JSON, CSV",
    "probes/config/yaml": "Files: YAML, JSON, CSV",
    "probes/config": "Configuration",
    "probes/prompts": "Prompts and words",
    "probes/models": "Models and edits",
    "probes/toyworld": "Models and edits",
    "hooks/": "Sites, words and patches of a pipeline (Python)",
    "probes/stages/trace": "Traces",
    "probes/stages": "Images",
    "probes/storage": "Storage, locks, clusters",
    "probes/execution": "Storage, locks, clusters",
    "probes/": "Run directories",
    "analysis/observe": "Observers: objects, features, questions, skin",
    "analysis/methods": "Audits and studies",
    "analysis/studies": "Audits and studies",
    "analysis/export": "Exports and cards",
    "analysis/": "Measures, tables and report",
}
NAMES = ("UserError", "HookError")
FORM = re.compile(
    r"(?:(?P<place>.*?): )?expected (?P<rule>.*?), (?:but )?(?:got|found) (?P<found>.*?)(?:: (?P<remedy>.*))?"
)

BARE = re.compile(r"^(?:‹?[\w. ]+›?: )*(?:‹\w+›|…)$")  # says elsewhere what it says


@dataclass(frozen=True, order=True)
class Refusal:
    """A line that the program refuses with; ``…`` or a name in ‹› stands for what it fills in.

    Attributes
    ----------
    kind : str
        What it is about, one of the values of `KINDS`.
    place, rule, found, remedy : str
        The parts of the line; a line of another form stands in `rule` as a whole.
    """

    kind: str
    place: str
    rule: str
    found: str
    remedy: str


def refusals(root: Path = ROOT) -> list[Refusal]:
    """Return every refusal that stands in the code as a text, sorted, those with the same words once."""
    found = set()
    for folder in ("hooks", "probes", "analysis", "triptych"):
        trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted((root / folder).rglob("*.py"))}
        for path, tree in trees.items():
            for text in _texts(tree):
                found.add(refusal(text, path.relative_to(root).as_posix()))
    return sorted(found)


def refusal(text: str, file: str) -> Refusal:
    """Return the parts of a line.

    Examples
    --------
    >>> refusal(
    ...     "‹file›: seeds: expected whole numbers, got ‹seeds›: leave it out", "probes/config/types.py"
    ... ).rule
    'whole numbers'
    """
    kind = next(kind for start, kind in KINDS.items() if file.startswith(start))
    parts = FORM.fullmatch(text)
    if not parts:
        place, _, rest = text.partition(": ")
        rule, _, remedy = rest.rpartition(": ")
        return Refusal(kind, place if rest else "", rule or rest or text, "", remedy if rule else "")
    return Refusal(kind, *(parts[name] or "" for name in ("place", "rule", "found", "remedy")))


def _texts(tree: ast.Module) -> Iterator[str]:
    """The messages of the errors that a module raises, where they are texts."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args):
            continue
        name = ast.unparse(node.exc.func).rpartition(".")[2]
        message = node.exc.args[0]
        if (name in NAMES or name.endswith("Error")) and isinstance(message, ast.JoinedStr | ast.Constant):
            text = " ".join(_written(message).split())
            if (name in NAMES or " expected " in text) and not BARE.search(text):
                yield text


def _written(node: ast.expr) -> str:
    """A text of the code, with names for what it fills in."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr)
    return "".join(
        _filled(part.value) if isinstance(part, ast.FormattedValue) else _written(part)
        for part in node.values
    )


def _filled(node: ast.expr) -> str:
    """A name for what stands in braces: the last one of it, ``…`` where it is no name."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    names = re.findall(r"[A-Za-z_]\w*", ast.unparse(node))
    return f"‹{names[-1]}›" if isinstance(node, ast.Name | ast.Attribute) and names else "…"


def page(root: Path = ROOT) -> str:
    """Return the whole page in Markdown."""
    found = refusals(root)
    kinds = {kind: [one for one in found if one.kind == kind] for kind in dict.fromkeys(KINDS.values())}
    return render("errors", kinds=kinds, count=len(found))


if __name__ == "__main__":
    print(page(), end="")
