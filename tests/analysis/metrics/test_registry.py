"""One table of metrics: what runs hold, what the paper's Table 5 shows, and what the schema lets one ask for."""

from typing import get_args

import pytest

from analysis.metrics import registry
from analysis.metrics.registry import METRICS, READOUTS, computed_from, definition, headline_metrics
from hooks.records import METRICS_OF_TEXT
from probes.config import Measure


def test_versions_name_their_metric():
    held = [row for row in METRICS.values() if row.version]
    assert all(row.version.partition("/")[0] == row.metric for row in held)
    assert all(definition(row.metric) is row for row in held)
    assert all(row.low < row.high and row.space in registry.SPACES for row in METRICS.values())


@pytest.mark.parametrize("name", ["dino", "", "Cosine"])
def test_what_no_run_holds_has_no_definition(name):
    with pytest.raises(ValueError, match=r"metric: expected one of cosine_sequence, .*cooccurrence, got '"):
        definition(name)


def test_captured_metrics_are_those_that_the_hooks_record():
    assert set(computed_from("captures")) == {"cosine", *METRICS_OF_TEXT}


def test_columns_of_the_papers_table_5():
    symbols = ["t", "z₀", "SSIM", "Diff. Pix.", "ResNet", "CLIP", "DINO", "Split-Product"]
    for readout in READOUTS:
        columns = headline_metrics(readout)
        assert [column.symbol for column in columns] == symbols
        assert (columns[0].metric, columns[0].readout) == (f"cosine_{readout}", readout)
        assert [column.arrow for column in columns] == ["↑", "↑", "↑", "↓", "↑", "↑", "↑", "↑"]
    assert headline_metrics() == headline_metrics(READOUTS[0])


def test_the_schema_names_the_metrics_that_runs_hold():
    fields = Measure.model_fields
    assert get_args(fields["text_readout"].annotation) == READOUTS
    assert get_args(fields["primary"].annotation) == tuple(m.key for m in headline_metrics() if m.version)
