"""Singular and plural of a noun."""

from __future__ import annotations

from functools import cache

from probes.prompts.grammar.tagger import is_known, is_read_as, singular_of_known

# What HanTa reads otherwise: "people" is the plural of "person", as "women" is of "woman".
SINGULAR = {
    **{"people": "person", "oxen": "ox", "leaves": "leaf", "dice": "die", "fries": "fry", "fifties": "fifty"},
    **{"skis": "ski", "stairs": "stair", "pears": "pear", "aides": "aide"},
    **{"bookshelves": "bookshelf", "businesses": "business", "mustaches": "mustache"},
}
# Names of things that have no singular of their own, or another meaning in it.
PLURAL_ONLY = frozenset((
    *("jeans", "shorts", "slacks", "trousers", "pants", "tights", "leggings", "overalls", "clothes", "sports"),
    *("glasses", "sunglasses", "eyeglasses", "spectacles", "goggles", "binoculars", "headphones", "graffiti"),
    *("scissors", "pliers", "tweezers", "pajamas", "pyjamas", "robotics"),
))  # fmt: skip
_PLURAL = {
    **{
        "person": "people",
        "child": "children",
        "staff": "staffs",
        "fish": "fishes",
        "ox": "oxen",
        "life": "lives",
    },
    **{"goose": "geese", "mouse": "mice", "foot": "feet", "tooth": "teeth", "sheep": "sheep", "deer": "deer"},
}
_IN_MANS = ("human", "german", "roman", "shaman")
_IN_VES = ("wife", "knife", "wolf", "leaf", "thief", "scarf", "shelf", "half", "calf", "loaf")
_IN_IES = tuple(
    f"{word}s" for word in ("hoodie", "selfie", "smoothie", "brownie", "zombie", "goalie", "foodie", "veggie")
)
_HISSING = ("ss", "x", "z", "ch", "sh")


@cache
def singular(text: str) -> str:
    """Return the singular of a noun in lower case.

    >>> [singular(text) for text in ("women", "people", "jeans", "glass", "hoodies")]
    ['woman', 'person', 'jeans', 'glass', 'hoodie']
    """
    if text in SINGULAR or text in PLURAL_ONLY:
        return SINGULAR.get(text, text)
    rest, hyphen, last = text.rpartition("-")
    if hyphen:
        return rest + hyphen + singular(last)
    if is_known(text):
        return singular_of_known(text) if is_read_as(text, "NN2") else text
    if text.endswith("men"):
        return f"{text[:-3]}man"
    if not text.endswith("s") or text.endswith(("ss", "us")):
        return text
    if text.endswith(tuple(f"{end}es" for end in _HISSING)):
        return text[:-2]
    for end in _IN_VES:
        if text.endswith(_in_ves(end)):
            return text.removesuffix(_in_ves(end)) + end
    return f"{text[:-3]}y" if text.endswith("ies") and not text.endswith(_IN_IES) else text[:-1]


@cache
def plural(word: str) -> str:
    """Return the plural of a noun phrase: that of its last word.

    >>> [plural(word) for word in ("person", "woman", "gentleman", "lady", "individual", "old person")]
    ['people', 'women', 'gentlemen', 'ladies', 'individuals', 'old people']
    """
    head, space, last = word.rpartition(" ")
    low = last.lower()
    text = _PLURAL.get(low) or _regular(low)
    if text.startswith(low):
        text = last + text[len(low) :]
    elif last[:1].isupper():
        text = text.upper() if last.isupper() else text.capitalize()
    return head + space + text


def _regular(word: str) -> str:
    if word in PLURAL_ONLY:
        return word
    if word.endswith("person"):
        return f"{word[:-6]}people"
    if word.endswith("man") and not word.endswith(_IN_MANS):
        return f"{word[:-3]}men"
    if word.endswith(_IN_VES):
        return _in_ves(word)
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith((*_HISSING, "s", "hero", "potato", "tomato")) else f"{word}s"


def _in_ves(word: str) -> str:
    return f"{word.removesuffix('e')[:-1]}ves"
