"""Imports go one way (hooks, probes, analysis, triptych, lab), in no circle; what needs no torch loads none.

Every import counts, also those inside functions and those for type checkers alone. No file is excepted by its name.
"""

import ast
import configparser
import graphlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.runs import python
from triptych.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
FLOORS = ("hooks", "probes", "analysis", "triptych", "lab")  # each may import itself and those before it
HEAVY = {
    *(
        "torch",
        "torchvision",
        "diffusers",
        "transformers",
        "timm",
        "open_clip",
        "groundingdino",
        "accelerate",
    ),
}
# Of the folders of analysis, which others each may import. A method imports tables and report; these two know the
# methods by the rows of `analysis.methods.registry` alone, which name modules as text.
BELOW = {
    "stats": (),
    "metrics": ("stats",),
    "observe": ("metrics", "questions"),
    "tables": ("metrics", "stats", "study", "questions"),
    "report": ("tables", "metrics", "stats", "study", "questions"),
    "studies": ("report", "tables", "metrics", "stats", "study", "questions"),
    "export": ("studies", "report", "tables", "metrics", "stats", "study", "questions"),
    "loaded_run": ("export", "studies", "report", "tables", "metrics", "stats", "study", "questions"),
    "methods": ("studies", "report", "tables", "metrics", "stats", "study", "questions", "observe"),
}
FILES = sorted(
    path.relative_to(ROOT)
    for floor in FLOORS
    for path in (ROOT / floor).rglob("*.py")
    if "weights" not in path.parts
)


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """Every module a file imports, with its line; relative ones made absolute."""
    found, tree = [], ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = list(path.parts[: len(path.parts) - node.level]) if node.level else []
            module = ".".join([*package, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def test_imports_go_one_way():
    wrong = []
    for path in FILES:
        forbidden = {*FLOORS[FLOORS.index(path.parts[0]) + 1 :], "tests", "notebooks"}
        wrong += [
            f"{path}:{line}: {name}" for line, name in imported(path) if name.split(".")[0] in forbidden
        ]
    assert wrong == []


def test_folders_of_analysis_import_those_below():
    wrong = []
    for path in (path for path in FILES if path.parts[0] == "analysis" and len(path.parts) > 2):
        allowed = tuple(f"analysis.{name}" for name in (path.parts[1], *BELOW[path.parts[1]]))
        wrong += [
            f"{path}:{line}: {name}"
            for line, name in imported(path)
            if name.startswith("analysis.") and not within(name, allowed)
        ]
    assert wrong == []


def test_no_circle():
    """Every module can be understood after those that it imports."""
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
    graph = {
        name: {
            found if found in modules else found.rpartition(".")[0]
            for _, found in imported(path)
            if found in modules or found.rpartition(".")[0] in modules
        }
        - {name}
        for name, path in modules.items()
    }
    graphlib.TopologicalSorter(graph).prepare()  # a `CycleError` names the modules of a circle


def test_analysis_names_no_torch():
    """A statistic is recomputed on a laptop: only what observes images (`observe`) asks for torch."""
    files = [p for p in FILES if p.parts[0] == "analysis" and "observe" not in p.with_suffix("").parts]
    assert [
        f"{p}:{line}: {name}" for p in files for line, name in imported(p) if name.split(".")[0] in HEAVY
    ] == []


ON_LINUX_ALONE = {"fcntl", "resource", "termios", "pwd", "grp", "pty", "tty", "curses", "readline", "syslog"}


def test_modules_that_linux_alone_has_are_imported_where_that_may_fail():
    """Within a function or a `try`; `tests/test_platforms.py` imports every module without them."""
    wrong = []
    for path in (path for path in FILES if path.parts[0] != "lab"):
        head = {line.lineno for line in ast.parse((ROOT / path).read_text("utf-8")).body}
        wrong += [
            f"{path}:{line}" for line, name in imported(path) if line in head and name in ON_LINUX_ALONE
        ]
    assert wrong == []


PARTS = {  # imported, and required by a package that is declared: that one's bounds are theirs
    **{"pillow": "torchvision", "pydantic-core": "pydantic", "jinja2": "torch", "markupsafe": "jinja2"},
    **{"tqdm": "huggingface-hub", "packaging": "transformers", "threadpoolctl": "scikit-learn"},
    "pycocotools": "groundingdino-py",
}


def test_every_package_that_is_imported_is_declared():
    """At the head of a module a required one, unless it is there for one; elsewhere one of an optional part, too."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", "utf-8")
    extras = {
        name: text for name, text in config["options.extras_require"].items() if name not in ("test", "docs")
    }
    required = declared(config["options"]["install_requires"])
    optional = required | declared("\n".join(extras.values()))
    providers, missing = metadata.packages_distributions(), []
    for path in (path for path in FILES if path.parts[0] != "lab"):
        head = {line.lineno for line in ast.parse((ROOT / path).read_text("utf-8")).body}
        for line, name in imported(path):
            top = name.split(".")[0]
            if top not in (*sys.stdlib_module_names, *FLOORS, "__future__"):
                spelled = (top, ".".join(name.split(".")[:2]))  # also of what is not here: ray, google.auth
                names = {canonicalize_name(one) for one in (*spelled, *providers.get(top, ()))}
                allowed = (
                    required
                    if line in head and path.name not in ("on_ray.py", "hf_datasets.py")
                    else optional
                )
                if not (names | {*brought(names)}) & allowed:
                    missing.append(f"{path}:{line}: {name}")
    assert missing == []


def brought(names: set[str]) -> Iterator[str]:
    """The packages that require these, by `PARTS` and by what they say themselves."""
    for part in names & {*PARTS}:
        whole = PARTS[part]
        assert part in {
            canonicalize_name(one.name)
            for one in map(Requirement, metadata.requires(whole) or ())
            if one.marker is None or one.marker.evaluate({"extra": ""})
        }, f"{whole} requires no {part}"
        yield from (whole, *brought({whole}))


def declared(lines: str) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in lines.split("\n") if line}


WITHOUT_TORCH = (
    *("triptych", "triptych.cli.main", "analysis", "analysis.loaded_run", "analysis.tables.stage"),
    *("probes.runs.run", "probes.config.schema", "probes.runs.directory", "probes.command_line"),
    "hooks.attention.maps",
)


def test_they_load_no_torch():
    """Nor other large libraries. One after another in one process: what one of them loads is named with it."""
    code = (
        "import importlib, sys\nfor module in sys.argv[1:]:\n    importlib.import_module(module)\n"
        f"    found = {HEAVY | {'cv2', 'sklearn', 'ray'}!r} & {{name.split('.')[0] for name in sys.modules}}\n"
        "    assert not found, (module, found)\n"
        "from hooks import Definition, Word, WordMap, sites, words\n"
        "assert 'torch' not in sys.modules\n"
        "import hooks\nhooks.Probe"
    )
    done = python("-c", code, *WITHOUT_TORCH)
    assert done.returncode == 0, done.stderr


HELP = """
import sys
from triptych.cli.main import main

for name in sys.argv[1:]:
    try:
        main([*name.split(), "--help"])
    except SystemExit as end:
        assert end.code == 0, name
    found = {"torch", "numpy", "pandas", "pyarrow"} & sys.modules.keys()
    if name not in ("plan", "report", "run", "trace"):  # whose flags the configuration describes
        found |= {"pydantic"} & sys.modules.keys()
    assert not found, (name, found)
"""


def test_help_of_a_command_is_quick_and_loads_no_large_library():
    names = sorted({"run", *COMMANDS}, key=lambda name: name in ("plan", "report", "run", "trace"))
    done = python("-c", HELP, *names)
    assert done.returncode == 0, done.stderr
    assert all(f"triptych {name}" in done.stdout for name in names)
    assert done.stdout.count("triptych run triplets.yaml") >= 2  # two runnable examples


def test_the_door_of_a_command_is_two_lines():
    """``python -m probes.run`` is ``triptych run``, ``python -m analysis`` ``triptych``; no import goes up."""
    for door in ("probes/run.py", "analysis/__main__.py"):
        statements = ast.parse((ROOT / door).read_text(encoding="utf-8")).body[1:]
        assert len(statements) == 1 and ast.unparse(statements[0]).startswith("if __name__ == '__main__':")
        assert len(statements[0].body) == 2
