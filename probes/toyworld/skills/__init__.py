"""PaintSkills in two dimensions: the checker of objects alone, and the benchmark model that was trained on them."""

from probes.prompts import sets

SET = "toyworld-skills"


def objects() -> tuple[str, ...]:
    """Return the objects of the scenes, those of the set of prompts."""
    return tuple(sets.read(SET)["objects"])
