"""Scenes of PaintSkills in two dimensions: one to four objects of a kind, or two in a relation, in some place.

The picture is four cells of 32 × 32 pixels. An object stands in a cell of its own, at least `MARGIN` pixels from its
edges and `STEP` pixels to and fro where there is room, so that no two ever touch or lie nearer than twice the margin,
and the direction between two centres is never in doubt. A step is a cell of the latents, so that an object is the same
to the autoencoder wherever it stands. Nobody stands in it, and captions name no place.

What stands where is drawn evenly and independently: the place, the cells (one, or any so many of the four; for a
relation either of the two rows or columns), and where in its cell an object stands. Which cells are taken tells which
axis a relation runs along, and no more: both of its directions take the same cells equally often.

Source: Cho et al. 2023 (DALL-Eval), section 3.2, whose scenes are of three dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from probes.prompts import sets
from probes.prompts.paintskills import SkillRequest, prompt_text, skill_requests
from probes.toyworld.checker import PLACES
from probes.toyworld.draw import BLANK, SIZE, draw, sprite
from probes.toyworld.scene import Scene

CELL, MARGIN, STEP = SIZE // 2, 2, 4
# row and column of what stands in the relation, relative to the other: as steps from the first of two cells
_FIRST = {"left": 0, "above": 0, "right": 1, "below": 1}


@dataclass(frozen=True)
class Standing:
    """An object and the first row and column of its sprite, in pixels."""

    name: str
    row: int
    column: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        """``x0, y0, x1, y1`` in pixels, half open."""
        height, width = sprite(self.name).shape
        return self.column, self.row, self.column + width, self.row + height


@dataclass(frozen=True)
class SkillScene:
    """Scene of a prompt; of a relation the first object is the prompt's ``object``, then its ``object_b``."""

    request: SkillRequest
    caption: str
    objects: tuple[Standing, ...]
    place: str


def scene(request: SkillRequest, seed: str) -> SkillScene:
    """Return a scene in which a prompt comes true; the same for the same seed."""
    rng = np.random.default_rng(int.from_bytes(sha256(f"{seed}\n{request}".encode()).digest()[:8], "big"))
    place = PLACES[int(rng.integers(len(PLACES)))]
    if request.skill == "spatial":
        names, cells = [request.object, request.object_b], _pair(request.relation, int(rng.integers(2)))
    else:
        names = [request.object] * request.count
        cells = [divmod(int(cell), 2) for cell in rng.permutation(4)[: request.count]]
    standing = tuple(_within(name, cell, rng) for name, cell in zip(names, cells, strict=True))
    return SkillScene(request, prompt_text(request, sets.read("toyworld-skills")), standing, place)


def scenes(skill: str, split: str) -> Iterator[SkillScene]:
    """Yield the scenes of a skill and split (``train`` or ``test``), in the order of the prompts."""
    content = sets.read("toyworld-skills")
    prompts = [one for _, one in skill_requests(skill, content)]
    for number in range(content["skills"][skill]["scenes"][split]):
        for one in prompts:
            yield scene(one, f"{split} {number}")


def total(skill: str, split: str) -> int:
    """Return how many scenes a skill's split has."""
    content = sets.read("toyworld-skills")
    return len(skill_requests(skill, content)) * content["skills"][skill]["scenes"][split]


def draw_scene(drawn: SkillScene) -> np.ndarray:
    """Return the palette indices ``(64, 64)`` uint8 of a scene; `probes.toyworld.palette.paint` gives its colours."""
    picture = draw(Scene({}, {}, drawn.place, "stand", False, (0, 0, 0, 0, 0)), figures=False)
    for one in drawn.objects:
        pixels = sprite(one.name)
        height, width = pixels.shape
        view = picture[one.row : one.row + height, one.column : one.column + width]
        np.copyto(view, pixels, where=pixels != BLANK)
    return picture


def _pair(relation: str, lane: int) -> list[tuple[int, int]]:
    """The cells of an object and of what stands in the relation to it, in one of two rows or columns."""
    step = _FIRST[relation]
    along = [1 - step, step]
    return [(lane, place) if relation in ("left", "right") else (place, lane) for place in along]


def _within(name: str, cell: tuple[int, int], rng: np.random.Generator) -> Standing:
    """Put an object somewhere into a cell."""
    corner = []
    for place, length in zip(cell, sprite(name).shape):
        room = CELL - 2 * MARGIN - length
        places = min(room // STEP, 1) + 1
        first = (room - STEP * (places - 1)) // 2
        corner.append(CELL * place + MARGIN + first + STEP * int(rng.integers(places)))
    return Standing(name, *corner)
