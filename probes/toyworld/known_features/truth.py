"""Ground truth of `toyworld-features`: the direction of each attribute at the site that tells which are asked for.

Eight attributes lie in six channels, in superposition (Elhage et al. 2022, "Toy Models of Superposition"): two groups
of four, in each of which the directions are those from the centre of a regular tetrahedron to its corners, so two of a
group have a cosine of -1/3, and two of different groups are at right angles. A reflection then mixes the six channels,
so that no channel stands for one attribute.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

SITE = "unet.down.1.attn.0.cross"  # tells: the last channels of its output hold the sum of directions
SHOWS = "unet.up.1.attn.0.cross"  # whose transformer block hears it and was taught to show it
CHANNELS = 6
# words of the prompt and what they ask for; those of a group stand together
ATTRIBUTES: Mapping[str, str] = {
    "dressed": "dress",
    "hatted": "hat",
    "gloved": "gloves",
    "flowery": "flower",
    "booted": "boots",
    "tied": "tie",
    "masked": "mask",
    "lamplit": "lamp",
}
FILLER = "plain"  # a word that asks for nothing
WORDS = (*ATTRIBUTES, FILLER)
THINGS = tuple(ATTRIBUTES.values())
_CORNERS = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
_MIRROR = (1, 2, 3, 4, 5, 6)  # normal of the plane of reflection


def directions() -> Matrix:
    """Return the unit vectors of the attributes, ``(8, 6)``, in the order of `THINGS`.

    Examples
    --------
    >>> gram = directions() @ directions().T
    >>> ((3 * gram[0]).round(12) + 0.0).tolist()  # no -0
    [3.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0]
    """
    corners, normal = np.array(_CORNERS) / np.sqrt(3.0), np.array(_MIRROR, float)
    plain = np.block([[corners, np.zeros((4, 3))], [np.zeros((4, 3)), corners]])
    return plain - 2.0 * np.outer(plain @ normal, normal) / (normal @ normal)


def prompt(asked: Iterable[str], rest: str = "", *, words: int = 3, noun: str = "person") -> str:
    """Return a prompt that asks for attributes, with the filler up to a number of words.

    Parameters
    ----------
    asked : iterable of str
        Of `THINGS`.
    rest : str
        What follows the noun.

    Examples
    --------
    >>> prompt(["hat", "lamp"], "in the park")
    'a hatted lamplit plain person in the park'
    """
    word_of = {thing: word for word, thing in ATTRIBUTES.items()}
    chosen = [word_of[thing] for thing in asked]
    chosen += [FILLER] * (words - len(chosen))
    return " ".join(["a", *chosen, noun, *([rest] if rest else [])])


def asked_for(prompts: Sequence[str]) -> NDArray[np.int64]:
    """Return how often each prompt asks for each attribute by its word, ``(prompts, 8)``."""
    return np.array([[text.split().count(word) for word in ATTRIBUTES] for text in prompts])
