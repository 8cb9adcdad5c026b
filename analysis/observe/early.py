"""An observer that looks at parts while later ones are still drawn, for a run that is decided by what it sees.

It stores what the observe stage would, byte for byte: that stage finds these parts done.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.observe.observer import Observer
from analysis.observe.registry import OBSERVERS
from analysis.observe.stage import Looking, note, note_kinds, part_of, refused, threads_of
from probes.config.schema import Config
from probes.errors import UserError
from probes.execution import loop, workers
from probes.execution.part import make_whole
from probes.execution.team import Do
from probes.runs.parts import DamagedPartError
from probes.runs.selection import number
from probes.runs.store import Run


class EarlyObserver:
    """Shows parts to one observer in this process; its networks are loaded once.

    Parameters
    ----------
    run : Run
        Held by `probes.storage.claim.claim`; of one that is shared, parts of its shard alone are looked at.
    name : str
        Of the observer, in `analysis.observe.registry.OBSERVERS`.
    sentences : bool
        Whether it embeds the sentences of an audit, too, before it looks.
    """

    def __init__(self, run: Run, name: str, *, sentences: bool = False):
        self.run, self.name, self.sentences = run, name, sentences
        self._seen: set[int] = set()

    def look(self, most: int | None = None) -> None:
        """Observe the parts that are drawn, of the first `most` or of all, and were not observed yet."""
        drawn = {number(file): file for file in self.run.parts("samples")}
        for part in sorted(drawn.keys() - self._seen):
            if (most is None or part < most) and self._made(drawn[part]):
                self._seen.add(part)

    def end(self) -> None:
        """Record, when no more is drawn, that the observer has looked."""
        if self._seen and self.run.parts("samples"):
            record = self._observer.record(self.run)
            note(self.run, self._observer.resolved, record, threads_of(self._observer), 1)

    @cached_property
    def _observer(self) -> Observer:
        observer = required(self.run.config, self.name)
        note_kinds(self.run, observer)
        if self.sentences:
            from analysis.observe.features.texts import embed_texts

            embed_texts(self.run, [observer])
        return observer

    @cached_property
    def _fields(self) -> dict[str, Any]:
        return self._observer.fields()

    @cached_property
    def _do(self) -> Do:
        return Looking(self._observer, threads_of(self._observer)).loaded()

    def _made(self, file: Path) -> bool:
        """Observe a part; return whether that could be done: one that is damaged is drawn again first."""
        try:
            part = part_of(self.run, self._observer, file, self._fields)
        except DamagedPartError:
            return False
        damaged: list[DamagedPartError] = []
        for due in loop.pending([part], refused, damaged.append):
            loop.note_damaged(self.run, damaged)
            with workers.deterministic(threads_of(self._observer)):
                make_whole(due, self._do)
        return True


def required(config: Config, name: str) -> Observer:
    """Return the observer of a configuration that a question needs.

    Raises
    ------
    UserError
        The configuration does not ask for it, or it cannot look.
    """
    observer, why = OBSERVERS[name](config)
    if observer is None:
        raise UserError(
            f"stop: expected images that {name} looks at, got none ({why or 'the configuration does not ask for it'}):"
            " see `observe`, or ask something else"
        )
    return observer
