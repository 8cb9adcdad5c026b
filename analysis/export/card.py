"""The card of a run (``README.md``), of one template: of its directory, of a dataset made of it, of its model.

By the card of its directory `datasets` loads a run: its samples, what else is stored of images, and every table. The
sentences are the report's. The licence is left to whoever publishes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import CardData, DatasetCardData, ModelCardData
from jinja2 import Environment, PackageLoader, StrictUndefined

from analysis.report import objects as report_objects
from analysis.report.finding import Finding
from analysis.report.findings import summaries
from analysis.report.first_screen import limits
from analysis.report.format import amount, counted, defined, number, p_value, with_interval
from analysis.report.section import sections, sentences
from analysis.report.wording_prompts import origin_sentence, spoken_words
from analysis.study import contrasts, indicators
from analysis.tables.registry import TABLES
from analysis.tables.registry import read as read_table
from analysis.tables.similarities.word_gap import joined_gaps
from probes.errors import UserError, printable
from probes.runs.missing import require_parts

if TYPE_CHECKING:
    from probes.config.schema import Config
    from probes.runs.run import Run

CARD = "README.md"
STAGE = "card"  # under which its files are noted as written
SHOWN = 40  # prompts that a card lists
_KINDS = {  # of a run directory, what a row of each is
    "objects": "a detection: label, score, box, mask",
    "observed": "an image: what was searched for and found in it",
    "words": "an image and a word of its prompt: a heat map",
}
TASK = "text-to-image"
_TAGS = ["triptych", TASK, "gender-bias", "fairness", "interpretability", "synthetic"]
_SAMPLES = ("sample_id", "triplet", "seed", "indicator", "template", "word", "prompt", "words")


def write(run: Run, out: Path) -> None:
    """Write what a finished run says of its model into a folder, for the card of the model."""
    require_parts(run)
    if run.status != "complete":
        raise UserError(
            f"{run.path}: expected a finished run, it is {run.status}: a card speaks of whole runs, run it to its end"
        )
    _require_words(run)
    content = read(run)
    gaps = [one for summary in content["summaries"] for one in summary.findings]
    if not any(all(map(defined, (one.gap, *one.interval))) for one in gaps):
        raise UserError(
            f"{run.path}: expected a headline gap with an interval, found none: a card takes more prompts, or seeds"
        )
    text = card_text(content)
    out.mkdir(parents=True)
    (out / CARD).write_text(text, encoding="utf-8")


def write_dataset_card(run: Run) -> str:
    """Write ``README.md`` of a run that has its report; no table is touched.

    Returns why nothing was written: a ``README.md`` of somebody else's stands there; empty otherwise.
    """
    if CARD not in run.written(STAGE) and (run.path / CARD).exists():
        return f"{run.path / CARD}: left as it is, no run wrote it; it is not replaced by a dataset card"
    configs = [_config("images", _parts(run, "samples"), "an image and the prompt it was generated from")]
    configs += [_config(kind, _parts(run, kind), rows) for kind, rows in _KINDS.items() if run.parts(kind)]
    with run.writing(STAGE):
        run.write_file(CARD, card_text(read(run), configs + _tables(run, taken=tuple(_KINDS))).encode())
    return ""


def datasets_card(run: Run, columns: Mapping[str, str]) -> str:
    """Return the card of a run as `analysis.export.hf_datasets` writes it, with the columns of its images."""
    configs = [_config("images", "data/images-*.parquet", "an image, its prompt and what was measured of it")]
    return card_text(read(run), configs + _tables(run), columns)


def card_text(
    content: Mapping[str, Any],
    configs: Sequence[dict[str, Any]] = (),
    columns: Mapping[str, str] | None = None,
) -> str:
    """Return a card: of a dataset where there are configurations, else of a model.

    `content` is what `read` gives; `configs` have ``config_name``, ``data_files`` and ``rows``, what a row is; the
    first, whose `columns` are explained, is the default.
    """
    head: CardData = ModelCardData(pipeline_tag=TASK, tags=_TAGS)
    if configs:
        named = [{key: value for key, value in one.items() if key != "rows"} for one in configs]
        named[0]["default"] = True
        name = content["name"]
        head = DatasetCardData(pretty_name=name, task_categories=[TASK], tags=_TAGS, configs=named)
    template = _environment().get_template("card.md.j2")
    return f"---\n{head.to_yaml()}\n---\n" + template.render(content, configs=configs, columns=columns or {})


def read(run: Run) -> dict[str, Any]:
    """Read what the template shows of a measured run; a run of a method of its own has no gaps here."""
    config, samples, people = run.config, run.samples(_SAMPLES), indicators(run.config)
    measured = "gap" in run.tables()
    objects = report_objects.read_objects(run) if measured or not config.compares else None
    first = samples[samples["indicator"] == config.reference].drop_duplicates("triplet")
    table = partial(read_table, run)
    n = samples[["triplet", "seed", "indicator"]].nunique().to_dict()
    units = counted(n["triplet" if config.unit == "prompt" else "seed"], config.unit)
    gaps = summaries(joined_gaps(table), config) if measured else []
    return {
        "name": config.name,
        "model": config.model_name + (f", edited: {config.edit.summary}" if config.edit is not None else ""),
        "weights": str((run.meta.get("model") or {}).get("weight_hash") or ""),
        "version": str((run.meta.get("versions") or {}).get("triptych", "")),
        "level": config.measure.level,
        "reference": config.reference,
        "words": spoken_words(config, people),
        "prompts": list(first["prompt"] if len(first) else samples.drop_duplicates("triplet")["prompt"]),
        "n_images": len(samples),
        "n": n,
        "drawn_here": config.images is None,
        "sampler": config.sampler,
        "scheduler": (run.meta.get("scheduler") or {}).get("class") or config.sampler.scheduler or "",
        "shared": origin_sentence(samples, config),
        "summaries": gaps,
        "o": report_objects.section(objects, config) if objects else None,
        "methods": {
            shown.method.title: [line for spec in shown.method.tables for line in sentences(shown, spec)]
            for shown in sections(run)
        },
        "checkpoints": _checkpoints(run.meta),
        "limits": limits(config, people, gaps, units, objects=objects is not None),
    }


def _checkpoints(meta: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of what read the images: networks of features, detector and segmenter."""
    found = {
        key.removeprefix("features/"): str(entry["checkpoint"])
        for key, entry in meta.items()
        if key.startswith("features/") and isinstance(entry, Mapping) and entry.get("checkpoint")
    }
    for part, files in ((meta.get("observer") or {}).get("checkpoints") or {}).items():
        if isinstance(files, Mapping):
            found |= {part if len(files) == 1 else f"{part}, {name}": str(one) for name, one in files.items()}
    return dict(sorted(found.items()))


def row_of(finding: Finding) -> list[str]:
    """Return a finding as cells of a table; — where a number is undefined, or has no interval."""
    row, metric = finding.row, finding.metric

    def cell(value: float, ends: tuple[float, float]) -> str:
        return with_interval(value, *ends, metric.digits, True) if all(map(defined, (value, *ends))) else "—"

    return [
        f"{metric.symbol} ({metric.gap_unit or metric.scale})",
        cell(finding.gap, finding.interval),
        cell(finding.word_gap, finding.word_interval),
        p_value(finding.p_measures),
        amount(row.get("delta"), metric),
        str(finding.n),
        finding.tag,
    ]


def plain(text: object) -> str:
    r"""Return a text in one line in which nothing is Markdown or HTML.

    Brackets stay where they make no link: `\[` begins a formula on the Hub.

    Examples
    --------
    >>> plain("a [b](c) | <i>d</i>\n*e* [0, 1]")
    'a [b]\\(c) \\| &lt;i&gt;d&lt;/i&gt; \\*e\\* [0, 1]'
    """
    line = printable(" ".join(str(text).split()))
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{letter}" if letter in "\\`*_|#" else letter for letter in line).replace("](", "]\\(")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("analysis.export", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["plain"] = plain
    made.globals |= {
        "SHOWN": SHOWN,
        "counted": counted,
        "defined": defined,
        "number": number,
        "p_value": p_value,
        "row_of": row_of,
        "with_interval": with_interval,
    }
    return made


def _require_words(run: Run) -> None:
    """Refuse a run without a contrast, or with one word a side: what the choice of that word makes is not known."""
    config: Config = run.config
    if not contrasts(config):
        raise UserError(f"{run.path}: expected a contrast, found none: name one in `contrasts` and run again")
    words = spoken_words(config, indicators(config))
    for side in {side: None for contrast in contrasts(config) for side in contrast}:
        if len(words[side]) < 2:
            raise UserError(
                f"{run.path}: expected two or more words a side, got one for {side} ({words[side][0]}): what the "
                f"choice of one word makes is not known; add words with `control: {side}` and run again"
            )


def _parts(run: Run, kind: str) -> str | list[str]:
    """Part files of a kind as `datasets` is told them: by a pattern, or by name where some do not belong to the run."""
    names = [f"{kind}/{file.name}" for file in run.parts(kind)]
    there = [path for path in (run.path / kind).glob("part-*.parquet")]
    return f"{kind}/part-*.parquet" if len(there) == len(names) else names


def _tables(run: Run, taken: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Configurations of the tables; one that is called as a kind of parts bears ``table_`` before its name."""
    return [
        _config(
            f"table_{name}" if name in taken else name,
            f"tables/{name}.parquet",
            TABLES[name].rows if name in TABLES else "a row of this table",
        )
        for name in run.tables()
    ]


def _config(name: str, files: str | list[str], rows: str) -> dict[str, Any]:
    return {"config_name": name, "data_files": files, "rows": printable(rows)}
