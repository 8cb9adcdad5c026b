"""No cell of a CSV is a formula to a spreadsheet; numbers stay numbers, and what is read back is what was written."""

import ast
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from probes.csv_text import csv_bytes, csv_rows, escape_formula, unescape_formula

ROOT = Path(__file__).parents[2]
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\n=1", "- a dog", "-", "＝1", "'=x"]
HARMLESS = ["a dog", "", "'tis a dog", "-0.5", "+1", "-1e-07", "3", "t00000-s0-neutral", "−0.5", "'", "''"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_neutralised_and_restored(text):
    assert escape_formula(text) == f"'{text}" and unescape_formula(escape_formula(text)) == text
    assert unescape_formula(escape_formula(escape_formula(text))) == escape_formula(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_texts_and_numbers_stay(text):
    assert escape_formula(text) == text == unescape_formula(text)


def test_a_table_is_read_back_as_it_was_and_its_numbers_are_numbers(tmp_path):
    texts = FORMULAS + HARMLESS[: len(FORMULAS)]
    frame = pd.DataFrame({"text": texts, "=name": texts, "kind": pd.Categorical(texts)})
    frame["number"] = np.linspace(-1, 1, len(frame))
    frame["whole"] = -np.arange(len(frame))
    frame["maybe"] = pd.Series([-1.5, np.nan] * len(FORMULAS), dtype=object)
    path = tmp_path / "a.csv"
    path.write_bytes(csv_bytes(frame))
    assert frame["text"].tolist() == texts  # the table that was given is not changed
    (_, head), *rows = csv_rows(path)
    assert head == list(frame.columns)
    assert all([row[place] for _, row in rows] == texts for place in range(3))
    cells = pd.read_csv(io.BytesIO(path.read_bytes()), keep_default_na=False, float_precision="round_trip")
    written = [str(cell) for name in ("text", "'=name", "kind") for cell in cells[name]]
    assert all(cell.startswith("'") or escape_formula(cell) == cell for cell in written)
    assert (cells["number"] == frame["number"]).all() and (cells["whole"] == frame["whole"]).all()
    assert cells["maybe"].tolist()[:2] in (["-1.5", ""], [-1.5, ""])  # a column that holds no text


def test_a_table_without_formulas_is_as_pandas_writes_it():
    frame = pd.DataFrame(
        {"a": ["x", None, "-0.5"], "b": [-0.1, float("nan"), -np.inf], "c": [["=1"], ["b"], []]}
    )
    assert csv_bytes(frame) == frame.to_csv(index=False, lineterminator="\n").encode()
    twice = pd.DataFrame([["=1", "b", -1]], columns=["a", "a", "c"])
    assert csv_bytes(twice) == b"a,a,c\n'=1,b,-1\n"


def test_every_csv_is_written_by_one_function():
    found = []
    for room in ("hooks", "probes", "analysis"):
        for path in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if name.endswith(".to_csv") or name in ("csv.writer", "csv.DictWriter", "pa.csv.write_csv"):
                    found.append(path.relative_to(ROOT).as_posix())
    assert found == ["probes/csv_text.py"]


def test_the_labelling_sheet_neutralises_in_the_browser():
    page = (ROOT / "analysis/report/templates/label_sheet.html.j2").read_text(encoding="utf-8")
    assert ".map((row) => row.map(safe).map(quote).join" in page
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node on this machine")
    script = "\n".join(re.findall(r"^ *const (?:formula|safe) = .*$", page, re.MULTILINE))
    texts = FORMULAS + HARMLESS
    line = f"{script}\nconsole.log(JSON.stringify({json.dumps(texts)}.map(safe)))"
    done = subprocess.run([node, "-e", line], capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout) == [escape_formula(text) for text in texts]
