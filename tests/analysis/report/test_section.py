"""What a table spec is shown as: no row is lost, and each kind of text writes names and numbers in its own way."""

from types import SimpleNamespace

import pandas as pd
import pytest

from analysis.report.section import documents, page_section
from analysis.tables.spec import Measured, MethodSpec, Pivot, TableSpec
from probes.config.schema import Config


def shown(*rows):
    pivot = Pivot(
        "{{ name }}", {"{{ head }}": "{{ number(n, 1) }}"}, "All of {{ data }}.", latex="all", title="All"
    )
    method = MethodSpec((TableSpec("all", "a thing", ("name", "head", "n"), pivots=(pivot,)),))
    config = Config.stored({"name": "a & b", "model": "toyworld"})
    table = pd.DataFrame(rows, columns=["name", "head", "n"])
    return Measured(method, {"toyworld": SimpleNamespace(config=config)}, {"all": table})


def test_names_are_escaped_and_numbers_written_as_the_text_has_them():
    own = shown(("x_1", "<b>", -0.25), ("y", "%", float("nan")))
    ((_, text),) = documents(own)
    assert "x\\_1 & $-$0.2 & --" in text and " & <b> & \\%" in text and "All of a \\& b." in text
    (block,) = page_section(own, {})["shown"]["blocks"]
    (table,) = block["tables"]
    assert table["heads"] == ["&lt;b&gt;", "%"] and table["caption"] == "All of a &amp; b."
    assert table["rows"][0] == ("x_1", ['<data value="-0.25">−0.2</data>', "—"])


def test_two_rows_of_one_cell_are_no_table():
    with pytest.raises(ValueError, match="all: expected one row a cell, got more for h"):
        list(documents(shown(("x", "h", 1.0), ("x", "h", 2.0))))
