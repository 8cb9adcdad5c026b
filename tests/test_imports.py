"""Imports go one way (hooks, probes, analysis), and what needs no torch loads none."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("hooks", "probes", "analysis")
HEAVY = {
    "torch",
    "torchvision",
    "diffusers",
    "transformers",
    "timm",
    "open_clip",
    "groundingdino",
    "accelerate",
}
ANYTHING = ("",)
RUNS = (
    "probes.runs.store",
    "probes.runs.images",
    "probes.runs.image_faults",
    "probes.config.schema",
    "probes.runs.parts",
    "probes.runs.kinds",
    "probes.storage.cache",
    "probes.storage.locations",
    "probes.runs.completeness",
    "probes.runs.schemas",
    "probes.errors",
    "probes.storage.paths",
    "probes.csv_text",
    "probes.json_text",
    "probes.runs.recorded_files",
    "probes.runs.recorded_paths",
    "probes.command_line",
    "probes.attributes",
    "probes.prompts.audit",
    "probes.attributes",
    "probes.prompts.diagnostic",
    "probes.stages.trace.variants",
    *(
        "probes.config.checks",
        "probes.prompts.paintskills",
        "probes.prompts.sets",
        "probes.config.skills_options",
    ),
)  # what was stored, and what was asked
# what runs the parts of a stage, here or elsewhere
LOOP = (
    *(
        "probes.execution.loop",
        "probes.execution.shards",
        "probes.execution.team",
        "probes.execution.workers",
        "probes.models.devices",
    ),
    "probes.execution.cluster",
)
WORDS = (
    "probes.prompts.grammar",
    "probes.runs.coco_masks",
    "hooks.architectures.addresses",
    "hooks.attention.masks",
    "hooks.cosine",
    "hooks.prompt.spans",
)
SPECIMENS = ("probes.toyworld",)
MODELS = (
    "probes.models.pretrained",
    "probes.models.network_limits",
)  # what reads models that somebody else made
BELOW = {  # of the rooms of analysis, what each may import beside itself
    "stats": (),
    "metrics": ("stats", "study"),
    "tables": ("metrics", "stats", "study"),
    "report": ("tables", "metrics", "stats", "study"),
    "studies": ("report", "tables", "metrics", "stats", "study"),
    "papers": ("metrics", "stats"),
    "observe": (),
}
# What a file may import beside its own room, by the longest prefix that fits it.
ALLOWED = {
    "hooks": (),
    "probes": ("hooks",),
    "probes/run.py": ANYTHING,
    "analysis": ANYTHING,  # the public face, the command line, and the former places of commands
    "analysis/study.py": (*WORDS, "probes.config.schema"),
    "lab/validate": ("analysis", *RUNS, *WORDS, *SPECIMENS),
    "lab/validate/tracing": ANYTHING,  # draws specimens with pipelines in hand
    "lab/validate/skills": ANYTHING,  # likewise
} | {
    f"analysis/{room}": (*(f"analysis.{below}" for below in others), *RUNS, *WORDS, *SPECIMENS)
    for room, others in BELOW.items()
}
ALLOWED["analysis/observe"] += (*LOOP, *MODELS)
ALLOWED["lab/validate"] += MODELS
ALLOWED["analysis/observe/skin/observer.py"] = (
    *("analysis.observe", "analysis.metrics.skin_tone", "analysis.metrics.illumination"),
    *ALLOWED["analysis/observe"],
)  # stores the colours and tones that these make of pixels
ALLOWED["analysis/methods/gep/images.py"] = ANYTHING  # a command that runs all stages
ALLOWED["analysis/studies/alignment"] = ANYTHING  # embeds prompts and reference images
ALLOWED["analysis/methods/decoding/generate.py"] = ANYTHING  # likewise
ALLOWED["analysis/methods/decoding/localise.py"] = ANYTHING  # draws with a pipeline in hand
ALLOWED["analysis/tables"] += (
    "probes.execution.team",
    "probes.execution.workers",
)  # processes that share the measuring
ALLOWED["analysis/report"] += ("probes.execution.team",)  # and the writing of figures
TORCH = (
    "analysis/observe/",
    "analysis/methods/alignment/observe.py",
    "lab/train/detectors/",
    "lab/validate/dalleval/__main__.py",
    "lab/train/features/",
    "lab/train/questions/",
    "lab/validate/tracing/",
    "lab/validate/skills/",
)
FILES = sorted(
    path.relative_to(ROOT)
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if "weights" not in path.parts
)


def imported(path: Path, typed: bool = True) -> list[tuple[int, str]]:
    """Every module a file imports, also inside functions, with its line; relative ones made absolute.

    ``typed=False`` leaves out those that a type checker alone reads.
    """
    found, tree = [], ast.parse((ROOT / path).read_text(encoding="utf-8"))
    apart = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not typed and node in apart:
            continue
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = list(path.parts[: len(path.parts) - node.level]) if node.level else []
            module = ".".join([*package, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return found


def rule(path: Path) -> tuple[str, tuple[str, ...]]:
    """The room of a file, and what it may import beside."""
    prefix = max((p for p in ALLOWED if path.as_posix() == p or path.as_posix().startswith(f"{p}/")), key=len)
    return prefix.removesuffix(".py").replace("/", "."), ALLOWED[prefix]


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(not prefix or name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_imports_go_one_way(path):
    own, allowed = rule(path)
    for line, name in imported(path):
        if name.split(".")[0] in ROOMS:
            assert within(name, (own, *allowed)), f"{path}:{line}: {own} may not import {name}"
        assert name.split(".")[0] not in {"tests", "notebooks"}, f"{path}:{line}: imports {name}"


ON_TOP = ("analysis.studies", "lab.papers", "lab.validate")


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.parent != Path("analysis") and not within(p.as_posix().replace("/", "."), ON_TOP)],
    ids=str,
)
def test_nothing_imports_what_stands_on_top(path):
    """Studies, papers and the validation of the instrument are read by people; only the command line calls them."""
    assert [name for _, name in imported(path) if within(name, ON_TOP)] == []


def test_no_circle():
    """Imports for type checkers alone aside, every module can be understood after those that it imports."""
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in FILES}
    below = {
        name: {
            found if found in modules else found.rpartition(".")[0]
            for _, found in imported(path, typed=False)
            if found in modules or found.rpartition(".")[0] in modules
        }
        - {name}
        for name, path in modules.items()
    }
    graphlib.TopologicalSorter(below).prepare()  # names the circle


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if p.parts[0] == "analysis" and not p.as_posix().startswith(TORCH)],
    ids=str,
)
def test_analysis_names_no_torch(path):
    """A statistic is recomputed on a laptop: only what looks at images asks for torch."""
    names = {name.split(".")[0] for _, name in imported(path)}
    assert not names & HEAVY


def test_the_import_test_sees_every_kind_of_import(tmp_path, monkeypatch):
    folder = tmp_path / "hooks" / "inner"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(
        "import probes.runs.store as s\nfrom analysis import statistics\nfrom .. import sites\n"
        "def f():\n    from probes import config\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    names = {name for _, name in imported(Path("hooks/inner/a.py"))}
    assert names == {"probes.runs.store", "analysis.statistics", "hooks.sites", "probes.config.schema"}


@pytest.mark.parametrize(
    "module",
    [
        "analysis",
        "probes.runs.store",
        "probes.config.schema",
        "probes.runs.directory",
        "probes.command_line",
        "hooks.attention.masks",
    ],
)
def test_loads_no_torch(module):
    code = f"import sys, {module}\nprint(sorted({HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stdout + done.stderr


def test_help_is_quick_and_loads_no_torch():
    code = (
        "import sys\nfrom triptych.cli.run import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("python -m probes.run triplets.yaml") == 2  # two runnable examples
