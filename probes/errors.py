"""The one error that a user can mend; how text of a user's is shown: printable, in one line, short; JSON of others."""

from __future__ import annotations

import difflib
import json
import re
import shlex
import unicodedata
from collections.abc import Iterable
from typing import Any

LIMIT = 400  # characters of a message: what a terminal shows in a few lines
_JOINERS = "\u200c\u200d"  # written within words of Persian and of Indic scripts, and within emoji
# what may be shortened: quoted text, a list in brackets, a word without end
_LONG = re.compile(r"""(?<!\w)'[^']*'(?!\w)|`[^`]*`|"[^"]*"|\[[^\]]*\]|\S{30,}""")


def printable(text: str) -> str:
    """Return a text with control characters, marks that reorder text and invisible characters written as escapes.

    Letters of any script stay.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"
        else char.encode("unicode_escape").decode()
        for char in text
    )


def one_line(text: str, limit: int = LIMIT) -> str:
    """Return a message as one printable line of at most `limit` characters.

    A longer one loses the middle of what it quotes, then its own middle: the place at its beginning and the remedy at
    its end stay.
    """
    line = printable(_shorten_middle(" ".join(str(text).split()), 20 * limit))
    for width in (120, 60, 30):
        if len(line) > limit:
            line = _LONG.sub(lambda match, width=width: _shorten_middle(match[0], width), line)
    return _shorten_middle(line, limit)


def _shorten_middle(text: str, width: int) -> str:
    """Return a text of at most `width` characters, with ``...`` in place of its middle if it was longer."""
    head = (width - 3) * 2 // 3
    return text if len(text) <= width else f"{text[:head]}...{text[-(width - 3 - head) :]}"


def first_line(error: BaseException, length: int = 120) -> str:
    """Return the first line of an error's message, or its class's name if it has none, cut to `length` characters."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = " ".join((lines[0] if lines[0].rstrip(": ") else " ".join(lines)).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def nearest(kind: str, got: object, known: Iterable[str], remedy: str = "choose one of them") -> str:
    """Return an error message: the kind of name that was expected, the name given, and the nearest known names.

    If no name is near, the `remedy` and all names follow.

    >>> nearest("word", "umbrela", ["a", "person", "umbrella"])
    "expected a word, got 'umbrela': did you mean umbrella?"
    >>> nearest("site", "x", ["unet.mid", "text.final"])
    "expected a site, got 'x': choose one of them: unet.mid, text.final"
    """
    names = list(known)
    found = f"expected {'an' if kind[0] in 'aeiou' else 'a'} {kind}, got {got!r:.60}"
    if close := close_names(str(got), names):
        return f"{found}: did you mean {' or '.join(close)}?"
    if not names:
        return f"{found}: there is none"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"{found}: {remedy}: {', '.join(names[:12])}{more}"


def close_names(got: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that begin with `got` or are spelled like it.

    >>> close_names("atlas", ["gap-text", "atlas-masculine-feminine"])
    ['atlas-masculine-feminine']
    """
    lowered: dict[str, str] = {}
    for name in known:
        lowered.setdefault(name.lower(), name)
    got = got.lower()
    begun = sorted((name for name in lowered if len(got) >= 3 and name.startswith(got)), key=len)
    # of one or two letters one may be another
    close = begun[:3] or difflib.get_close_matches(got, lowered, 3, 0.5 if len(got) < 3 else 0.6)
    ratios = [difflib.SequenceMatcher(None, name, got).ratio() for name in close]
    return [lowered[name] for name, ratio in zip(close, ratios, strict=True) if ratio > 0.9 * ratios[0]]


class UserError(Exception):
    """An error that the user can mend: one line with the location, the rule, what was there and the remedy.

    Command lines print the message to stderr without a traceback and end with exit status 2. Everything else
    is a bug and keeps its traceback. Whatever text of the user's the message repeats, it is printable and has
    at most 400 characters (`one_line`).
    """

    def __init__(self, message: str):
        super().__init__(one_line(message))


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; any failure, even of endless nesting, is a `json.JSONDecodeError`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError) as error:  # a number of thousands of digits, bytes that are no text
        raise json.JSONDecodeError(str(error).partition(";")[0], "", 0) from None


def pip_line(extra: str) -> str:
    """Return the ``pip install`` command that adds an optional extra to this installation of Triptych."""
    from importlib import metadata  # not before: --help is quick
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    text = metadata.distribution("triptych").read_text("direct_url.json")
    source = parse_json(text) if text else {}
    if "dir_info" not in source:
        return f"pip install 'triptych[{extra}]'"
    editable = "-e " if source["dir_info"].get("editable") else ""
    folder = url2pathname(urlsplit(source["url"]).path)
    return f"pip install {editable}{shlex.quote(f'{folder}[{extra}]')}"


def missing_package(place: str, package: str, extra: str) -> UserError:
    """Return the error for a package that is not here, with the command that installs its optional extra."""
    return UserError(f"{place}: expected the package {package}, found none: {pip_line(extra)}")
