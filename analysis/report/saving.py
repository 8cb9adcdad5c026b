"""Figures as files and as they stand in the page, made in processes: writing one out takes longer than drawing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass

from threadpoolctl import threadpool_limits

from analysis.report.figures import Drawn, files, inline_svg
from probes.execution.processes import Helpers, Tick


@dataclass(frozen=True)
class Saved:
    """A figure as files and as it stands in a page: of `files` and `inline_svg` of `analysis.report.figures`."""

    files: dict[str, bytes]
    svg: str


@dataclass(frozen=True)
class _Saving:
    """The work of a helper, see `probes.execution.processes.Work`."""

    formats: Sequence[str]

    @contextmanager
    def opened(self) -> Iterator[Callable[[Drawn, Tick], Saved]]:
        with threadpool_limits(1):
            yield self._save

    def _save(self, drawn: Drawn, tick: Tick) -> Saved:
        written = files(drawn, [*{"svg": None, **dict.fromkeys(self.formats)}])
        svg = inline_svg(drawn, written[f"{drawn.name}.svg"])
        return Saved({f"{drawn.name}.{one}": written[f"{drawn.name}.{one}"] for one in self.formats}, svg)


def saved(
    figures: Mapping[str, Drawn],
    formats: Sequence[str],
    helpers: Helpers | None = None,
    processes: int = 1,
) -> dict[str, Saved]:
    """Write figures out in so many processes; returns them by name, the same bytes for any number."""
    processes = max(1, min(processes, len(figures)))
    with (
        nullcontext(helpers) if helpers else Helpers() as helpers,
        closing(helpers.results(_Saving(formats), figures.items(), processes)) as made,
    ):
        results = dict(made)
    return {name: results[name] for name in figures}
