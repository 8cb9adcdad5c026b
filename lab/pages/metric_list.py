"""The page of the docs on every metric: ``python -m lab.pages.metric_list > docs/reference/metrics.md``."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.metrics.registry import METRICS, SPACES, Metric
from lab.templates import render

NEEDED = {
    "captures": "read inside the model while it generates",
    "pictures": "of the images themselves",
    "features": "of vectors that networks make of the images",
    "objects": "of the objects that were detected",
}


@dataclass(frozen=True)
class Row:
    """A metric as the page shows it."""

    metric: Metric

    @property
    def range(self) -> str:
        """Its ends, the unit behind them."""
        return f"{self.metric.low:g} to {self.metric.high:g}{self.metric.unit and f' {self.metric.unit}'}"

    @property
    def site(self) -> str:
        """Where it is compared; of what the headline shows the site, else what tables hold it of."""
        if self.metric.metric == "cosine":
            return f"every [site](sites.md); the headline is `{self.metric.site}`"
        return f"`{self.metric.site}`" if self.metric.site else "no headline"

    @property
    def delta(self) -> str:
        """The smallest gap that matters by default, in its unit."""
        return f"{self.metric.least_delta:g}{self.metric.unit and f' {self.metric.gap_unit}'}"


def page() -> str:
    """Return the whole page in Markdown: a table for each kind of what metrics are computed from."""
    rows = [Row(metric) for metric in METRICS.values()]
    kinds = {text: [row for row in rows if row.metric.needs == kind] for kind, text in NEEDED.items()}
    return render("metrics", kinds=kinds, spaces=SPACES)


if __name__ == "__main__":
    print(page(), end="")
