"""Every column of an audit's tables is described, and no other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.methods.audit.agreement import COLUMNS
from analysis.methods.audit.columns import FACTOR, TABLES, described
from analysis.methods.audit.design import AuditCell, Design
from analysis.methods.audit.labelled_audit import measure_cells
from analysis.methods.audit.labels import find_columns, join_answers, open_labels, read_labels
from analysis.methods.audit.reader import confusion_table, corrected_table
from analysis.tables.columns import TYPES
from tests.analysis.methods.audit.pictures import table_of, write_pictures

LEVELS = {"model": ("a", "b"), "profession": ("nurse", "CEO"), "setting": ("plain", "diverse")}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    path = write_pictures(folder, table_of({("a", "nurse", "baseline"): (2, 1, 0)}))
    texts = open_labels(path)
    pictures = join_answers(read_labels(path, folder, find_columns(texts, path), texts)).assign(decided=True)
    factors = ("profession", "setting")
    design = Design(
        "female", ("female", "male"), (), factors, LEVELS, dict.fromkeys(LEVELS["profession"], 0.5)
    )
    cell = AuditCell(np.array([1.0, 0.0, 1.0]), np.ones(3), 3)
    keys = [(a, b, c) for a in LEVELS["model"] for b in LEVELS["profession"] for c in LEVELS["setting"]]
    read = replace(design, reader="machine")
    own = pictures.assign(reading=pictures["answer"], profession="nurse", setting="plain")
    of_reader = {"confusions": confusion_table(own, read), "corrected": corrected_table(own, read)}
    return {"pictures": pictures, **measure_cells(dict.fromkeys(keys, cell), design), **of_reader}


@pytest.mark.parametrize("name", [name for name in TABLES if name != "agreement"])
def test_every_column_is_described_and_no_other(tables, name):
    there = [FACTOR if one in ("profession", "setting") else one for one in tables[name]]
    assert sorted({*there}) == sorted(column.name for column in described(name))


def test_the_columns_of_the_agreement_too():
    assert sorted(COLUMNS) == sorted(column.name for column in described("agreement"))
    for name in TABLES:
        for column in described(name):
            assert column.type in TYPES and column.meaning.endswith("."), column
    with pytest.raises(KeyError):
        described("gap")
