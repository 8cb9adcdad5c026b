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
    """Make an edit in a pipeline.

    Parameters
    ----------
    pipe
        Of Stable Diffusion 1, 2 or XL. Of XL the pooled text, which no cross-attention reads, stays as it is.
    edit
        What to edit.

    Returns
    -------
    Edited
        With ``record``, and ``undo()``, which puts every weight back bit for bit; also a context manager that does so
        at its end.

    Raises
    ------
    UserError
        A site is not there or cannot be edited so, a word cannot be spelled by the model's tokenizer, or the edited
        weights are not finite in the model's number format.
    """
    from probes.models.edits.applying import apply as make

    return make(pipe, edit)


def require(pipe: Any, edit: Edit, tokenizers: Sequence[Any], limit: int) -> None:
    """Refuse what :func:`apply` would, as far as it can be told of a pipeline without weights.

    Parameters
    ----------
    tokenizers, limit
        See `probes.models.loading.tokenizers`.

    Raises
    ------
    UserError
        See :func:`apply`.
    """
    from probes.models.edits.sites import places
    from probes.models.edits.states import written

    places(pipe, edit)
    written(edit, tokenizers, limit)
