"""Edits of a loaded pipeline: closed-form edits of keys and values, directions taken out or added.

    from probes.models import edits
    from probes.models.loading import load, resolve

    pipe = load(resolve("toyworld")).pipe
    edit = edits.Edit(words={"person": {"woman": 0.2}}, keep=["woman", "man"])
    with edits.apply(pipe, edit) as edited:
        images = pipe("a person with a dog").images
    edited.record["left_over_held_out"]  # what is left of the edit in a context that it was not solved from

The same options stand under ``edit:`` in ``triplets.yaml``, where they alter what is drawn
(`probes.config.generation`).
"""

from probes.config.generation import Edit
from probes.models.edits.applying import Edited, apply, require

__all__ = ["Edit", "Edited", "apply", "require"]
