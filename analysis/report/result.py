"""What a command finds, in Python and in a notebook: a text, a table, a figure."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from analysis.report.figures.style import Drawn

ROWS = 200  # that a notebook shows


@dataclass(frozen=True, repr=False)
class Result:
    """What a command of Triptych found. A notebook shows the text and the table.

    Attributes
    ----------
    text : str
        What the command prints.
    table : DataFrame
        Its numbers, a row each; the function that returns it says of what.
    """

    text: str
    table: pd.DataFrame = field(compare=False)
    draw: Callable[[], Drawn] = field(compare=False)

    def plot(self) -> Drawn:
        """Draw the table; UserError if it holds nothing to draw."""
        return self.draw()

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return shown_in_notebook(self.text, self.table)


def shown_in_notebook(text: str, table: pd.DataFrame) -> str:
    """Return a text with a table below it as HTML.

    >>> shown_in_notebook("a < b", pd.DataFrame())
    "<pre style='white-space: pre-wrap'>a &lt; b</pre>"
    """
    head = f"<pre style='white-space: pre-wrap'>{html.escape(text)}</pre>"
    if table.empty:
        return head
    rows = table.to_html(index=False, max_rows=ROWS, float_format="{:.4g}".format, border=0)
    return f"{head}<div style='max-height: 24em; overflow: auto'>{rows}</div>"
