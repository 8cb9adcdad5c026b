"""Any damaged ``triplets.yaml``: a plan, or one line of at most 400 characters, within five seconds.

The dry run is called as the command line calls it. What it reads of the model is read once, since every case would read
the same files again.
"""

import functools
import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from probes.models import loading
from triptych.cli.main import main

TEXT = (Path(__file__).parents[3] / "triplets.yaml").read_text(encoding="utf-8")
SCALARS = [
    *("~", "no", "yes", "1", "-1", "0", "1.5", "1e3", ".nan", ".inf", "010", "1:30", "''", "{}", "[]", "[1]"),
    *("{a: b}", "2024-01-01", "!!int ''", "&a", "*a", "99999999999999999999"),
]
SNIPPETS = ["\t", ": ", "- ", "'", "{", "]", "#", "|", "*a", "<<: *a", "---\n", "\x00", "\u202e", "👩"]
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


@pytest.fixture
def dry_run(tmp_path, capsys, monkeypatch):
    """Call the dry run on a text, and check what came of it; counts plans and refusals."""
    monkeypatch.setattr(loading, "resolve", functools.cache(loading.resolve))
    monkeypatch.chdir(tmp_path)
    counts = {0: 0, 2: 0}
    (tmp_path / "a.yaml").write_text("prompts: ['a {person}']")
    assert main(["plan", "a.yaml"]) == 0  # what is loaded once is loaded

    def run(text):
        Path("a.yaml").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        capsys.readouterr()
        began = time.process_time()
        status = main(["plan", "a.yaml"])
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


def test_a_plan_or_one_line(dry_run):
    fuzz(damaged(), 80, dry_run)


@pytest.mark.slow
def test_three_thousand_files(dry_run):
    fuzz(damaged(), 3000, dry_run)
