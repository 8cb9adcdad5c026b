"""``report.html``: one self-contained page, and the figures for a paper, from the tables of a run.

Nothing is computed here: every number on the page stands in ``tables/``, and each is written with its full
value in a ``<data value=…>`` element beside the rounded text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.metrics.registry import Metric, headline_metrics
from analysis.report import first_screen, gallery, record, section, wording_objects, wording_prompts
from analysis.report import objects as report_objects
from analysis.report.environment import environment
from analysis.report.figures.atlas import draw_atlas
from analysis.report.figures.headline import draw_headline
from analysis.report.figures.layers import draw_layers
from analysis.report.figures.rows import draw_prompts, draw_specifications
from analysis.report.figures.style import Drawn, Saved, saved
from analysis.report.findings import Summary, findings_table, summaries
from analysis.report.format import counted
from analysis.report.objects import Objects, read_objects
from analysis.study import contrasts, indicators
from analysis.tables.not_measured import lacks_some, not_measured
from analysis.tables.objects.claims import HEDGED, HINT, HOLDS
from analysis.tables.registry import PAPER, TABLES, write
from analysis.tables.registry import read as read_table
from analysis.tables.similarities.stored import timesteps
from analysis.tables.similarities.word_gap import joined_gaps
from analysis.tables.spec import Measured
from probes.config.schema import Config

if TYPE_CHECKING:
    from probes.runs.run import Run

# what is shown of each sample
SAMPLES = ("sample_id", "triplet", "seed", "indicator", "template", "word", "prompt", "words")


@dataclass(frozen=True)
class Content:
    """All that figures and page are made from.

    ``paper``: the tables of the papers; ``definitions``: of word maps, with their versions; ``methods``: those that the
    run holds something of.
    """

    config: Config
    meta: dict
    gap: pd.DataFrame
    specifications: pd.DataFrame
    summaries: list[Summary]
    gaps: pd.DataFrame  # of triplets, by the primary measure
    timesteps: dict[int, float]
    samples: pd.DataFrame
    paper: Measured | None = None
    chosen: Sequence[gallery.Draw] = ()  # of the gallery
    definitions: Sequence[tuple[str, str]] = ()
    objects: Objects | None = None
    triplets: Sequence[first_screen.ShownTriplet] = ()
    not_measured: pd.DataFrame | None = None
    methods: Sequence[Measured] = ()
    token_sentences: Sequence[str] = ()  # on words and prompts, of the model's tokens

    @property
    def metrics(self) -> list[Metric]:
        """Headline metrics, with the text readout of the run."""
        return headline_metrics(self.config.measure.text_readout)

    @property
    def primary(self) -> Metric:
        """The measure that the run is asked about first."""
        return next(metric for metric in self.metrics if metric.key == self.config.measure.primary)


def report(run: Run) -> Path:
    """Write ``figures/`` and ``report.html`` of a measured run, its LaTeX, ``gallery/``, and ``tables/findings``.

    Figures that only an earlier report had are removed. Returns the path of ``report.html``, which needs no other file
    and no network.
    """
    content = read(run)
    figures = draw(content) if run.config.report.figures else {}
    with run.writing("report"):
        written = saved(figures, run.config.report.figures)
        for figure in written.values():
            for name, data in figure.files.items():
                run.write_file(f"figures/{name}", data)
        if content.config.compares:
            write(run, "findings", findings_table(content.summaries))
        for one in (content.paper, *content.methods):
            for name, text in section.documents(one):
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
    gap = joined_gaps(lambda name: _of_pairs(run, name))
    gaps = gallery.primary_gaps(_of_pairs(run, "gap_prompts"), config)
    triplets = []
    if config.report.gallery and pairs:
        triplets = first_screen.choose_triplets(whole, gaps, pairs[0], config.reference)
    ids = [cell["sample_id"] for one in triplets for cell in one.cells]
    for cell, image in zip((cell for one in triplets for cell in one.cells), run.images(ids)):
        cell["image"] = image
    runs = {config.model_name: run}
    return Content(
        config=config,
        meta=record.shown(run.meta),
        gap=gap,
        specifications=_of_pairs(run, "specifications"),
        summaries=summaries(gap, config, _of_pairs(run, "disparity")),
        timesteps=timesteps(run) if config.compares else {},
        samples=samples,
        paper=section.measured(PAPER, runs) or Measured(PAPER, runs, {}),
        chosen=_chosen(config, samples, whole, gaps, objects),
        definitions=_definitions(run),
        objects=objects,
        gaps=gaps,
        triplets=triplets,
        token_sentences=wording_prompts.token_sentences(run),
        not_measured=read_table(run, "not_measured") if lacks_some(config) else None,
        methods=section.sections(run),
    )


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
        drawn |= section.figures(one)
    return drawn


def draw_figures(content: Content) -> dict[str, Drawn]:
    """Draw every figure that the tables of pairs have something for, by name."""
    config, gap, metric = content.config, content.gap, content.primary
    unit, pairs, alpha, reference = config.unit, contrasts(config), config.measure.alpha, config.reference
    prompts = content.samples[content.samples["indicator"] == reference].drop_duplicates("triplet")
    texts = dict(zip(prompts["triplet"], prompts["prompt"]))
    ringed = [one.triplet for one in content.triplets]
    drawn = [draw_headline(findings_table(content.summaries), content.metrics, pairs, reference, unit)]
    for pair in pairs:
        gaps = content.gaps[content.gaps["contrast"] == "-".join(pair)]
        drawn += [
            draw_prompts(gaps, texts, metric, pair, unit, ringed),
            draw_specifications(content.specifications, metric, pair, unit),
            draw_atlas(gap, content.timesteps, pair, reference, alpha),
        ]
    drawn.append(draw_layers(gap, pairs, reference, unit, alpha))
    return {figure.name: figure for figure in drawn if figure is not None}


def render(content: Content, figures: dict[str, Drawn], written: Mapping[str, Saved] | None = None) -> str:
    """Write the page around the figures, written out or not; those that are absent are left out."""
    config, samples, paper = content.config, content.samples, content.paper
    people, (n_prompts, n_seeds) = indicators(config), samples[["triplet", "seed"]].nunique().tolist()
    units = counted(n_prompts if config.unit == "prompt" else n_seeds, config.unit)
    shown = report_objects.section(content.objects, config) if content.objects else None
    absent = first_screen.not_run(content.metrics, content.gap, content.meta.get("not_observed") or {})
    values = paper.words | {
        one: getattr(content, one) for one in ("summaries", "triplets", "token_sentences")
    }
    return (
        environment(written)
        .get_template("report.html.j2")
        .render(
            values,
            people=people,
            controls=[person for person in people if person.control],
            n_images=len(samples),
            left_out=wording_prompts.left_out_sentence(samples),
            n_prompts=n_prompts,
            n_seeds=n_seeds,
            units=units,
            measured=any(summary.findings for summary in content.summaries),
            missing=None if content.not_measured is None else content.not_measured.to_dict("records"),
            closed=config.images is not None,
            compares=config.compares,
            joint_attention=next((name for name, _ in content.definitions if name.startswith("joint")), ""),
            has_maps=bool(content.definitions),
            taken=content.meta.get("taken_in"),
            origin=wording_prompts.origin_sentence(samples, config),
            limits=first_screen.limits(config, people, content.summaries, units, objects=shown is not None),
            articles=wording_prompts.article_warning(samples),
            tables={spec.name: section.tables(paper, spec) for spec in PAPER.tables},
            spoken=wording_prompts.spoken_words(config, people),
            untested=first_screen.not_tested(
                config,
                people,
                n_prompts=n_prompts,
                n_seeds=n_seeds,
                counts=[one.verdict.counts for summary in content.summaries for one in summary.findings[:1]],
                absent=absent,
                detector=None if shown is None else shown["detector_known"],
            ),
            figures=figures,
            o=shown,
            audit=any(one.lead for one in content.methods),
            sections=[section.page_section(one, figures) for one in content.methods],
            metrics=content.metrics,
            primary=content.primary,
            n_shown=len(content.chosen),
            n_rows=len(samples[["triplet", "seed"]].drop_duplicates()),
            groups=record.groups(content.meta),
            versions=record.versions(_versions(content)),
            data={
                "atlases": {name: drawn.cells for name, drawn in figures.items() if drawn.cells},
                "links": {name: drawn.links for name, drawn in figures.items() if drawn.links},
            },
        )
    )


def _versions(content: Content) -> list[tuple[str, str]]:
    """The definitions that the tables name, with their versions."""
    tables = (content.paper.rows("disparity"), content.gap)
    named = [pair for table in tables for pair in zip(table["metric"].astype(str), table["version"])]
    named += [(f"heat map ({name})", version) for name, version in content.definitions]
    if content.objects:
        named += [("dependency groups", version) for version in content.objects.tables["objects"]["version"]]
    return named


def answers(run: Run) -> list[str]:
    """Return what came out of a reported run, a line each: the first answer, the objects, what was not measured."""
    config = run.config
    leads = [one.lead for one in section.sections(run) if one.lead]
    lines = [f"{leads[0].question} {leads[0].answer}"] if leads else []
    pairs = contrasts(config) if config.compares else []
    table = partial(read_table, run)
    if not leads and pairs:
        lines.append(summaries(joined_gaps(table), config)[0].answer)
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
