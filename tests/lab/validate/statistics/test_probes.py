"""Worlds of probes have what they state, and their tables are those of the page."""

from lab.validate.statistics.probes import WORLDS, probe_coverage
from lab.validate.statistics.simulation import COLUMNS


def test_the_tables_of_rates_are_those_of_the_page():
    table, widths = probe_coverage(WORLDS[:1], simulations=3, resamples=50)
    assert tuple(table.columns) == COLUMNS and len(table) == 2
    assert widths[0]["width"] > 0
