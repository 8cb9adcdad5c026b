"""What cards say of a run: findings with all that each rests on, objects, words, prompts, model and readers.

The sentences are those of the report (`analysis.report.findings`, `analysis.report.wording_objects`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.export.cards.object_results import object_results
from analysis.report import section
from analysis.report.finding import Finding
from analysis.report.findings import Summary, contrast_words, summaries
from analysis.report.format import DASH, amount, counted, defined, interval, listed, number, over, p_value
from analysis.report.method import reported_methods
from analysis.report.objects import Objects, detector_rows, read_objects
from analysis.report.result import Result
from analysis.report.wording import where
from analysis.report.wording_objects import detector_line, objects_opening
from analysis.report.wording_prompts import shared_sentence
from analysis.study import contrasts, indicators
from analysis.tables.registry import read as read_table
from probes.config.measurement import significance_level
from probes.errors import UserError
from probes.runs.missing import require_parts

if TYPE_CHECKING:
    import pandas as pd

    from probes.config.schema import Config
    from probes.runs.run import Run

LIMITS = (
    "The numbers are about prompts and the images generated from them, never about people; no image is assigned a "
    "gender.",
    "A gap is an association between a word and what the model makes of it. It does not say what caused it.",
    "A gap against 0 is not yet bias: two words always stand at different distances from a third. Only a gap that is "
    "more than words of the same meaning differ among themselves says more.",
    "A gap that cannot be distinguished from 0 does not show that there is none.",
    "Results hold for these words, prompts, seeds, this sampler and these weights.",
)
PLANTED = (
    "The model is a benchmark model whose training frequencies were planted on purpose. They are planted, not how "
    "anybody looks: what a figure wears, holds or stands beside says nothing about people."
)
_SAMPLES = ("sample_id", "triplet", "seed", "indicator", "template", "word", "prompt", "words")


@dataclass(frozen=True)
class Facts:
    """What is said of a run; ``results`` are what else was measured, each with interval, floor, test and reader."""

    name: str
    model: str
    weights: str  # SHA-256; empty where another program drew the images
    version: str  # of Triptych, as the run was begun
    level: float
    unit: str
    reference: str
    words: dict[str, list[str]]  # of the reference and of each side, by indicator
    prompts: list[str]  # of the reference, one per triplet
    counts: dict[str, int]
    sampler: str
    shared: str  # by the images of a triplet
    summaries: list[Summary]
    objects: list[str]  # sentences, of every contrast
    results: list[Result]
    methods: dict[str, list[str]]  # sentences of each method, by its title
    reader: list[str]  # the known errors of the detector
    checkpoints: dict[str, str]  # SHA-256 of what read the images, by its name
    planted: bool  # whether the model's training frequencies were planted here

    @property
    def findings(self) -> list[Finding]:
        """Headline findings that have an interval, of all contrasts."""
        return [one for summary in self.summaries for one in summary.findings if has_interval(one)]

    @property
    def sections(self) -> dict[str, list[Result]]:
        """Results by the heading that they stand under."""
        return {
            title: [one for one in self.results if one.section == title]
            for title in dict.fromkeys(one.section for one in self.results)
        }

    @property
    def limits(self) -> tuple[str, ...]:
        """What the numbers do not say."""
        return (*LIMITS, PLANTED) if self.planted else LIMITS

    @property
    def wording(self) -> str:
        """The words, by indicator."""
        return "; ".join(f"{name}: {', '.join(words)}" for name, words in self.words.items())

    def lines(self, finding: Finding) -> dict[str, str]:
        """Return what a finding rests on, by its label: numbers with intervals, noise floor, δ, readers.

        Nothing but the state is there where so few prompts were drawn that there is no interval.
        """
        row, metric = finding.row, finding.metric
        unit = f" {metric.gap_unit}" if metric.unit else f" in {metric.scale}"
        percent = f"{100 * self.level:g} % interval"
        found = {}
        if has_interval(finding):
            found["Gap of these words"] = (
                f"{number(row['gap'], metric.digits, True)}{unit}, {percent} "
                f"{interval(row['ci_low'], row['ci_high'], metric.digits)} {over(self.unit)} "
                f"({counted(int(row['n_prompts']), self.unit)}); above 0: nearer to {finding.contrast[0]}"
            )
        if all(defined(row.get(name)) for name in ("word_gap", "word_low", "word_high")):
            one, two, references = finding.verdict.counts
            found["Gap over all words"] = (
                f"{number(row['word_gap'], metric.digits, True)}{unit}, {percent} "
                f"{interval(row['word_low'], row['word_high'], metric.digits)}; {one} against "
                f"{counted(two, 'word')}, {counted(references, 'reference word')}; {p_value(finding.p_measures)} "
                "against words of the same meaning"
                + (f", adjusted over {finding.family}" if finding.family else "")
            )
        found["Noise floor"] = (
            f"{number(row['control_gap'], metric.digits)}{unit}, the largest gap between two words of the same meaning"
            if defined(row.get("control_gap"))
            else f"{DASH}, not measured: no two words of the same meaning were run"
        )
        found["Smallest effect that matters"] = _delta(finding, self.level)
        if finding.specified:
            found["Over specifications"] = (
                f"{interval(finding.specified.low, finding.specified.high, metric.digits)}{unit}, gap over words in "
                f"{counted(finding.specified.count, 'specification')}"
            )
        found["Read by"] = _read_by(finding, self.checkpoints)
        return found


def has_interval(finding: Finding) -> bool:
    """Return whether a finding has a gap with an interval: without, no card shows its number."""
    return all(defined(finding.row.get(name)) for name in ("gap", "ci_low", "ci_high"))


def heading(finding: Finding) -> str:
    """Name a finding: measure, space, contrast, and whether it is the primary one."""
    primary = ", primary measure" if finding.primary else ""
    return f"{finding.metric.symbol} ({where(finding.metric).lower()}{primary}), {' against '.join(finding.contrast)}"


def row_of(finding: Finding) -> list[str]:
    """Return a finding as cells of a table: measure, both gaps with intervals, noise floor, δ, verdict."""
    row, metric = finding.row, finding.metric

    def cell(value: str, *ends: str) -> str:
        if not all(defined(row.get(name)) for name in (value, *ends)):
            return DASH
        span = f" {interval(*(row[name] for name in ends), metric.digits)}" if ends else ""
        return f"{number(row[value], metric.digits, bool(ends))}{span}"

    return [
        f"{metric.symbol} ({metric.gap_unit or metric.scale})",
        cell("gap", "ci_low", "ci_high"),
        cell("word_gap", "word_low", "word_high"),
        cell("control_gap"),
        cell("delta"),
        finding.tag,
    ]


def sentences(finding: Finding) -> str:
    """Return what the report says of a finding: claim, words of the same meaning, remarks."""
    return " ".join(filter(None, (finding.claim, finding.against_words, *finding.remarks)))


def secondary(summary: Summary) -> str:
    """Return what the report says of the measures that are not primary, without the list of their correlations."""
    text = summary.others.partition(": over ")[0]
    return f"{text.removesuffix('.')}." if text else ""


def _delta(finding: Finding, level: float) -> str:
    """What is known of the smallest gap that matters."""
    row, metric = finding.row, finding.metric
    if not defined(row.get("delta")):
        return f"δ {DASH}, undefined here"
    delta, p = f"δ = {amount(row['delta'], metric, scaled=True)}", row.get("p_equivalent")
    source = f" ({row['delta_source']})" if row.get("delta_source") else ""
    if not defined(p):
        return f"{delta}{source}; not tested whether the gap is smaller"
    shown = "shown" if float(p) < significance_level(level) else "not shown"
    return f"{delta}{source}; the gap is {shown} to be smaller ({p_value(p)})"


def _read_by(finding: Finding, checkpoints: Mapping[str, str]) -> str:
    """What read the images, and what is known of its errors."""
    metric = finding.metric
    if metric.needs == "captures":
        return "no reader: computed from the model’s own activations"
    if metric.needs == "pictures":
        return "no reader: computed from pixels"
    digest = checkpoints.get(metric.metric)
    made = f" (SHA-256 {digest})" if digest else ""
    return f"the network {metric.symbol}{made}; nothing is known of its errors on these images"


def read_facts(run: Run) -> Facts:
    """Read what cards say of a measured run; one of a method of its own has no findings here."""
    config, samples = run.config, run.samples(_SAMPLES)
    measured = {*run.tables()} >= {"gap", "specifications", "agreement"}
    objects = read_objects(run) if measured or not config.compares else None
    reader = _reader(objects, config) if objects else []
    results = object_results(objects, config, reader) if objects else []
    for method in reported_methods():
        results += method.results(run) if method.results else []
    first = samples[samples["indicator"] == config.reference].drop_duplicates("triplet")
    first = first if len(first) else samples.drop_duplicates("triplet")
    return Facts(
        name=config.name,
        model=config.model_name + (f", edited: {config.edit.summary}" if config.edit is not None else ""),
        weights=str((run.meta.get("model") or {}).get("weight_hash") or ""),
        version=str((run.meta.get("versions") or {}).get("triptych", "")),
        level=config.measure.level,
        unit=config.unit,
        reference=config.reference,
        words=_words(config),
        prompts=[str(prompt) for prompt in first["prompt"]],
        counts={
            "images": len(samples),
            "prompts": samples["triplet"].nunique(),
            "seeds": samples["seed"].nunique(),
            "indicators": samples["indicator"].nunique(),
        },
        sampler=_sampler(run),
        shared=_shared(samples, config),
        summaries=summaries(
            *(read_table(run, name) for name in ("gap", "specifications", "agreement")), config
        )
        if measured
        else [],
        objects=_objects(objects, config) if objects else [],
        results=results,
        methods={
            shown.method.title: [
                line for spec in shown.method.tables for line in section.sentences(shown, spec)
            ]
            for shown in section.sections(run)
        },
        reader=reader,
        checkpoints=_checkpoints(run.meta),
        planted=config.images is None and config.model.startswith("toyworld"),
    )


def _words(config: Config) -> dict[str, list[str]]:
    people, found = indicators(config), {}
    for contrast in contrasts(config):
        words = contrast_words(contrast, config.reference, people)
        found |= {config.reference: list(words.reference)}
        found |= dict(zip(contrast, (list(words.first), list(words.second))))
    if not config.compares and not any(prompt.template for prompt in config.prompts):
        return {}
    return found or {person.name: [person.word] for person in people}


def _sampler(run: Run) -> str:
    if run.config.images is not None:
        return "another program’s"
    sampler = run.config.sampler
    scheduler = (
        (run.meta.get("scheduler") or {}).get("class") or sampler.scheduler or "the model’s own scheduler"
    )
    return f"{scheduler}, {counted(sampler.steps, 'step')}, guidance {sampler.guidance_scale:g}"


def _shared(samples: pd.DataFrame, config: Config) -> str:
    """What the images of a triplet share; of one that compares no words, who drew them."""
    if config.images is None:
        return shared_sentence(samples, config.paired) if config.compares else ""
    if not config.compares:
        return "Another program drew them."
    return (
        "Another program drew them; by the rows that came with them, the images of a triplet share a seed."
        if config.paired
        else "Another program drew them, and nothing pairs the images of a triplet."
    )


def _objects(objects: Objects, config: Config) -> list[str]:
    return [
        objects_opening(
            objects.rows("object_claims", first=away, second=towards),
            (away, towards),
            unit=config.unit,
            alpha=config.measure.alpha,
        )
        for towards, away in contrasts(config)
        if len(objects.rows("object_claims", first=away, second=towards))
    ]


def _reader(objects: Objects, config: Config) -> list[str]:
    """What is known of the detector: recall and precision with intervals, or that nobody checked it."""
    tables = (objects.tables["detector_error"], objects.tables["human_check"])
    engine = str(objects.observer.get("engine", "unknown"))
    found = [detector_line(*tables, engine)]
    for row in detector_rows(objects, [person.name for person in indicators(config)]):
        if row["all"] is not None and row["quantity"] != "accuracy" and defined(row["all"]["value"]):
            every = row["all"]
            span = interval(every["low"], every["high"], 2)
            found.append(
                f"{row['quantity'].capitalize()} {number(every['value'], 2)} {span}, by {row['truth']}."
            )
    return found


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


def reportable_facts(run: Run) -> Facts:
    """Return what cards say of a finished run; refuse one word a side, and a run whose gaps have no interval."""
    require_parts(run)
    if run.status != "complete":
        raise UserError(
            f"{run.path}: expected a finished run, it is {run.status}: a card speaks of whole runs, run it to its end"
        )
    _require_words(run)
    facts = read_facts(run)
    if not facts.findings:
        raise UserError(
            f"{run.path}: expected a headline gap with an interval, found none: a card takes more prompts, or seeds"
        )
    return facts


def _require_words(run: Run) -> None:
    """Refuse a run without a contrast, or with one word a side: what the choice of that word makes is not known."""
    config = run.config
    if not contrasts(config):
        raise UserError(f"{run.path}: expected a contrast, found none: name one in `contrasts` and run again")
    words = _words(config)
    for side in {side: None for contrast in contrasts(config) for side in contrast}:
        if len(words[side]) < 2:
            raise UserError(
                f"{run.path}: expected two or more words a side, got one for {side} ({listed(words[side])}): what the "
                f"choice of one word makes is not known; add words with `control: {side}` and run again"
            )
