"""Singular and plural of a noun, and its indefinite article: *a* or *an*, by how a word sounds.

Spelling misleads in four places, each a rule here: numbers (*an 80-year-old*), letters read out (*an MBA student*),
vowel letters that begin with the sound of *you* or *one* (*a European*), and an *h* that is silent (*an heir*). The
library `inflect` was tried: of the 261 cases in ``tests/probes/prompts/grammar/articles.csv`` it has 38 wrong, nearly
every number among them, and importing it takes seconds.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from probes.prompts.grammar.tagger import known_singular

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

# A letter read out: the names of these begin with a vowel (eff, aitch, ell ...); that of u does not (you).
_VOWEL_NAMES = frozenset("AEFHILMNORSX")
# How a word can begin; capitals that begin otherwise are read letter by letter (MBA, FBI, LGBT).
_SPEAKABLE = re.compile(
    r"[bcdgjkpqtvwyzaeiou]|f[lr]?[aeiouy]|h[aeiouy]|l[aeiouy]|m[n]?[aeiouy]|mc|n[aeiouy]|rh?[aeiouy]|"
    r"s(c|ch|cr|h|hr|k|l|m|n|p|ph|pl|pr|q|t|tr|w)?[aeiouy]|x[aeiouy]"
)
# Initials that could be spoken as a word and are not, and those that are also written in small letters.
_READ_OUT = frozenset(
    "FOI HIV HOA LA LAPD LAX LED LEP MEP MIA MIT MOD MOT NIH RAF REI SAT SEC SEO SOA SOS SUV".split()  # noqa: SIM905
)
_SMALL = frozenset("fbi fda hiv mba mri nba sos suv".split())  # noqa: SIM905
_TITLES = frozenset(("mr", "mrs", "ms", "sgt", "st"))
# A vowel letter with the sound of "you": uni- that is not un- before an i, eu-, and u- before some endings.
_YOU = re.compile(
    r"uni(?!n|m[abp]|d[eo]|g|ll|r|ss)|unanim|unesco|eu(?!ler)|ew(?!ok)|"
    r"ubi|uga|uk[eru]|ulys|upsilon|ura[nl]|ure|uri[acn]|uro|urug|us[eu]|usa[bg]|usi|uta|ute|uti|uto|utr|uvu"
)
_WON = re.compile(r"(one|ones)$|one(ness|self|sie|time)|once|oui|oaxa|uygh|uigh")  # one, once, Oaxacan
_VOWEL = re.compile(r"[aeiou]|y[^aeiou]|xray|xbox|xmas|hour|honest|honou?r|heir|hors$")  # Yvonne; a silent h
# Spoken in two ways: whichever article was written stays.
_EITHER = re.compile(r"(herb|histori[ac]|hysteric|habitual|faqs?\b|sql\b|urls?\b|opec\b)", re.IGNORECASE)

# An article right before the place of a word, an opening quote or bracket between them allowed.
_BEFORE = re.compile(r"""(?:^|(?<=[\s"'(\[“‘-]))(an?)(\s+["'“‘(\[]?)$""", re.IGNORECASE)


@cache
def singular(text: str) -> str:
    """Return the singular of a noun that is given in lower case.

    >>> [singular(text) for text in ("women", "people", "jeans", "glass", "hoodies")]
    ['woman', 'person', 'jeans', 'glass', 'hoodie']
    """
    if text in SINGULAR or text in PLURAL_ONLY:
        return SINGULAR.get(text, text)
    rest, hyphen, last = text.rpartition("-")
    if hyphen:
        return rest + hyphen + singular(last)
    if (known := known_singular(text)) is not None:
        return known
    if text.endswith("men"):
        return f"{text[:-3]}man"
    if not text.endswith("s") or text.endswith(("ss", "us")):
        return text
    if text.endswith(tuple(f"{end}es" for end in _HISSING)):
        return text[:-2]
    for end in _IN_VES:
        if text.endswith(_ves_plural(end)):
            return text.removesuffix(_ves_plural(end)) + end
    return f"{text[:-3]}y" if text.endswith("ies") and not text.endswith(_IN_IES) else text[:-1]


@cache
def plural(word: str) -> str:
    """Return the plural of a noun phrase, formed from its last word.

    >>> [plural(word) for word in ("person", "woman", "gentleman", "lady", "individual", "old person")]
    ['people', 'women', 'gentlemen', 'ladies', 'individuals', 'old people']
    """
    head, space, last = word.rpartition(" ")
    low = last.lower()
    text = _PLURAL.get(low) or _regular_plural(low)
    if text.startswith(low):
        text = last + text[len(low) :]
    elif last[:1].isupper():
        text = text.upper() if last.isupper() else text.capitalize()
    return head + space + text


def _regular_plural(word: str) -> str:
    """Return the plural of a lower-case noun by rules of spelling."""
    if word in PLURAL_ONLY:
        return word
    if word.endswith("person"):
        return f"{word[:-6]}people"
    if word.endswith("man") and not word.endswith(_IN_MANS):
        return f"{word[:-3]}men"
    if word.endswith(_IN_VES):
        return _ves_plural(word)
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith((*_HISSING, "s", "hero", "potato", "tomato")) else f"{word}s"


def _ves_plural(word: str) -> str:
    """Return the plural in -ves of a noun in -f or -fe, such as *knives*."""
    return f"{word.removesuffix('e')[:-1]}ves"


def article(word: str) -> str:
    """Return the indefinite article of `word`, ``a`` or ``an``, by the sound that the word begins with.

    >>> [article(word) for word in ("80-year-old", "X-ray technician", "MBA student", "Ukrainian")]
    ['an', 'an', 'an', 'a']
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    word = re.sub(r"^[^\w]+|^_+", "", plain)
    letters = re.match(r"[A-Za-z]*", word)[0]
    initials, low = re.match(r"[A-Z]*", letters)[0], letters.lower()
    if number := re.match(r"\d[\d,]*", word):
        # eight, eighty, eight hundred; eleven and eighteen, also thousands, and the years that begin with them
        first, *more = number[0].split(",")
        is_teen = len(first) % 3 == 2 or (len(first) == 4 and not more)
        vowel = first.startswith("8") or (is_teen and first.startswith(("11", "18")))
    elif len(letters) == 1 and word[1:2] not in ("'", "’"):
        vowel = letters.upper() in _VOWEL_NAMES  # X-ray, U-turn, R&B, M16, F.B.I.
    elif len(initials) > 1 and _is_read_letterwise(initials):
        vowel = initials[0] in _VOWEL_NAMES
    elif not initials and low not in _TITLES and (low in _SMALL or not re.search(r"[aeiouy]", low)):
        vowel = low[:1].upper() in _VOWEL_NAMES
    else:
        vowel = bool(_VOWEL.match(low)) and not _YOU.match(low) and not _WON.match(low)
    return "an" if vowel else "a"


def _is_read_letterwise(initials: str) -> bool:
    """Return whether a word in capitals is read letter by letter (*MBA*) and not as a word (*NASA*)."""
    if initials[0] == "U":
        return len(initials) <= 4
    return initials == "EU" or initials in _READ_OUT or not _SPEAKABLE.match(initials.lower())


def fit_article(before: str, word: str, *, capitals: bool = False) -> str:
    """Return `before`, the text before `word`, with an indefinite article at its end replaced by the fitting one.

    `capitals`: the text is in capitals, *AN*, where otherwise *An* is written for *A*.

    >>> [fit_article(*pair) for pair in (("near a ", "adult"), ("an old ", "woman"), ("A ", "EMT"))]
    ['near an ', 'an old ', 'An ']
    """
    match = _BEFORE.search(before)
    right = article(word)
    if not match or _EITHER.match(word) or match[1].lower() == right:
        return before
    if match[1][0].isupper():
        right = right.upper() if capitals else right.capitalize()
    return before[: match.start(1)] + right + match[2]


def match_case(word: str, like: str) -> str:
    """Return `word` in capitals or capitalized where `like` is, else unchanged."""
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word
