"""Images of a run as a notebook shows them: a gallery of triplets."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from analysis.metrics.dependency import GROUPS
from analysis.report.environment import environment
from analysis.report.gallery import encode

THUMBNAIL = 128  # pixels, of the longer side
MARKED = 220  # the same of images with outlines and names
SIDE_BY_SIDE = 4  # images in a row where each prompt has one; of those with outlines one fewer
# of the dependency groups, as in the report
COLOURS = ("#0072b2", "#d55e00", "#56b4e9", "#e69f00", "#8a979e", "#8a979e")


@dataclass(frozen=True)
class Cell:
    """One image of a gallery: its sample, its prompt, what is shown of it, and the outlines of objects on it."""

    sample_id: str
    indicator: str
    prompt: str
    image: Image.Image = field(repr=False, compare=False)
    marks: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)

    @property
    def source(self) -> str:
        """The image as a ``data:`` address: PNG, its longer side reduced to `THUMBNAIL`; SVG with outlines on it."""
        largest = THUMBNAIL if self.marks is None else MARKED
        image = self.image.copy()
        image.thumbnail((largest, largest))
        source = encode(image, largest)
        return source if self.marks is None else _marked(source, self.image.size, self.marks)


@dataclass(frozen=True)
class GalleryTriplet:
    """One prompt and seed: an image per indicator, and the gap of the triplet in words, where it is measured.

    ``noun`` is what it is called: ``prompt`` in a run of one indicator, which compares nothing.
    """

    number: int
    seed: int
    prompt: str
    cells: Sequence[Cell]
    gap: str = ""
    noun: str = "triplet"


@dataclass(frozen=True, repr=False)
class Gallery:
    """Triplets of a run below each other, one column per indicator, with or without the heat map of a word.

    Where each prompt has one image, these lie side by side.

    ``of`` counts the triplets (with their seeds) that there were to choose from; ``word`` is whose heat map lies over
    the images; ``objects``: whether the objects found are outlined.
    """

    triplets: Sequence[GalleryTriplet]
    of: int
    word: str = ""
    objects: bool = False

    def __len__(self) -> int:
        return len(self.triplets)

    def save(self, path: str | Path) -> Path:
        """Write the gallery to an HTML file that needs no other; return its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            f'<!doctype html><meta charset="utf-8"><title>Gallery</title>{self._repr_html_()}\n', "utf-8"
        )
        return path

    def __repr__(self) -> str:
        word = f", heat map of {self.word!r}" if self.word else ""
        what = "prompts" if self._single else "triplets"
        head = f"Gallery of {len(self)} of {self.of} {what}{word}; a notebook shows it, .save(path) writes it"
        return "\n".join([head, *map(_lines, self.triplets)])

    def _repr_html_(self) -> str:
        template = environment().get_template("notebook_gallery.html.j2")
        return template.render(
            triplets=self.triplets,
            single=self._single,
            columns=SIDE_BY_SIDE - self.objects,
            word=self.word,
            thumbnail=MARKED if self.objects else THUMBNAIL,
            groups=list(zip(COLOURS, GROUPS)) if self.objects else (),
        )

    @property
    def _single(self) -> bool:
        """Whether the run has one indicator."""
        return any(one.noun == "prompt" for one in self.triplets)


def _lines(shown: GalleryTriplet) -> str:
    """A triplet in lines, of which the first says which it is."""
    names = ", ".join(cell.indicator for cell in shown.cells)
    head = f"{shown.noun} {shown.number}, seed {shown.seed}: {textwrap.shorten(shown.prompt, 100)}"
    head += f" ({names})" if shown.noun == "triplet" else ""
    return f"{head}\n  {shown.gap}" if shown.gap else head


def _marked(source: str, size: tuple[int, int], marks: Sequence[Mapping[str, Any]]) -> str:
    """An image with the outlines and names of objects, as the ``data:`` address of an SVG that needs no other file."""
    width, height = (round(MARKED * side / max(size)) for side in size)
    template = environment().get_template("notebook_marks.svg.j2")
    svg = template.render(source=source, width=width, height=height, marks=marks, colours=COLOURS)
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode('ascii')}"
