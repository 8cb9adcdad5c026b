"""The card of a run (``README.md``), of one template: of its directory, of a dataset made of it, of its model.

By the card of its directory `datasets` loads a run: its samples, what else is stored of images, and every table. The
licence is left to whoever publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.export.cards.facts import Facts, read_facts, reportable_facts
from analysis.export.cards.markdown import front_matter, rendered
from analysis.tables.registry import TABLES
from probes.errors import printable

if TYPE_CHECKING:
    from probes.runs.run import Run

CARD = "README.md"
STAGE = "card"  # under which its files are noted as written
_KINDS = {  # of a run directory, what a row of each is
    "objects": "a detection: label, score, box, mask",
    "observed": "an image: what was searched for and found in it",
    "words": "an image and a word of its prompt: a heat map",
}
_TAGS = ["triptych", "text-to-image", "gender-bias", "fairness", "interpretability", "synthetic"]


def write(run: Run, out: Path) -> None:
    """Write what a finished run says of its model into a folder, for the card of the model."""
    text = card_text(reportable_facts(run))
    out.mkdir(parents=True)
    (out / CARD).write_text(text, encoding="utf-8")


def write_dataset_card(run: Run) -> str:
    """Write ``README.md`` of a run that has its report; no table is touched.

    Returns why nothing was written: a ``README.md`` of somebody else's stands there; empty otherwise.
    """
    if CARD not in run.written(STAGE) and (run.path / CARD).exists():
        return f"{run.path / CARD}: left as it is, no run wrote it; it is not replaced by a dataset card"
    with run.writing(STAGE):
        run.write_file(CARD, card_text(read_facts(run), list(_run_configs(run))).encode())
    return ""


def datasets_card(run: Run, columns: Mapping[str, str]) -> str:
    """Return the card of a run as `analysis.export.hf_datasets` writes it, with the columns of its images."""
    configs = [_config("images", "data/images-*.parquet", "an image, its prompt and what was measured of it")]
    return card_text(read_facts(run), configs + _tables(run), columns)


def card_text(
    facts: Facts, configs: Sequence[dict[str, Any]] = (), columns: Mapping[str, str] | None = None
) -> str:
    """Return a card: of a dataset where there are configurations, else of a model.

    `configs` have ``config_name``, ``data_files`` and ``rows``, what a row is; the first, whose `columns` are
    explained, is the default.
    """
    head: dict[str, Any] = {"pipeline_tag": "text-to-image", "tags": _TAGS}
    if configs:
        named = [{key: value for key, value in one.items() if key != "rows"} for one in configs]
        named[0]["default"] = True
        head = {
            "pretty_name": facts.name,
            "task_categories": ["text-to-image"],
            "tags": _TAGS,
            "configs": named,
        }
    return front_matter(head) + rendered("card.md.j2", facts=facts, configs=configs, columns=columns or {})


def _run_configs(run: Run) -> Iterator[dict[str, Any]]:
    yield _config("images", _parts(run, "samples"), "an image and the prompt it was generated from")
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
