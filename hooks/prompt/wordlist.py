"""Words of a prompt that a probe is asked for, and their token positions: words, not substrings. Imports no torch.

A word here is a piece (`hooks.prompt.spans`), a run of letters or of digits; hyphens, apostrophes and other punctuation
part pieces. So "woman" is found in "the woman's hat" and in "WOMAN", never in "saleswoman", and "non-binary" or "tennis
racket" is a phrase of two, whose positions are all those from its first character to its last.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hooks.architectures.text_encoders import TEXT_ENCODERS, TOKENIZERS
from hooks.errors import HookError
from hooks.prompt.given import with_vectors
from hooks.prompt.spans import encode, require_fast, split_pieces, token_positions


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
        Its token positions, counted with the start-of-text token; those within the tokenizer's limit.
    prompt : int
        Number of the prompt.
    encoder : str
        "text" or "text_2".
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
            for number, prompt in enumerate(prompts):
                found += of_text(pipe, tokenizer, prompt, number, encoder)
    return found


def tokenizer_of(pipe: Any, encoder: str) -> Any:
    """The tokenizer of a text encoder as the pipeline uses it, or None if the pipeline has others alone."""
    there = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    if there and encoder not in there:
        return None
    tokenizer = getattr(pipe, TOKENIZERS[encoder], None)
    return with_vectors(tokenizer) if hasattr(pipe, "maybe_convert_prompt") else tokenizer


def of_text(pipe: Any, tokenizer: Any, prompt: str, number: int, encoder: str) -> list[Word]:
    """Words of a prompt by the character offsets of its tokens."""
    require_fast(tokenizer, encoder)  # before it is asked for anything else
    ((_, offsets),) = encode(tokenizer, [prompt], encoder)
    limit = length_limit(pipe, tokenizer, encoder) - 1  # the last position is the end-of-text token's
    found = []
    for begin, stop in split_pieces(prompt):
        tokens = token_positions(offsets, (begin, stop))
        positions = tuple(i for i in tokens if i < limit)
        word = prompt[begin:stop]
        cut = len(positions) < len(tokens)
        found.append(Word(word, lower(word), 0, (begin, stop), positions, number, encoder, cut))
    return _numbered(found)


def marks_ends(tokenizer: Any, ids: Sequence[int]) -> bool:
    """Return whether these tokens mark the ends of words, as CLIP's do, and drop the blanks between them."""
    return any(str(token).endswith("</w>") for token in tokenizer.convert_ids_to_tokens(list(ids)))


def of_ids(
    tokenizer: Any, ids: Sequence[int], number: int, encoder: str, prompt: str | None = None
) -> list[Word] | None:
    """Words of a text of which only the token ids are known, by what each token adds when they are put together again.

    With `prompt`, its words alone, where it last stands in the text, in whatever case; None where it does not stand
    there.
    """
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    vectors = {one for spelled in getattr(tokenizer, "vectors", {}).values() for one in spelled.split()[1:]}
    names, clip = tokenizer.convert_ids_to_tokens(list(ids)), marks_ends(tokenizer, ids)
    text, before, decoded, offsets = "", "", [], []
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
    shown, begin = text, 0
    if prompt is not None:  # blanks are not as they were
        offsets = [(_blank_free(text, start), _blank_free(text, stop)) for start, stop in offsets]
        shown, begin = prompt, "".join(text.lower().split()).rfind("".join(prompt.lower().split()))
    if begin < 0:
        return None
    found = []
    read = [position for position, token in enumerate(ids) if token not in special]
    ends = not clip or ids[read[-1]] in added or names[read[-1]].endswith("</w>")
    for start, stop in split_pieces(shown):
        at = (start, stop) if prompt is None else (_blank_free(prompt, start), _blank_free(prompt, stop))
        positions = token_positions(offsets, (begin + at[0], begin + at[1]))
        word, cut = shown[start:stop], not ends and read[-1] in positions
        found.append(Word(word, lower(word), 0, (start, stop), positions, number, encoder, cut))
    return _numbered(found)


def _blank_free(text: str, stop: int) -> int:
    """Number of characters before a place of a text that are no blanks."""
    return len("".join(text[:stop].split()))


def find(words: Iterable[Word], wanted: str, occurrence: int | None = None) -> tuple[int, ...]:
    """Token positions of a word or phrase in one prompt, as one encoder reads it; all of several by default."""
    words = list(words)
    parts = [lower(wanted[a:b]) for a, b in split_pieces(wanted)]
    if not parts:
        raise HookError(
            f"word: expected letters or digits, but got {wanted!r}: give a token position instead"
        )
    have = [word.lower for word in words]
    # a run keeps words such as "non-binary" whole: of which word each piece is
    pieces = [(i, text[a:b]) for i, text in enumerate(have) for a, b in split_pieces(text)]
    owners, texts, count = [i for i, _ in pieces], [text for _, text in pieces], len(parts)
    phrases = [
        words[owners[k] : owners[k + count - 1] + 1]
        for k in range(len(texts) - count + 1)
        if texts[k : k + count] == parts
        and owners[k] not in owners[:k]
        and owners[k + count - 1] not in owners[k + count :]
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
    positions: set[int] = set()
    for phrase in phrases:
        if any(word.cut_off for word in phrase):
            if occurrence is None and len(phrases) > 1:
                continue
            raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
        positions |= set(range(phrase[0].positions[0], phrase[-1].positions[-1] + 1))
    if not positions:
        raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
    return tuple(sorted(positions))


def length_limit(pipe: Any, tokenizer: Any, encoder: str) -> int:
    """Tokens that the pipeline gives the encoder, start and end of text included."""
    config = getattr(getattr(pipe, TEXT_ENCODERS[encoder], None), "config", None)
    longest = getattr(config, "max_position_embeddings", None)
    return min(tokenizer.model_max_length, longest or tokenizer.model_max_length)


def _numbered(found: list[Word]) -> list[Word]:
    counts: dict[str, int] = {}
    numbered = []
    for word in found:
        numbered.append(replace(word, occurrence=counts.get(word.lower, 0)))
        counts[word.lower] = counts.get(word.lower, 0) + 1
    return numbered
