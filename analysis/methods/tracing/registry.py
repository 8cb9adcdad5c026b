"""The tables of a trace, rows of `analysis.tables.registry`."""

from __future__ import annotations

from analysis.methods.tracing import channels, outcomes, shares, steps, together
from analysis.tables.table import Latex, Table

TRACE = (
    Table(
        "trace_total",
        "trace",
        "an outcome and donor (a word of the contrast, both, or a control word): the total effect and the half step",
        shares.TOTAL_COLUMNS,
        shares.total_table,
    ),
    Table(
        "trace_shares",
        "trace",
        "an outcome, donor and patched place: sufficiency, necessity and floor as shares of the total effect",
        shares.SHARE_COLUMNS,
        shares.share_table,
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
        "an outcome, donor, place and window of steps: shares, as in `trace_shares`",
        shares.SHARE_COLUMNS,
        shares.share_table,
    ),
    Table(
        "trace_heads",
        "trace",
        "an outcome, donor, place and head: shares, as in `trace_shares`",
        shares.SHARE_COLUMNS,
        shares.share_table,
    ),
    Table(
        "trace_together",
        "trace",
        "an outcome, donor and set of places (all, or a pair): the sum of their shares, and what all at once do beyond",
        together.TOGETHER_COLUMNS,
        together.together_table,
    ),
    Table(
        "trace_curve",
        "trace",
        "an outcome, donor and step from which the donor’s text enters: shares, and what is decided before the next",
        steps.CURVE_COLUMNS,
        steps.curve_table,
    ),
    Table(
        "trace_shapley",
        "trace",
        "an outcome, donor and place: its Shapley value as a share of the total effect",
        steps.SHAPLEY_COLUMNS,
        steps.shapley_table,
    ),
    Table(
        "trace_channels",
        "trace",
        "an outcome, donor and channel of the text into a transformer, or pair: its Shapley value or interaction",
        channels.CHANNEL_COLUMNS,
        channels.channel_table,
    ),
    Table(
        "trace_cuts",
        "trace",
        "an outcome and cut, a patch whose share is known: whether it comes out",
        steps.CUT_COLUMNS,
        steps.cut_table,
    ),
    Table(
        "trace_outcomes",
        "trace",
        "an outcome and traced image: its value",
        outcomes.COLUMNS,
        outcomes.outcomes,
        csv=False,
    ),
)
