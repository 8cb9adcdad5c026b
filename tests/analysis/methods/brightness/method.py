"""How bright are the images of each indicator: a table, a figure in a section of the report, and LaTeX."""

import numpy as np

from analysis.report.figures.style import SINGLE, Drawn, new_figure, style
from analysis.report.latex import latex
from analysis.report.method import ReportedMethod, ReportSection
from analysis.tables.method import MeasuredMethod
from analysis.tables.registry import read, write
from analysis.tables.table import Latex, Table

NAME = "brightness"


def brightness(run):
    """Return the mean of all pixels of each indicator's images, 0 to 255."""
    samples = run.samples(["sample_id", "indicator"])
    means = [np.asarray(image.convert("L"), float).mean() for image in run.images(samples["sample_id"])]
    grouped = samples.assign(brightness=means).groupby("indicator", sort=False)
    return grouped["brightness"].agg(["mean", "size"]).set_axis([NAME, "n"], axis=1).reset_index()


def measure(run, sharing, checked):
    """Write the table."""
    write(run, NAME, brightness(run))


def shown(run):
    """Read the table; None where the run has none."""
    return read(run, NAME) if NAME in run.tables() else None


def draw(table, config):
    """Draw a bar an indicator."""
    with style():
        figure = new_figure(SINGLE, 1.5)
        figure.add_subplot().bar(table["indicator"], table[NAME])
    return {NAME: Drawn(NAME, figure, "Brightness", "Mean brightness of the images of each indicator.")}


def documents(run):
    """Return the table as LaTeX."""
    if NAME in run.tables():
        entry = TABLE.printed[0]
        rows = [(row.indicator, [f"{row.brightness:.1f}"]) for row in read(run, NAME).itertuples()]
        yield entry.name, latex(entry.caption, ["Brightness"], rows, entry.label)


TABLE = Table(
    NAME,
    "pixels",
    "an indicator: the mean brightness of its images",
    ("indicator", NAME, "n"),
    printed=(Latex(NAME, NAME, "Mean brightness of images."),),
)
MEASURED = MeasuredMethod(tables=(TABLE,), needs={"pixels": "any run with images"}, measure=measure)
REPORTED = ReportedMethod(
    section=ReportSection(
        f"{__package__}/section.html.j2",
        read=shown,
        draw=draw,
        context=lambda table, config: {"rows": table.to_dict("records"), "of": config.model_name},
        anchor=NAME,
        title="Brightness",
    ),
    documents=documents,
)
