"""``report.html``: one self-contained page, and the figures for a paper, from the tables of a run.

Nothing is computed here: every number on the page stands in ``tables/``, and each is written with its full
value in a ``<data value=…>`` element beside the rounded text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from PIL import Image

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report import (
    first_screen,
    gallery,
    record,
    wording_objects,
    wording_prompts,
)
from analysis.report import objects as report_objects
from analysis.report.disparity import disparity_table, ordered_pairs
from analysis.report.environment import environment
from analysis.report.figures import Drawn, Saved, saved
from analysis.report.figures.atlas import draw_atlas
from analysis.report.figures.headline import draw_headline
from analysis.report.figures.lines import draw_decoder, draw_similarity, draw_steps, draw_text_layers
from analysis.report.figures.prompts import draw_prompts
from analysis.report.figures.specifications import draw_specifications
from analysis.report.figures.triplets import draw_triplets
from analysis.report.findings import Summary, findings_table, summaries
from analysis.report.format import counted
from analysis.report.objects import Objects, read_objects
from analysis.report.section import Lead, measured, page_section
from analysis.report.section import documents as method_documents
from analysis.report.section import figures as method_figures
from analysis.report.section import lead as method_lead
from analysis.report.section import sections as method_sections
from analysis.study import Member, contrasts, indicators
from analysis.tables.not_measured import lacks_some, not_measured
from analysis.tables.objects.claims import HEDGED, HINT, HOLDS
from analysis.tables.registry import PAPER, TABLES, write
from analysis.tables.registry import read as read_table
from analysis.tables.similarities.stored import timesteps
from analysis.tables.similarities.word_gap import joined_gaps
from analysis.tables.spec import Measured, method_specs
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

LINES = ("gap-text-layers", "gap-steps", "similarity-steps", "gap-decoder")
# what is shown of each sample
SAMPLES = ("sample_id", "triplet", "seed", "indicator", "template", "word", "prompt", "words")
SHEET_ROWS = 4  # rows of the figure `triplets`


@dataclass(frozen=True)
class Content:
    """All that figures and page are made from.

    ``sheet``: prompts and pictures of the figure of triplets; ``definitions``: of word maps, with their versions;
    ``methods``: those that the run holds something of.
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
    chosen: Sequence[gallery.Draw] = ()  # of the gallery
    sheet: Sequence[tuple[str, list[Image.Image]]] = ()
    definitions: Sequence[tuple[str, str]] = ()
    objects: Objects | None = None
    triplets: Sequence[first_screen.ShownTriplet] = ()
    not_measured: pd.DataFrame | None = None
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
    def primary(self) -> Metric:
        """The measure that the run is asked about first."""
        return next(metric for metric in self.metrics if metric.key == self.config.measure.primary)

    @property
    def leads(self) -> dict[str, Lead]:
        """First screens of the methods that were asked for, by the anchors of their sections."""
        leads = {one.method.anchor: method_lead(one) for one in self.methods}
        return {anchor: lead for anchor, lead in leads.items() if lead is not None}


def report(run: Run) -> Path:
    """Write ``figures/`` and ``report.html`` of a measured run, its LaTeX, ``gallery/``, and ``tables/findings``.

    Figures that only an earlier report had are removed. A run that is of one method alone has that method's page.
    Returns the path of ``report.html``, which needs no other file and no network.
    """
    for method in method_specs():
        if method.alone and method.page and method.alone(run.config):
            return method.page(run)
    content = read(run)
    figures = draw(content) if run.config.report.figures else {}
    with run.writing("report"):
        written = saved(figures, run.config.report.figures)
        for figure in written.values():
            for name, data in figure.files.items():
                run.write_file(f"figures/{name}", data)
        if content.config.compares:
            write(run, "findings", findings_table(content.summaries))
        for one in (measured(PAPER, {run.config.model_name: run}), *content.methods):
            for name, text in method_documents(one) if one else ():
                run.write_file(f"tables/{name}.tex", text.encode())
        run.write_file("report.html", render(content, figures, written).encode())
        if content.chosen:
            gallery.write(
                run,
                _gallery_page(content),
                content.samples,
                content.chosen,
                content.objects.tables["objects"] if content.objects else None,
                content.gaps,
                {
                    "-".join(one.contrast): one.findings[0].direction
                    for one in content.summaries
                    if one.findings
                },
            )
    return run.path / "report.html"


def _gallery_page(content: Content) -> str:
    config = content.config
    page = environment().get_template("gallery.html.j2")
    return page.render(name=config.name, compares=config.compares, together=gallery.TOGETHER)


def read(run: Run) -> Content:
    """Read the tables, the samples, and the images that the page shows."""
    samples, left_out, config = run.samples(SAMPLES), run.left_out(), run.config
    samples = samples.assign(left_out=samples["sample_id"].map(left_out))
    draws = samples.set_index(["triplet", "seed"]).index
    whole = samples[~draws.isin(draws[samples["left_out"].notna()])]
    objects, pairs = read_objects(run), contrasts(config)
    gap, disparity = joined_gaps(lambda name: _of_pairs(run, name)), _of_pairs(run, "disparity")
    gaps = gallery.primary_gaps(_of_pairs(run, "gap_prompts"), config)
    triplets, sheet = [], []
    if config.report.gallery:
        triplets = first_screen.choose_triplets(whole, gaps, pairs[0], config.reference) if pairs else []
        names = [member.name for member in indicators(config) if not member.control]
        shown = whole[whole["indicator"].isin(names)]
        sheet = list(_sheet(shown, gallery.choose(shown, SHEET_ROWS), names))
    ids = [cell["sample_id"] for one in triplets for cell in one.cells] + [s for _, own in sheet for s in own]
    pictures = dict(zip(ids, run.images(ids)))
    return Content(
        config=config,
        meta=record.shown(run.meta),
        gap=gap,
        disparity=disparity,
        specifications=_of_pairs(run, "specifications"),
        summaries=summaries(gap, _of_pairs(run, "agreement"), config, disparity),
        timesteps=timesteps(run) if config.compares else {},
        samples=samples,
        chosen=_chosen(config, samples, whole, gaps, objects),
        sheet=[(text, [pictures[sample] for sample in own]) for text, own in sheet],
        definitions=_definitions(run),
        objects=objects,
        gaps=gaps,
        triplets=first_screen.with_pictures(triplets, pictures),
        token_sentences=wording_prompts.token_sentences(run),
        not_measured=read_table(run, "not_measured") if lacks_some(config) else None,
        methods=method_sections(run),
    )


def _sheet(samples: pd.DataFrame, chosen: Sequence[gallery.Draw], names: Sequence[str]):
    """Yield a line and the samples of each triplet of the figure; controls are left out."""
    draws = dict(list(samples.groupby(["triplet", "seed"], sort=False)))
    for draw in chosen:
        members = draws[draw].set_index("indicator")
        if set(names) <= set(members.index):
            yield f"{members.loc[names[0], 'prompt']} (seed {draw[1]})", list(members.loc[names, "sample_id"])


def _chosen(
    config: Config,
    samples: pd.DataFrame,
    whole: pd.DataFrame,
    gaps: pd.DataFrame,
    objects: Objects | None,
) -> list[gallery.Draw]:
    """The triplets of the gallery: all, also those with images that enter no mean, where as many are asked for."""
    most = config.report.gallery
    if most == "all" or len(samples.drop_duplicates(["triplet", "seed"])) <= most:
        return gallery.choose(samples, len(samples))
    if objects is None or not most:
        return gallery.choose_to_look_at(whole, gaps, None, (), most)
    claims = wording_objects.claimed(objects.tables["object_claims"], HOLDS, HEDGED, HINT)
    return gallery.choose_to_look_at(whole, gaps, objects.tables["objects"], list(claims["object"]), most)


def _definitions(run: Run) -> list[tuple[str, str]]:
    """The definitions of the run's word maps with their versions; nothing where there are none."""
    if not run.parts("words"):
        return []
    table = next(run.part_tables("words", ["definition", "version"])).to_pandas()
    return list(table.drop_duplicates().itertuples(index=False, name=None))


def _of_pairs(run: Run, name: str) -> pd.DataFrame:
    """A table of pairs; without rows where the run has none to compare."""
    return read_table(run, name) if run.config.compares else pd.DataFrame(columns=list(TABLES[name].columns))


def draw(content: Content) -> dict[str, Drawn]:
    """Draw all figures, by name."""
    drawn = draw_figures(content)
    drawn |= report_objects.draw(content.objects, content.config) if content.objects else {}
    for one in content.methods:
        drawn |= method_figures(one)
    names = [person.name for person in content.people if not person.control]
    sheet = draw_triplets(content.sheet, names, content.config.paired)
    return drawn | ({sheet.name: sheet} if sheet else {})


def draw_figures(content: Content) -> dict[str, Drawn]:
    """Draw every figure that the tables of pairs have something for, by name."""
    config, gap, reference, times = content.config, content.gap, content.reference, content.timesteps
    unit, pairs, alpha, metric = config.unit, contrasts(config), config.measure.alpha, content.primary
    prompts = content.samples[content.samples["indicator"] == reference].drop_duplicates("triplet")
    texts = dict(zip(prompts["triplet"], prompts["prompt"]))
    ringed = [one.triplet for one in content.triplets]
    similarities = _drawn_pairs(content.people, reference)
    drawn = [draw_headline(findings_table(content.summaries), content.metrics, pairs, reference, unit)]
    for pair in pairs:
        gaps = content.gaps[content.gaps["contrast"] == "-".join(pair)]
        drawn += [
            draw_prompts(gaps, texts, metric, pair, reference, unit, ringed),
            draw_specifications(content.specifications, metric, pair, reference, unit),
            draw_atlas(gap, times, pair, reference, alpha),
        ]
    drawn += [
        draw_text_layers(gap, pairs, reference, unit, alpha),
        draw_steps(gap, times, pairs, reference, unit, alpha),
        draw_similarity(content.disparity, times, similarities, unit, config.paired),
        draw_decoder(gap, pairs, reference, alpha),
    ]
    return {figure.name: figure for figure in drawn if figure is not None}


def render(content: Content, figures: dict[str, Drawn], written: Mapping[str, Saved] | None = None) -> str:
    """Write the page around the figures, written out or not; those that are absent are left out."""
    config, people, samples, objects = content.config, content.people, content.samples, content.objects
    closed, n_prompts, n_seeds = config.images is not None, *samples[["triplet", "seed"]].nunique().tolist()
    n_units = n_prompts if config.unit == "prompt" else n_seeds
    table = disparity_table(
        content.disparity, content.metrics, people, content.reference, content.meta.get("not_observed")
    )
    section = report_objects.section(objects, config, people) if objects else None
    leads = content.leads
    return (
        environment(written)
        .get_template("report.html.j2")
        .render(
            name=config.name,
            model=config.model_name,
            is_toyworld=config.model.startswith("toyworld"),
            reference=content.reference,
            people=people,
            controls=[person for person in people if person.control],
            level=config.measure.level,
            n_images=len(samples),
            left_out=wording_prompts.left_out_sentence(samples),
            n_prompts=n_prompts,
            n_seeds=n_seeds,
            unit=config.unit,
            n_units=n_units,
            summaries=content.summaries,
            measured=any(summary.findings for summary in content.summaries),
            missing=None if content.not_measured is None else content.not_measured.to_dict("records"),
            closed=closed,
            compares=config.compares,
            joint_attention=next((name for name, _ in content.definitions if name.startswith("joint")), ""),
            has_maps=bool(content.definitions),
            paired=config.paired,
            taken=content.meta.get("taken_in"),
            origin=wording_prompts.origin_sentence(samples, config),
            limits=first_screen.limits(
                config, people, content.summaries, counted(n_units, config.unit), objects=section is not None
            ),
            articles=wording_prompts.article_warning(samples),
            token_sentences=content.token_sentences,
            table=table,
            triplets=content.triplets,
            spoken=wording_prompts.spoken_words(config, people),
            untested=first_screen.not_tested(
                config,
                people,
                n_prompts=n_prompts,
                n_seeds=n_seeds,
                counts=[one.verdict.counts for summary in content.summaries for one in summary.findings[:1]],
                absent=[*table["not_run"], *_not_looked_for(content.meta)],
                closed=closed,
                detector=None if section is None else section["detector_known"],
            ),
            figures=figures,
            atlases=[drawn for name, drawn in figures.items() if name.startswith("atlas-")],
            lines=[figures[name] for name in LINES if name in figures],
            o=section,
            audit=bool(leads),
            sections=[page_section(one, figures) for one in content.methods],
            metrics=content.metrics,
            primary=content.primary,
            n_shown=len(content.chosen),
            n_rows=len(samples[["triplet", "seed"]].drop_duplicates()),
            groups=record.groups(content.meta),
            versions=record.versions(_versions(content)),
            data={
                "atlases": {name: _cells(drawn.cells) for name, drawn in figures.items() if drawn.cells},
                "links": {name: drawn.links for name, drawn in figures.items() if drawn.links},
            },
        )
    )


def _versions(content: Content) -> list[tuple[str, str]]:
    """The definitions that the tables name, with their versions."""
    tables = (content.disparity, content.gap)
    named = [pair for table in tables for pair in zip(table["metric"].astype(str), table["version"])]
    named += [(f"heat map ({name})", version) for name, version in content.definitions]
    if content.objects:
        named += [("dependency groups", version) for version in content.objects.tables["objects"]["version"]]
    return named


def _not_looked_for(meta: Mapping[str, Any]) -> list[str]:
    """Why no objects were looked for, and what would change that; empty where they were."""
    why = (meta.get("not_observed") or {}).get("objects")
    return [f"Objects were not looked for: {why.replace('`', '')}"] if why else []


def answers(run: Run) -> list[str]:
    """Return what came out of a reported run, a line each: the first answer, the objects, what was not measured.

    A run that is of one method alone has no lines.
    """
    config = run.config
    if any(method.alone and method.page and method.alone(config) for method in method_specs()):
        return []
    leads = [lead for one in method_sections(run) if (lead := method_lead(one))]
    lines = [f"{leads[0].question} {leads[0].answer}"] if leads else []
    pairs = contrasts(config) if config.compares else []
    table = partial(read_table, run)
    if not leads and pairs:
        lines.append(summaries(joined_gaps(table), table("agreement"), config)[0].answer)
    if pairs and (objects := read_objects(run)):
        opening = report_objects.of_contrast(objects, pairs[0], config)["opening"]
        lines.append(f"Objects: {'. '.join(opening.split('. ')[:2]).removesuffix('.')}.")
    reasons = pd.Series(run.meta.get("not_observed") or {}, dtype=str)
    missing = [
        f"{', '.join(names)} ({why})" for why, names in reasons.groupby(reasons, sort=False).groups.items()
    ]
    absent = not_measured(config)
    missing += [] if absent is None else list(absent["what"])
    return [*lines, f"Not measured: {'; '.join(missing) or 'nothing of what was asked for'}."]


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
            return gallery.short(value) if math.isfinite(value) else None
        return value

    return {key: plain(value) for key, value in cells.items()}
