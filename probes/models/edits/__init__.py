"""Edits of a loaded pipeline: closed-form edits of keys and values, directions taken out or added.

    from probes.models import edits
    from probes.models.loading import load, resolve

    pipe = load(resolve("toyworld")).pipe
    edit = edits.Edit(words={"person": {"woman": 0.2}}, keep=["woman", "man"])
    with edits.apply(pipe, edit) as edited:
        images = pipe("a person with a dog").images
    edited.record["left_over_held_out"]  # what is left of the edit in a context that it was not solved from

The same options stand under ``edit:`` in ``triplets.yaml``, where they alter what is drawn
(`probes.config.edit_options`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from probes.config.edit_options import Edit

if TYPE_CHECKING:
    from probes.models.edits.applying import Edited

__all__ = ["Edit", "apply", "require"]


def apply(pipe: Any, edit: Edit) -> Edited:
    """Make an edit in a pipeline of Stable Diffusion 1, 2 or XL; of XL the pooled text stays as it is.

    The result has ``record``, and ``undo()``, which puts every weight back bit for bit; it is also a context manager
    that does so at its end. A `UserError` says what cannot be edited: a site, a word that the tokenizer cannot spell,
    or weights that would not be finite in the model's number format.
    """
    from probes.models.edits.applying import apply as make

    return make(pipe, edit)


def require(pipe: Any, edit: Edit, tokenizers: Sequence[Any], limit: int) -> None:
    """Refuse what :func:`apply` would, as far as it can be seen in a pipeline without weights."""
    from probes.models.edits.sites import places
    from probes.models.edits.states import written

    places(pipe, edit)
    written(edit, tokenizers, limit)
