"""Tables of sentences, printed whole."""

from __future__ import annotations

import pandas as pd


class ListedTexts(pd.DataFrame):
    """A DataFrame of sentences: printed whole, where pandas would cut them."""

    def __repr__(self) -> str:
        return self.to_string(max_colwidth=None)

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.max_colwidth", None, "display.max_rows", None):
            return pd.DataFrame(self)._repr_html_()
