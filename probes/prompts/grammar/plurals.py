"""The plural of a word for a person: *women*, *gentlemen*, *non-binary people*."""

from __future__ import annotations

from functools import cache

# What lemminflect's dictionary lacks, or lists second ("persons" before "people").
_IRREGULAR = {"person": "people", "groomsman": "groomsmen", "bridesman": "bridesmen", "staff": "staffs"}


@cache
def plural(word: str) -> str:
    """Return the plural of a noun phrase: that of its last word, by lemminflect's dictionary.

    >>> [plural(word) for word in ("person", "woman", "gentleman", "lady", "individual", "old person")]
    ['people', 'women', 'gentlemen', 'ladies', 'individuals', 'old people']
    """
    from lemminflect import getInflection

    head, space, last = word.rpartition(" ")
    low = last.lower()
    inflected = getInflection(low, "NNS")
    found = _IRREGULAR.get(low) or (inflected[0] if inflected else f"{low}s")
    return head + space + (last + found[len(low) :] if found.startswith(low) else _cased(found, last))


def _cased(text: str, like: str) -> str:
    return text.upper() if like.isupper() else text[:1].upper() + text[1:] if like[:1].isupper() else text
