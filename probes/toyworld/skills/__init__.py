"""PaintSkills in two dimensions: the objects of its scenes, and their checker."""

from probes.prompts import sets

SET = "toyworld-skills"


def objects() -> tuple[str, ...]:
    """Return the objects of the scenes, those of the set of prompts."""
    return tuple(sets.read(SET)["objects"])
