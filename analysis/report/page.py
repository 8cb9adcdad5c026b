"""``report.html``: one self-contained page, and the figures for a paper, from the tables of a run.

Nothing is computed here: every number on the page stands in ``tables/``, and each is written with its full
value in a ``<data value=…>`` element beside the rounded text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from PIL import Image

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report import (
    first_screen,
    gallery,
    gallery_files,
    record,
    wording_objects,
    wording_prompts,
)
from analysis.report import objects as report_objects
from analysis.report.disparity import disparity_table, ordered_pairs
from analysis.report.environment import environment
from analysis.report.figures import Drawn, Saved, saved
from analysis.report.figures.atlas import draw_atlas
from analysis.report.figures.headline import draw_headline, with_ends
from analysis.report.figures.lines import draw_decoder, draw_similarity, draw_steps, draw_text_layers
from analysis.report.figures.prompts import draw_prompts
from analysis.report.figures.specifications import draw_specifications
from analysis.report.figures.triplets import draw_triplets
from analysis.report.findings import Summary, findings_table, summaries
from analysis.report.method import Lead, ReportSection, reported_methods
from analysis.report.objects import Objects, read_objects
from analysis.report.overlays import NOT_GROUPED
from analysis.report.section import documents as method_documents
from analysis.report.section import figures as method_figures
from analysis.report.section import lead as method_lead
from analysis.report.section import measured, page_section
from analysis.report.section import sections as method_sections
from analysis.study import Member, contrasts, indicators
from analysis.tables.not_measured import lacks_some, not_measured
from analysis.tables.registry import PAPER, TABLES, write
from analysis.tables.registry import read as read_table
from analysis.tables.sharing import Sharing
from analysis.tables.similarities.stored import timesteps
from analysis.tables.spec import Measured, method_specs
from probes.config.measurement import MOST_TRIPLETS
from probes.config.schema import Config
from probes.execution.processes import Helpers

if TYPE_CHECKING:
    from probes.runs.run import Run

UNFOLDED = 3  # rows of the gallery that need no click
UNFOLDED_SINGLE = 12  # the same where an image is a row of its own
LINES = ("gap-text-layers", "gap-steps", "similarity-steps", "gap-decoder")
# what is shown of each sample
SAMPLES = ("sample_id", "triplet", "seed", "indicator", "template", "word", "prompt", "words")
WORDS = ("sample_id", "word", "word_index", "heat", "height", "width", "peak", "definition", "version")
SHEET_ROWS = 4  # rows of the figure `triplets`


@dataclass(frozen=True)
class Content:
    """All that figures and page are made from.

    ``sections``: of the methods that the run holds something of, each with what it read.
    """

    config: Config
    meta: dict
    gap: pd.DataFrame
    disparity: pd.DataFrame
    specifications: pd.DataFrame
    summaries: list[Summary]
    gaps: pd.DataFrame  # of triplets, by the primary measure
    timesteps: dict[int, float]
    samples: pd.DataFrame
    chosen: list[tuple[int, int]]
    images: dict[str, Image.Image]
    words: pd.DataFrame | None
    objects: Objects | None = None
    more: list[tuple[int, int]] = field(default_factory=list)
    triplets: Sequence[first_screen.ShownTriplet] = ()
    not_measured: pd.DataFrame | None = None
    sections: Sequence[tuple[ReportSection, Any]] = ()
    methods: Sequence[Measured] = ()
    token_sentences: Sequence[str] = ()  # on words and prompts, of the model's tokens

    @property
    def people(self) -> list[Member]:
        """Indicators in order."""
        return indicators(self.config)

    @property
    def reference(self) -> str:
        """Name of the reference indicator."""
        return self.config.reference

    @property
    def metrics(self) -> list[Metric]:
        """Headline metrics, with the text readout of the run."""
        return headline_metrics(self.config.measure.text_readout)

    @property
    def shows_all(self) -> bool:
        """Return whether ``gallery/`` shows every triplet."""
        return self.config.report.shows_all(len(self.samples[["triplet", "seed"]].drop_duplicates()))

    @property
    def shown(self) -> pd.DataFrame:
        """The samples of the gallery."""
        return self.samples[self.samples["sample_id"].isin(self.images)]

    @property
    def leads(self) -> dict[str, Lead]:
        """First screens of the methods that were asked for, by the anchors of their sections."""
        found = {
            section.anchor: section.lead(read, self.config)
            for section, read in self.sections
            if section.lead is not None
        }
        found |= {one.method.anchor: method_lead(one) for one in self.methods}
        return {anchor: lead for anchor, lead in found.items() if lead is not None}


def report(run: Run, *, helpers: Helpers | None = None, processes: int = 1) -> Path:
    """Write ``figures/`` and ``report.html`` of a measured run, its LaTeX, and ``tables/findings`` with its sentences.

    Figures that only an earlier report had are removed. A run that is of one method alone has that method's page. The
    bytes are the same for any number of `processes`. Returns the path of ``report.html``, which needs no other file and
    no network.
    """
    methods = reported_methods()
    for method in method_specs():
        if method.alone and method.page and method.alone(run.config):
            return method.page(run)
    content = read(run)
    figures = draw(content) if run.config.report.figures else {}
    with nullcontext(helpers) if helpers else Helpers() as helpers, run.writing("report"):
        written = saved(figures, run.config.report.figures)
        for figure in written.values():
            for name, data in figure.files.items():
                run.write_file(f"figures/{name}", data)
        if content.config.compares:
            write(run, "findings", findings_table(content.summaries))
        for documents in (method.documents for method in methods if method.documents):
            for name, text in documents(run):
                run.write_file(f"tables/{name}.tex", text.encode())
        for one in (measured(PAPER, {run.config.model_name: run}), *content.methods):
            for name, text in method_documents(one) if one else ():
                run.write_file(f"tables/{name}.tex", text.encode())
        run.write_file("report.html", render(content, figures, written).encode())
        if content.shows_all:
            gallery_files.write(
                run,
                content.samples,
                content.objects.tables["objects"] if content.objects else None,
                content.gaps,
                {
                    "-".join(summary.contrast): summary.findings[0].direction
                    for summary in content.summaries
                    if summary.findings
                },
                Sharing(run, helpers, processes),
            )
    return run.path / "report.html"


def read(run: Run) -> Content:
    """Read tables, samples, and the images and word maps that the gallery shows."""
    samples = run.samples(SAMPLES)
    draws = samples.set_index(["triplet", "seed"]).index
    left_out = run.left_out()
    broken = draws[samples["sample_id"].isin(list(left_out))]
    whole = samples[~draws.isin(broken)]
    chosen = gallery.choose(whole, run.config.report.gallery)
    objects = read_objects(run)
    more = report_objects.more_rows(objects, whole, chosen) if objects else []
    shown = samples[samples.set_index(["triplet", "seed"]).index.isin([*chosen, *more])]["sample_id"]
    if objects and run.parts("objects"):  # the tables may be all that is left of them
        objects = replace(objects, overlays=report_objects.read_overlays(run, objects, list(shown)))
    gap, specifications = _of_pairs(run, "gap"), _of_pairs(run, "specifications")
    disparity, pairs = _of_pairs(run, "disparity"), contrasts(run.config)
    gaps = gallery.primary_gaps(_of_pairs(run, "gap_prompts"), run.config)
    triplets = []
    if pairs and run.config.report.gallery:
        triplets = first_screen.choose_triplets(whole, gaps, pairs[0], run.config.reference)
        ids = [cell["sample_id"] for one in triplets for cell in one.cells]
        triplets = first_screen.with_pictures(triplets, dict(zip(ids, run.images(ids))))
    return Content(
        config=run.config,
        meta=record.shown(run.meta),
        gap=gap,
        disparity=disparity,
        specifications=specifications,
        summaries=summaries(gap, specifications, _of_pairs(run, "agreement"), run.config, disparity),
        timesteps=timesteps(run) if run.config.compares else {},
        samples=samples.assign(left_out=samples["sample_id"].map(left_out)),
        chosen=chosen,
        images=dict(zip(shown, run.images(shown))),
        words=run.rows_of_samples("words", shown, WORDS),
        objects=objects,
        more=more,
        gaps=gaps,
        triplets=triplets,
        token_sentences=wording_prompts.token_sentences(run),
        not_measured=read_table(run, "not_measured") if lacks_some(run.config) else None,
        sections=[
            (section, found)
            for section in (method.section for method in reported_methods())
            if section is not None and (found := section.read(run)) is not None
        ],
        methods=method_sections(run),
    )


def _of_pairs(run: Run, name: str) -> pd.DataFrame:
    """A table of pairs; without rows where the run has none to compare."""
    return read_table(run, name) if run.config.compares else pd.DataFrame(columns=list(TABLES[name].columns))


def draw(content: Content) -> dict[str, Drawn]:
    """Draw all figures, by name."""
    drawn = draw_figures(content)
    drawn |= report_objects.draw(content.objects, content.config) if content.objects else {}
    for section, found in content.sections:
        drawn |= section.draw(found, content.config)
    for one in content.methods:
        drawn |= method_figures(one)
    sheet = _sheet(content)
    return drawn | ({sheet.name: sheet} if sheet else {})


def draw_figures(content: Content) -> dict[str, Drawn]:
    """Draw every figure that the tables of pairs have something for, by name."""
    config, gap, reference, times = content.config, content.gap, content.reference, content.timesteps
    unit, pairs = config.unit, contrasts(config)
    prompts = content.samples[content.samples["indicator"] == reference].drop_duplicates("triplet")
    texts = dict(zip(prompts["triplet"], prompts["prompt"]))
    ringed = [one.triplet for one in content.triplets]
    findings = with_ends(findings_table(content.summaries), gap)
    drawn = [draw_headline(findings, content.metrics, pairs, reference, unit)]
    for metric in (one for one in content.metrics if one.key == config.measure.primary):
        gaps = content.gaps[content.gaps["measure"] == metric.key]
        own = {pair: gaps[gaps["contrast"] == "-".join(pair)] for pair in pairs}
        drawn += [draw_prompts(own[pair], texts, metric, pair, reference, unit, ringed) for pair in pairs]
        drawn += [
            draw_specifications(content.specifications, metric, pair, reference, unit) for pair in pairs
        ]
    drawn += [draw_atlas(gap, times, pair, reference, config.measure.alpha) for pair in pairs]
    similarities = _drawn_pairs(content.people, reference)
    drawn += [
        draw_text_layers(gap, pairs, reference, unit, config.measure.alpha),
        draw_steps(gap, times, pairs, reference, unit, config.measure.alpha),
        draw_similarity(content.disparity, times, similarities, unit, config.paired),
        draw_decoder(gap, pairs, reference, config.measure.alpha),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def render(content: Content, figures: dict[str, Drawn], written: Mapping[str, Saved] | None = None) -> str:
    """Write the page around the figures, written out or not; those that are absent are left out."""
    config, people, reference = content.config, content.people, content.reference
    samples, level = content.samples, config.measure.level
    names = [person.name for person in people]
    objects, overlays = content.objects, content.objects.overlays if content.objects else {}
    rows, maps = gallery.build(
        content.shown,
        content.images,
        content.words,
        content.chosen,
        names,
        reference,
        more=content.more,
        overlays=overlays,
        gaps=content.gaps,
    )
    page = environment(written).get_template("report.html.j2")
    table = disparity_table(
        content.disparity, content.metrics, people, reference, content.meta.get("not_observed")
    )
    section = report_objects.section(objects, config, people) if objects else None
    leads = content.leads
    return page.render(
        name=config.name,
        model=config.model_name,
        is_toyworld=config.model.startswith("toyworld"),
        reference=reference,
        people=people,
        controls=[person for person in people if person.control],
        level=level,
        n_images=len(samples),
        left_out=wording_prompts.left_out_sentence(samples),
        n_prompts=int(samples["triplet"].nunique()),
        n_seeds=int(samples["seed"].nunique()),
        unit=config.unit,
        n_units=int(samples["triplet" if config.unit == "prompt" else "seed"].nunique()),
        summaries=content.summaries,
        measured=any(summary.findings for summary in content.summaries),
        missing=None if content.not_measured is None else content.not_measured.to_dict("records"),
        closed=config.images is not None,
        compares=config.compares,
        joint_attention=_joint_attention(content.words),
        paired=config.paired,
        all_triplets=content.shows_all,
        most_triplets=MOST_TRIPLETS if config.report.all_triplets == "auto" else None,
        taken=content.meta.get("taken_in"),
        shared=wording_prompts.shared_sentence(samples, config.paired) if config.compares else "",
        articles=wording_prompts.article_warning(samples),
        token_sentences=content.token_sentences,
        table=table,
        triplets=content.triplets,
        spoken=_spoken(people)
        if config.compares or any(prompt.template for prompt in config.prompts)
        else "",
        untested=first_screen.not_tested(
            config,
            people,
            n_prompts=int(samples["triplet"].nunique()),
            n_seeds=int(samples["seed"].nunique()),
            counts=[one.verdict.counts for summary in content.summaries for one in summary.findings[:1]],
            absent=[*table["not_run"], *_not_looked_for(content.meta)],
            closed=config.images is not None,
            detector=None if section is None else bool(section["detector"]),
        ),
        figures=figures,
        atlases=[drawn for name, drawn in figures.items() if name.startswith("atlas-")],
        lines=[figures[name] for name in LINES if name in figures],
        o=section,
        audit=bool(leads),
        sections=[
            {
                "anchor": one.anchor,
                "title": one.title,
                "template": one.template,
                "shown": one.context(found, config),
                "lead": leads.get(one.anchor),
            }
            for one, found in content.sections
        ]
        + [page_section(one, figures) for one in content.methods],
        unfolded=UNFOLDED if config.compares else UNFOLDED_SINGLE,
        overlays=bool(overlays),
        group_names=report_objects.TITLES,
        ungrouped=any(entry["group"] == NOT_GROUPED for own in overlays.values() for entry in own),
        rows=rows,
        metrics=content.metrics,
        primary=next(metric for metric in content.metrics if metric.key == config.measure.primary),
        contrasts=contrasts(config),
        n_rows=len(samples[["triplet", "seed"]].drop_duplicates()),
        has_maps=bool(maps),
        reduced=any(
            max(cell["width"], cell["height"]) > gallery.LARGEST for row in rows for cell in row.cells
        ),
        groups=record.groups(config, content.meta, samples),
        versions=record.versions(
            content.disparity, content.gap, content.words, objects.tables["objects"] if objects else None
        ),
        data={
            "maps": maps,
            "chips": {row.key: row.chips for row in rows},
            "atlases": {name: _cells(drawn.cells) for name, drawn in figures.items() if drawn.cells},
            **(report_objects.embedded(objects, content.shown, figures) if objects else {}),
        },
    )


def _not_looked_for(meta: Mapping[str, Any]) -> list[str]:
    """Why no objects were looked for, and what would change that; empty where they were."""
    why = (meta.get("not_observed") or {}).get("objects")
    return [f"Objects were not looked for: {why.replace('`', '')}"] if why else []


def answers(run: Run) -> list[str]:
    """Return what came out of a reported run, a line each: the first answer, the objects, what was not measured.

    A run that is of one method alone has no lines.
    """
    config, methods = run.config, reported_methods()
    if any(method.alone and method.page and method.alone(config) for method in method_specs()):
        return []
    sections = [method.section for method in methods if method.section and method.section.lead]
    read_sections = [(one, found) for one in sections if (found := one.read(run)) is not None]
    leads = [lead for one, found in read_sections if one.lead and (lead := one.lead(found, config))]
    leads += [lead for one in method_sections(run) if (lead := method_lead(one))]
    lines = [f"{leads[0].question} {leads[0].answer}"] if leads else []
    reasons = pd.Series(run.meta.get("not_observed") or {}, dtype=str)
    missing = [
        f"{', '.join(names)} ({why})" for why, names in reasons.groupby(reasons, sort=False).groups.items()
    ]
    pairs = contrasts(config)
    if not leads and pairs and config.compares:
        tables = (read_table(run, name) for name in ("gap", "specifications", "agreement"))
        lines.append(summaries(*tables, config)[0].answer)
    if pairs and config.compares and (objects := read_objects(run)):
        towards, away = pairs[0]
        claims = objects.rows("object_claims", first=away, second=towards)
        opening = wording_objects.objects_opening(
            claims, (away, towards), unit=config.unit, alpha=config.measure.alpha
        )
        lines.append(f"Objects: {'. '.join(opening.split('. ')[:2]).removesuffix('.')}.")
    absent = not_measured(config)
    missing += [] if absent is None else list(absent["what"])
    return [*lines, f"Not measured: {'; '.join(missing) or 'nothing of what was asked for'}."]


def _joint_attention(words: pd.DataFrame | None) -> str:
    """The definition of a transformer's word maps; empty where they are a U-Net's, or there are none."""
    kinds = {} if words is None else dict.fromkeys(words["definition"])
    return next((kind for kind in kinds if str(kind).startswith("joint")), "")


def _spoken(people: Sequence[Member]) -> str:
    """The words of each indicator that is no control, with its controls': what stands in the prompts."""
    sides = {one.name: [one.word, *_synonyms(one, people)] for one in people if not one.control}
    return " · ".join(
        name if words == [name] else f"{name}: {', '.join(words)}" for name, words in sides.items()
    )


def _synonyms(one: Member, people: Sequence[Member]) -> list[str]:
    return [own.word for own in people if own.control == one.name]


def _sheet(content: Content) -> Drawn | None:
    """The first rows of the gallery as a figure; controls are left out."""
    names = [person.name for person in content.people if not person.control]
    draws = dict(list(content.shown.groupby(["triplet", "seed"], sort=False)))
    rows = []
    for triplet, seed in content.chosen[:SHEET_ROWS]:
        members = draws[(triplet, seed)].set_index("indicator")
        if set(names) <= set(members.index):
            label = f"{members.loc[names[0], 'prompt']} (seed {seed})"
            rows.append((label, [content.images[members.loc[name, "sample_id"]] for name in names]))
    return draw_triplets(rows, names, content.config.paired)


def _drawn_pairs(people: Sequence[Member], reference: str) -> list[str]:
    """The pairs that are drawn as lines: controls only beside the reference, or there would be too many."""
    controls = {person.name for person in people if person.control}
    pairs = [pair for _, pairs in ordered_pairs(people, reference) for pair in pairs]
    return [pair for pair in pairs if reference in pair.split("-") or not controls & set(pair.split("-"))]


def _cells(cells: dict) -> dict:
    """The atlas' matrices as lists, undefined cells as null, six significant digits."""

    def plain(value):
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, list):
            return [plain(item) for item in value]
        if isinstance(value, float):
            return float(f"{value:.6g}") if math.isfinite(value) else None
        return value

    return {key: plain(value) for key, value in cells.items()}
