"""The tables of a trace, rows of `analysis.tables.registry`."""

from __future__ import annotations

from analysis.methods.tracing import cuts, outcomes, shares
from analysis.tables.table import Latex, Table

TRACE = (
    Table(
        "trace_total",
        "trace",
        "an outcome and donor (a word of the contrast, both, or a control word): the total effect",
        shares.TOTAL_COLUMNS,
    ),
    Table(
        "trace_shares",
        "trace",
        "an outcome, donor, patched place and estimand: effect, and share of the total effect",
        shares.SHARE_COLUMNS,
        printed=(
            Latex(
                "trace_shares",
                "trace-shares",
                "Shares of the total effect of both words on the {outcome} in {data} on {model}: what each place’s"
                " activations are enough for, and what they are needed for.",
                "Intervals hold for all rows at once. Floor: the share with a word of the reference’s meaning as donor."
                " p: sufficiency beyond it and beyond 0, adjusted over all rows.",
            ),
        ),
    ),
    Table(
        "trace_windows",
        "trace",
        "an outcome, donor, place, window of steps and estimand: shares, as in `trace_shares`",
        shares.SHARE_COLUMNS,
    ),
    Table(
        "trace_heads",
        "trace",
        "an outcome, donor, place, head and estimand: shares, as in `trace_shares`",
        shares.SHARE_COLUMNS,
    ),
    Table(
        "trace_cuts",
        "trace",
        "an outcome and cut, a patch whose share is known: whether it comes out",
        cuts.CUT_COLUMNS,
    ),
    Table(
        "trace_outcomes",
        "trace",
        "an outcome and traced image: its value",
        outcomes.COLUMNS,
        csv=False,
    ),
)
