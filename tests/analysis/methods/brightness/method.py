"""How bright are the images of each indicator: a table with its sentence, figure, folded table and LaTeX."""

import numpy as np

from analysis.report.figures.style import SINGLE, Drawn, new_figure, style
from analysis.tables.spec import Column, MethodSpec, Pivot, TableSpec

NAME = "brightness"


def brightness(run):
    """Return the mean of all pixels of each indicator's images, 0 to 255."""
    samples = run.samples(["sample_id", "indicator"])
    means = [np.asarray(image.convert("L"), float).mean() for image in run.images(samples["sample_id"])]
    grouped = samples.assign(brightness=means).groupby("indicator", sort=False)
    return grouped["brightness"].agg(["mean", "size"]).set_axis([NAME, "n"], axis=1).reset_index()


def draw(shown):
    """Draw a bar an indicator."""
    table = shown.rows(NAME)
    with style():
        figure = new_figure(SINGLE, 1.5)
        figure.add_subplot().bar(table["indicator"], table[NAME])
    return Drawn(NAME, figure, "Brightness", "Mean brightness of the images of each indicator.")


TABLE = TableSpec(
    NAME,
    "an indicator: the mean brightness of its images",
    (
        Column("indicator", "text", "", "Indicator of the images."),
        Column(NAME, "number", "0 to 255", "Mean of all pixels of its images."),
        Column("n", "integer", "images", "How many there are."),
    ),
    make=brightness,
    sentences="{% for row in rows %}{{ row.indicator }} {{ number(row.brightness, 1) }} {{ over(unit) }}. {% endfor %}",
    figure=f"{__name__}:draw",
    pivots=(
        Pivot(
            "{{ indicator }}",
            {"Brightness": "{{ number(brightness, 1) }}", "images": "{{ n }}"},
            "Mean brightness of images.",
            latex=NAME,
            title="Brightness in numbers",
        ),
    ),
)
METHOD = MethodSpec(
    (TABLE,),
    needs="any run with images",
    inputs=lambda run, sharing, checked: run,
    title="Brightness",
    anchor=NAME,
)
