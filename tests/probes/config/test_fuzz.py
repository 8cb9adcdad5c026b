"""Any ``triplets.yaml``, damaged or made up: a plan, or one line of at most 400 characters, within five seconds.

The dry run is called as the command line calls it. What it reads of the model is read once, since every case would read
the same files again; the operations of an image of one size are counted once, and a scheduler is tried once for each
number of steps.
"""

import os
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from probes.config.schema import Config
from probes.config.types import Section
from probes.models import description, estimate, loading, schedulers
from triptych.cli.run import main

TEXT = (Path(__file__).parents[3] / "triplets.yaml").read_text(encoding="utf-8")
SCALARS = [
    *("~", "no", "yes", "1", "-1", "0", "1.5", "1e3", ".nan", ".inf", "010", "1:30", "''", "{}", "[]", "[1]"),
    *("{a: b}", "2024-01-01", "!!int ''", "&a", "*a", "99999999999999999999"),
]
SNIPPETS = [
    "\t",
    "\n\n",
    ": ",
    "- ",
    "'",
    "{",
    "]",
    "#",
    "|",
    "*a",
    "<<: *a",
    "---\n",
    "\x00",
    "\u202e",
    "漢",
    "👩",
]
ODD = ["auto", "default", "toyworld", "~nosuch", "a/b", "x" * 300, "cuda:7", "daam", "\x1b[0m", "{person}"]
LINES = TEXT.splitlines(keepends=True)


@st.composite
def damaged(draw):
    """The shipped file after a few mutations: lines and characters taken out, doubled, moved, put in; values of another
    kind; bytes at random."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 4))):
        where = draw(st.integers(0, max(0, len(lines) - 1)))
        kind = draw(st.sampled_from(["cut", "double", "swap", "indent", "value", "insert", "erase", "noise"]))
        if not lines:
            break
        line = lines[where]
        at = draw(st.integers(0, len(line)))
        if kind == "cut":
            del lines[where : where + draw(st.integers(1, 5))]
        elif kind == "double":
            lines.insert(draw(st.integers(0, len(lines))), line)
        elif kind == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[where], lines[other] = lines[other], line
        elif kind == "indent":
            lines[where] = " " * draw(st.integers(0, 8)) + line.lstrip()
        elif kind == "value":
            head, colon, _ = line.partition(":")
            lines[where] = f"{head}{colon} {draw(st.sampled_from(SCALARS))}\n"
        elif kind == "insert":
            snippet = draw(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=8)))
            lines[where] = line[:at] + snippet * draw(st.sampled_from([1, 1, 1, 50])) + line[at:]
        elif kind == "erase":
            lines[where] = line[:at] + line[at + draw(st.integers(1, 20)) :]
        else:
            lines[where] = line[:at] + draw(st.binary(max_size=6)).decode("latin-1") + line[at:]
    return "".join(lines)


def values(kind):
    """Values for a field: fitting ones, near misses, and others altogether."""
    wild = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 70),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=True),
        st.text(max_size=12),
        st.sampled_from(ODD),
        st.lists(st.one_of(st.text(max_size=5), st.integers(-2, 9)), max_size=3),
        st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
    )
    return st.one_of(kind, kind, kind, wild)


WORDS = st.sampled_from(
    ["person", "woman", "man", "80-year-old", "FBI agent", "lady", "Person", " man ", "x", "\u202e", ""]
)
NAMES = st.sampled_from(["neutral", "feminine", "masculine", "old", "id", "a-b", "n\u00e9"])
INDICATORS = st.dictionaries(
    NAMES,
    st.one_of(WORDS, st.fixed_dictionaries({"word": values(WORDS)}, optional={"control": values(NAMES)})),
    max_size=6,
)
PROMPTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["a {person}", "an {person} with a dog", "{person}, {person}", "a dog", "A {person} " * 9]
        ),
        st.text(max_size=10).map(lambda text: text + "{person}"),
        st.dictionaries(NAMES, st.sampled_from(["a nurse", "a man", "x"]), max_size=4),
    ),
    max_size=4,
)


def sections():
    """Every field of every section, by its place, with values of its default's kind and others."""
    fields = {}
    for name in ("sampler", "capture", "generate", "observe", "measure", "report"):
        for field, entry in type(Config.model_fields[name].default).model_fields.items():
            default = entry.get_default(call_default_factory=True)
            fields[name, field] = values(
                st.just(default.model_dump() if isinstance(default, Section) else default)
            )
        fields[(name,)] = values(st.just({}))
    return fields


SEEDS = st.one_of(
    st.lists(st.integers(0, 9), max_size=4),
    st.fixed_dictionaries({"count": st.integers(-1, 2**66)}, optional={"start": st.integers(-1, 2**66)}),
)
FIELDS = {
    ("prompts",): values(PROMPTS),
    ("indicators",): values(INDICATORS),
    ("reference",): values(NAMES),
    ("contrasts",): values(st.lists(st.lists(NAMES, max_size=3), max_size=3)),
    ("seeds",): values(SEEDS),
    ("limit",): values(st.integers(0, 3)),
    ("name",): values(st.text(max_size=5)),
    ("model",): values(st.sampled_from(["toyworld", "toyworld-null"])),
    ("out",): values(st.text(max_size=5)),
    ("zzz",): values(st.none()),
    **sections(),
}


@st.composite
def made_up(draw):
    """A plain configuration with up to four of all the fields there are put in."""
    data = {"prompts": ["a {person} with a dog", "an {person}"]}
    for place in draw(st.lists(st.sampled_from(list(FIELDS)), max_size=4)):
        inner = data
        for key in place[:-1]:
            inner = inner.setdefault(key, {}) if isinstance(inner, dict) else {}
        if isinstance(inner, dict):
            inner[place[-1]] = draw(FIELDS[place])
    return data


def once_a_source(function):
    """What is read of a model is read once: its files do not change here."""
    results = {}

    def call(source, *arguments):
        if source not in results:
            results[source] = function(source, *arguments)
        return results[source]

    return call


def once_a_size(count):
    """Count the operations of a network once for each model and size: a call on torch's meta device takes a second."""
    results = {}

    def operations(pipe, height, width):
        key = (pipe.unet, pipe.vae, height, width)  # the same two, as a model's description is read once
        if key not in results:
            results[key] = count(pipe, height, width)
        return results[key]

    return operations


def once_a_scheduler(trial):
    """Try a scheduler once for its settings and each number of steps."""
    results = {}

    def tried(scheduler, steps):
        key = (type(scheduler), repr(sorted(scheduler.config.items())), steps)
        if key not in results:
            results[key] = trial(scheduler, steps)
        return results[key]

    return tried


def read_models_once(monkeypatch):
    """What a dry run reads, counts and tries of a model, it reads, counts and tries once."""
    for module, name in ((loading, "tokenizers"), (description, "check")):
        monkeypatch.setattr(module, name, once_a_source(getattr(module, name)))
    monkeypatch.setattr(estimate, "shapes", once_a_size(estimate.shapes))
    monkeypatch.setattr(schedulers, "_trial", once_a_scheduler(schedulers._trial))


@pytest.fixture
def dry_run(tmp_path, capsys, monkeypatch):
    """Call the dry run on a text, and check what came of it; counts plans and refusals."""
    read_models_once(monkeypatch)
    monkeypatch.chdir(tmp_path)
    counts = {0: 0, 2: 0}
    (tmp_path / "a.yaml").write_text("prompts: ['a {person}']")
    assert main(["a.yaml", "--dry-run"]) == 0  # what is loaded once is loaded

    def run(text):
        Path("a.yaml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        capsys.readouterr()
        began = time.process_time()
        status = main(["a.yaml", "--dry-run"])
        took = time.process_time() - began
        out, err = capsys.readouterr()
        assert took < 5, f"{took:.1f} s"
        counts[status] += 1
        if status == 0:
            assert out and not err
            assert all(line.isprintable() for line in out.splitlines())
        else:
            assert (status, out, err.count("\n"), err[-1]) == (2, "", 1, "\n")
            assert len(err) <= 401 and err[:-1].isprintable()

    yield run
    assert os.listdir(tmp_path) == ["a.yaml"]
    assert min(counts.values()) > 0, counts
    print(counts)


def fuzz(strategy, count, run):
    """Run so many cases, always the same; without shrinking, as a failing text is short as it is."""
    chosen = settings(
        phases=[Phase.explicit, Phase.generate],
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    chosen(given(strategy)(lambda text: run(text)))()


KINDS = {"damaged": damaged(), "made up": made_up().map(lambda data: yaml.safe_dump(data, sort_keys=False))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_or_one_line(kind, dry_run):
    fuzz(KINDS[kind], 80, dry_run)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_six_thousand_files(kind, dry_run):
    fuzz(KINDS[kind], 3000, dry_run)
