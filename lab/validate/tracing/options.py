"""Options that the commands of this folder share."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from probes.errors import UserError


def require_known(names: Iterable[str], known: Collection[str], what: str, also: str = "") -> None:
    """Refuse the first name that is not known.

    Parameters
    ----------
    what
        What is named, in the plural.
    also
        What else may be written, as " or `all`".

    Raises
    ------
    UserError
    """
    for name in names:
        if name not in known:
            raise UserError(
                f"command line: expected {what} ({', '.join(known)}){also}, got {name!r}: name one of them"
            )
