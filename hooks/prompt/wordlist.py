"""Words of a prompt that a probe is asked for, and their token positions: words, not substrings. Imports no torch.

A word here is a piece (`hooks.prompt.spans`), a run of letters or of digits; hyphens, apostrophes and other punctuation
part pieces. So "woman" is found in "the woman's hat" and in "WOMAN", never in "saleswoman", and "non-binary" or "tennis
racket" is a phrase of two, whose positions are all those from its first character to its last.
"""

from __future__ import annotations

import difflib
import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, TOKENIZERS
from hooks.errors import HookError
from hooks.prompt.given import prompt_tokenizer
from hooks.prompt.spans import Span, encode, require_fast, split_pieces, token_positions


@dataclass(frozen=True)
class Word:
    """A word of a prompt: a run of letters or of digits.

    Attributes
    ----------
    text, lower : str
        As it stands in the prompt, and in lower case.
    occurrence : int
        Number among the words of the same lower-case form in this prompt, from 0.
    span : (int, int)
        Its characters in the prompt, half open.
    positions : tuple of int
        Its token positions in what the text encoder is given, start of text and template included; those within the
        tokenizer's limit.
    prompt : int
        Number of the prompt.
    encoder : str
        "text", "text_2" or "text_3".
    cut_off : bool
        Whether the prompt is cut before the word ends.
    """

    text: str
    lower: str
    occurrence: int
    span: tuple[int, int]
    positions: tuple[int, ...]
    prompt: int = 0
    encoder: str = "text"
    cut_off: bool = False


def lower(text: str) -> str:
    """The form in which words are compared."""
    return unicodedata.normalize("NFC", text).lower()


def words(pipe: Any, prompts: str | Sequence[str]) -> list[Word]:
    """The words of prompts as a pipeline's tokenizers read them, before any image is drawn.

    Parameters
    ----------
    pipe : DiffusionPipeline
        With one tokenizer or, as SDXL, with two.
    prompts : str or sequence of str

    Returns
    -------
    list of Word
        By encoder, prompt and place. Words beyond the tokenizer's limit are there, marked `cut_off`.

    Raises
    ------
    HookError
        If a tokenizer gives no character offsets.
    """
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    found = []
    for encoder in TOKENIZERS:
        if (tokenizer := tokenizer_of(pipe, encoder)) is not None:
            require_fast(tokenizer, encoder)  # before it is asked for anything else
            config = getattr(getattr(pipe, TEXT_ENCODERS[encoder], None), "config", None)
            longest = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
            limit = min(tokenizer.model_max_length, longest)
            for number, prompt in enumerate(prompts):
                ids = tokenizer(prompt, truncation=True, max_length=limit)["input_ids"]
                found += words_of_text(tokenizer, ids, prompt, number, encoder) or []
    return found


def tokenizer_of(pipe: Any, encoder: str, system: str | None = None) -> Any:
    """The tokenizer of a text encoder as the pipeline uses it, or None if the pipeline has others alone."""
    there = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    tokenizer = getattr(pipe, TOKENIZERS[encoder], None)
    if tokenizer is None or (there and encoder not in there):
        return None
    return prompt_tokenizer(
        architecture_of(pipe).layouts[-1], [*TOKENIZERS].index(encoder), tokenizer, system
    )


def words_of_text(
    tokenizer: Any, ids: Sequence[int], prompt: str, number: int, encoder: str
) -> list[Word] | None:
    """Words of a prompt by the characters of its tokens; None if `ids`, which the encoder was given, are of another."""
    ((own, offsets),) = encode(tokenizer, [prompt], encoder)
    same = next(
        (place for place, pair in enumerate(zip(own, ids)) if pair[0] != pair[1]), min(len(own), len(ids))
    )
    cut = list(ids[same:]) if same < len(own) else []  # by the encoder's limit, behind which an end may stand
    if len(cut) > 1 or {*cut} - {*tokenizer.all_special_ids}:
        return None
    return _listed(prompt, offsets, same, number, encoder)


def words_of_ids(tokenizer: Any, ids: Sequence[int], number: int, encoder: str) -> list[Word]:
    """Words of a text of which only the token ids are known, by what each token adds to it."""
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    spelled = tokenizer.template.vectors if hasattr(tokenizer, "template") else {}
    vectors = {one for token in spelled.values() for one in token.split()[1:]}
    names = tokenizer.convert_ids_to_tokens(list(ids))
    clip = any(
        name.endswith("</w>") for name in names
    )  # CLIP's mark the ends of words, and drop blanks between them
    text, before, decoded, offsets, last = "", "", [], [], ""
    for token, name in zip(ids, names):
        if token in special:
            offsets.append((len(text), len(text)))
            continue
        if name in vectors and offsets:  # of the placeholder before it
            offsets.append(offsets[-1])
            continue
        if clip and decoded and text[-1:].isnumeric() and name.removesuffix("</w>").isnumeric():
            before, decoded = text, []  # CLIP reads digits one by one
        if token in added:  # decoders part them from no word
            before, decoded = f"{text} ", []
        decoded.append(token)
        whole = before + tokenizer.decode(decoded, clean_up_tokenization_spaces=False)
        offsets.append((len(text.rstrip("\ufffd")), len(whole)))  # of a character begun by the token before
        text = whole
        if token in added:
            before, decoded = f"{text} ", []
        last = "</w>" if token in added else name
    if clip and last and not last.endswith("</w>"):  # the text is cut within its last word
        offsets.append(next(span for span in reversed(offsets) if span[0] < span[1]))
    return _listed(text, offsets, len(ids), number, encoder)


def _listed(text: str, offsets: Sequence[Span], kept: int, number: int, encoder: str) -> list[Word]:
    """Words of a text by the characters of its tokens, of which the first so many are kept."""
    found, counts = [], Counter()
    for begin, stop in split_pieces(text):
        tokens = token_positions(offsets, (begin, stop))
        positions = tuple(place for place in tokens if place < kept)
        word, key = text[begin:stop], lower(text[begin:stop])
        cut_off = len(positions) < len(tokens)
        found.append(Word(word, key, counts[key], (begin, stop), positions, number, encoder, cut_off))
        counts[key] += 1
    return found


def find(words: Iterable[Word], wanted: str, occurrence: int | None = None) -> tuple[int, ...]:
    """Token positions of a word or phrase in one prompt, as one encoder reads it; all of several by default."""
    words = list(words)
    parts = [lower(wanted[a:b]) for a, b in split_pieces(wanted)]
    if not parts:
        raise HookError(
            f"word: expected letters or digits, but got {wanted!r}: give a token position instead"
        )
    have = [word.lower for word in words]
    pieces = [[text[a:b] for a, b in split_pieces(text)] for text in have]  # a run keeps "non-binary" whole
    phrases = [
        words[first:stop]
        for first in range(len(words))
        for stop in range(first + 1, min(len(words), first + 2 * len(parts)) + 1)
        if pieces[first] and pieces[stop - 1] and [*itertools.chain(*pieces[first:stop])] == parts
    ]
    if not phrases:
        close = difflib.get_close_matches(lower(wanted), have, 1)
        nearest = f": did you mean {close[0]}?" if close else ""
        there = ", ".join(have) or "none"
        raise HookError(f"word: {wanted!r} is no word of this prompt, which has {there}{nearest}")
    if occurrence is not None:
        if not 0 <= occurrence < len(phrases):
            raise HookError(
                f"occurrence: expected a number below the {len(phrases)} of {wanted!r}, but got {occurrence}"
            )
        phrases = [phrases[occurrence]]
    whole = [phrase for phrase in phrases if not any(word.cut_off for word in phrase)]
    if not whole:
        raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
    ranges = [range(phrase[0].positions[0], phrase[-1].positions[-1] + 1) for phrase in whole]
    return tuple(sorted({position for one in ranges for position in one}))
