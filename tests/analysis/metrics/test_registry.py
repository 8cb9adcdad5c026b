"""One table of metrics: what runs hold, what the paper's Table 5 shows, and what the schema lets one ask for."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from analysis.metrics import pixels, registry
from analysis.metrics.registry import (
    METRICS,
    READOUTS,
    computed_from,
    definition,
    headline_metrics,
    require_primary,
)
from analysis.tables.similarities.pictures import OPTIONAL_METRICS
from hooks.recorder import METRICS_OF_TEXT
from lab.pages import metric_list
from probes.config.schema import Measure
from probes.errors import UserError


def test_versions_name_their_metric():
    assert all(row.version.partition("/")[0] == row.metric for row in METRICS.values())
    assert all(definition(row.metric) is row for row in METRICS.values())
    assert all(row.low < row.high and row.space in registry.SPACES for row in METRICS.values())


def test_the_page_of_metrics_is_that_of_the_registry():
    page = Path(__file__).parents[3] / "docs/reference/metrics.md"
    assert page.read_text("utf-8") == metric_list.page(), (
        "run: python -m lab.pages.metric_list > docs/reference/metrics.md"
    )
    assert all(row.formula and row.source for row in METRICS.values())


def test_what_no_run_holds_has_no_definition():
    with pytest.raises(ValueError, match=r"metric: expected one of cosine_sequence, .*cooccurrence, got '"):
        definition("lpips")


def test_captured_metrics_are_those_that_the_hooks_record():
    assert set(computed_from("captures")) == {"cosine", *METRICS_OF_TEXT}


def test_columns_of_the_papers_table_5():
    symbols = ["t", "z₀", "SSIM", "Diff. Pix.", "ResNet", "CLIP", "DINO", "Split-Product"]
    for readout in READOUTS:
        columns = [column for column in headline_metrics(readout) if column.symbol in symbols]
        assert [column.symbol for column in columns] == symbols
        assert (columns[0].metric, columns[0].readout) == (f"cosine_{readout}", readout)
        assert [column.arrow for column in columns] == ["↑", "↑", "↑", "↓", "↑", "↑", "↑", "↑"]
    assert headline_metrics() == headline_metrics(READOUTS[0])


def test_the_schema_names_the_metrics_that_runs_hold():
    assert get_args(Measure.model_fields["text_readout"].annotation) == READOUTS


def test_optional_metrics_are_those_that_one_can_ask_for_and_no_headline():
    asked = get_args(get_args(Measure.model_fields["pictures"].annotation)[0])
    assert asked == OPTIONAL_METRICS == tuple(name for name, row in METRICS.items() if row.optional)
    assert not {*asked} & {metric.metric for metric in headline_metrics()}
    assert computed_from("pictures", asked) == (*computed_from("pictures"), *asked)


def test_the_primary_measure_is_one_that_runs_hold():
    keys = [metric.key for metric in headline_metrics()]
    assert len(set(keys)) == len(keys) and {"t", "z0", "ssim", "diff_pix"} <= {*keys}
    for key in (*keys, Measure().primary):
        require_primary(key, "measure.primary")
    for key in ("lpips", "resnet50_logits", "cosine", "cooccurrence", ""):
        with pytest.raises(UserError, match=rf"^a\.yaml: expected 't', .* or '\w+', got '{key}'") as e:
            require_primary(key, "a.yaml")
        assert all(repr(known) in str(e.value) for known in keys)


def test_a_metric_of_pictures_names_its_function():
    named = {name: row.function for name, row in METRICS.items() if row.function}
    assert tuple(named) == computed_from("pictures", OPTIONAL_METRICS)
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (16, 12, 3), np.uint8) for _ in range(2)]
    for name, function in named.items():
        score = getattr(pixels, function)
        there, back, same = (
            score(pixels.PicturePair(*map(pixels.grey, pair)))
            for pair in (images, images[::-1], images[:1] * 2)
        )
        row = METRICS[name]
        assert row.low <= there.value <= row.high and not there.reason, name
        assert back.value == pytest.approx(there.value, rel=1e-12), f"{name}: a pair has no order"
        assert same.value == pytest.approx(row.high if row.higher_is_nearer else row.low), name
