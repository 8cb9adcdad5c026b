"""Dataset card of a run (``README.md``): by it `datasets` loads the run, and the viewer of the Hub shows it.

A run directory has the configurations ``images`` (its samples), ``overlays`` (the first images with their objects drawn
on them), what else is stored of images, and every table; a run exported for the Hub has all images with overlays in
one. The licence is left to whoever publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from analysis.export.cards.facts import Facts, read_facts
from analysis.export.cards.markdown import front_matter, rendered
from analysis.export.images import image_parts
from analysis.export.viewer import COLUMNS, columns, viewer_bytes
from analysis.report import gallery
from analysis.study import indicators
from analysis.tables.registry import TABLES
from probes.errors import printable

if TYPE_CHECKING:
    from probes.runs.store import Run

CARD, OVERLAYS = "README.md", "overlays.parquet"
STAGE = "card"  # under which its files are noted as written
_KINDS = {  # of a run directory, what a row of each is
    "objects": "a detection: label, score, box, mask",
    "observed": "an image: what was searched for and found in it",
    "words": "an image and a word of its prompt: a heat map",
}
_TAGS = ["triptych", "text-to-image", "gender-bias", "fairness", "interpretability", "synthetic"]


def write_dataset_card(run: Run) -> str:
    """Write ``README.md`` and ``overlays.parquet`` of a run that has its report; no table is touched.

    Returns
    -------
    str
        Why nothing was written: a ``README.md`` of somebody else's stands there; empty otherwise.
    """
    if CARD not in run.written(STAGE) and (run.path / CARD).exists():
        return f"{run.path / CARD}: left as it is, no run wrote it; it is not replaced by a dataset card"
    with run.writing(STAGE):
        shown = _shown(run) if run.parts("objects") else []
        if shown:
            run.write_file(OVERLAYS, viewer_bytes(shown, detected=True))
        configs = list(_run_configs(run, overlays=bool(shown)))
        run.write_file(CARD, card_text(read_facts(run), configs).encode())
    return ""


def hub_card(run: Run) -> str:
    """Return the dataset card of a run as `analysis.export.hub` lays it out."""
    shown = columns(detected=bool(run.parts("objects")))
    configs = [_config("images", "data/images-*.parquet", "an image, its prompt and what was measured of it")]
    configs += _tables(run)
    return card_text(read_facts(run), configs, {name: COLUMNS[name][1] for name in shown})


def card_text(
    facts: Facts, configs: Sequence[dict[str, Any]], of_images: Mapping[str, str] | None = None
) -> str:
    """Return a dataset card.

    Parameters
    ----------
    facts : Facts
    configs : sequence of dict
        ``config_name``, ``data_files`` and ``rows``, what a row is; the first is the default.
    of_images : mapping of str to str, optional
        What stands in the columns of the first.
    """
    named = [{key: value for key, value in one.items() if key != "rows"} for one in configs]
    named[0]["default"] = True
    head = front_matter(
        {"pretty_name": facts.name, "task_categories": ["text-to-image"], "tags": _TAGS, "configs": named}
    )
    return head + rendered(
        "dataset.md.j2",
        facts=facts,
        configs=configs,
        columns=of_images or {},
    )


def _run_configs(run: Run, *, overlays: bool) -> Iterator[dict[str, Any]]:
    yield _config("images", _parts(run, "samples"), "an image and the prompt it was generated from")
    if overlays:
        yield _config("overlays", OVERLAYS, "one of the first images, with its objects drawn on it")
    for kind, rows in _KINDS.items():
        if run.parts(kind):
            yield _config(kind, _parts(run, kind), rows)
    yield from _tables(run, taken=tuple(_KINDS))


def _parts(run: Run, kind: str) -> str | list[str]:
    """Part files of a kind as `datasets` is told them: by a pattern, or by name where some do not belong to the run."""
    names = [f"{kind}/{file.name}" for file in run.parts(kind)]
    there = [path for path in (run.path / kind).glob("part-*.parquet")]
    return f"{kind}/part-*.parquet" if len(there) == len(names) else names


def _tables(run: Run, taken: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Configurations of the tables; one that is called as a kind of parts bears ``table_`` before its name."""
    found = []
    for name in run.tables():
        rows = TABLES[name].rows if name in TABLES else "a row of this table"
        found.append(_config(f"table_{name}" if name in taken else name, f"tables/{name}.parquet", rows))
    return found


def _config(name: str, files: str | list[str], rows: str) -> dict[str, Any]:
    return {"config_name": name, "data_files": files, "rows": printable(rows)}


def _shown(run: Run) -> list[Any]:
    """The images of the gallery's first rows, without words that stand for another."""
    samples = run.samples(["sample_id", "triplet", "seed", "indicator"])
    out = set(run.left_out())
    whole = samples[~samples["sample_id"].isin(out)]
    chosen = gallery.choose(whole, run.config.report.gallery)
    names = [person.name for person in indicators(run.config) if not person.control]
    rows = whole[whole["indicator"].isin(names)].set_index(["triplet", "seed"])
    wanted = rows[rows.index.isin(chosen)]["sample_id"]
    return [image for part in image_parts(run, set(wanted)) for image in part]
