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
    """The tokenizer of a text encoder, or None if the pipeline has no such encoder."""
    if getattr(pipe, TEXT_ENCODERS[encoder], None) is None:
        return None
    return getattr(pipe, TOKENIZERS[encoder], None)


def of_text(pipe: Any, tokenizer: Any, prompt: str, number: int, encoder: str) -> list[Word]:
    """Words of a prompt by the character offsets of its tokens."""
    require_fast(tokenizer, encoder)  # before it is asked for anything else
    text = expanded(pipe, tokenizer, prompt)
    ((_, offsets),) = encode(tokenizer, [text], encoder)
    limit = length_limit(pipe, tokenizer, encoder) - 1  # the last position is the end-of-text token's
    found = []
    for begin, stop in split_pieces(text):
        tokens = token_positions(offsets, (begin, stop))
        positions = tuple(i for i in tokens if i < limit)
        word = text[begin:stop]
        cut = len(positions) < len(tokens)
        found.append(Word(word, lower(word), 0, (begin, stop), positions, number, encoder, cut))
    return _numbered(found)


def of_tokens(tokenizer: Any, ids: Sequence[int], number: int, encoder: str) -> list[Word]:
    """Words of a prompt of which only the token ids are known, by the tokens that end a word.

    The text is put together from them, in lower case, its words parted by blanks; spans count in it.
    """
    special = {tokenizer.bos_token_id, tokenizer.eos_token_id}
    found, text, group = [], "", []
    for position, token in enumerate(ids):
        if token in special:
            if position and group:
                found, text = _with_group(tokenizer, found, text, group, number, encoder, cut_off=True)
            if position:
                break
            continue
        group.append((position, token))
        if str(tokenizer.convert_ids_to_tokens(int(token))).endswith("</w>"):
            found, text = _with_group(tokenizer, found, text, group, number, encoder, cut_off=False)
            group = []
    return _numbered(found)


def marks_ends(tokenizer: Any, ids: Sequence[int]) -> bool:
    """Return whether these tokens mark the ends of words, as CLIP's do, and drop the blanks between them."""
    return any(str(token).endswith("</w>") for token in tokenizer.convert_ids_to_tokens(list(ids)))


def of_ids(
    tokenizer: Any, ids: Sequence[int], number: int, encoder: str, prompt: str | None = None
) -> list[Word] | None:
    """Words of a text of which only the token ids are known, by what each token adds when they are put together again.

    Parameters
    ----------
    prompt : str, optional
        Its words alone, where it last stands in the text, in whatever case; spans count in it. None: of all the text.

    Returns
    -------
    list of Word, or None where the prompt does not stand in the text
    """
    special = set(tokenizer.all_special_ids)
    text, offsets = "", []
    for position, token in enumerate(ids):
        if token in special:
            offsets.append((len(text), len(text)))
            continue
        whole = tokenizer.decode(
            [one for one in ids[: position + 1] if one not in special], clean_up_tokenization_spaces=False
        )
        offsets.append((len(text), len(whole)))
        text = whole
    begin, lead, shown = 0, 0, text
    if prompt is not None:
        shown = prompt.strip()
        begin, lead = text.lower().rfind(shown.lower()), len(prompt) - len(prompt.lstrip())
    if begin < 0:
        return None
    found = []
    for start, stop in split_pieces(shown):
        positions = token_positions(offsets, (begin + start, begin + stop))
        word, span = shown[start:stop], (lead + start, lead + stop)
        found.append(Word(word, lower(word), 0, span, positions, number, encoder))
    return _numbered(found)


def _with_group(
    tokenizer: Any, found: list[Word], text: str, group: list, number: int, encoder: str, cut_off: bool
) -> tuple[list[Word], str]:
    piece = tokenizer.decode([int(token) for _, token in group]).strip()
    positions = tuple(position for position, _ in group)
    follows = found and found[-1].positions[-1] == positions[0] - 1
    if follows and piece.isnumeric() and found[-1].text.isnumeric():  # CLIP reads digits one by one
        last = found.pop()
        positions, piece = last.positions + positions, last.text + piece
        text = text[: last.span[0]]
    elif text:
        text += " "
    for begin, stop in split_pieces(piece):
        span = (len(text) + begin, len(text) + stop)
        word = piece[begin:stop]
        found.append(Word(word, lower(word), 0, span, positions, number, encoder, cut_off))
    return found, text + piece


def find(words: Iterable[Word], wanted: str, occurrence: int | None = None) -> tuple[int, ...]:
    """Token positions of a word or phrase in one prompt, as one encoder reads it.

    Parameters
    ----------
    words : iterable of Word
        Of one prompt and encoder, in order.
    wanted : str
        Case and punctuation are ignored.
    occurrence : int, optional
        Which of several, from 0; all of them, by default.

    Raises
    ------
    HookError
        If it does not occur, not so often, or beyond the tokenizer's limit.
    """
    words = list(words)
    parts = [lower(wanted[a:b]) for a, b in split_pieces(wanted)]
    if not parts:
        raise HookError(
            f"word: expected letters or digits, but got {wanted!r}: give a token position instead"
        )
    have = [word.lower for word in words]
    starts = [i for i in range(len(have)) if have[i : i + len(parts)] == parts]
    if not starts:
        close = difflib.get_close_matches(lower(wanted), have, 1)
        nearest = f": did you mean {close[0]}?" if close else ""
        there = ", ".join(have) or "none"
        raise HookError(f"word: {wanted!r} is no word of this prompt, which has {there}{nearest}")
    if occurrence is not None:
        if not 0 <= occurrence < len(starts):
            raise HookError(
                f"occurrence: expected a number below the {len(starts)} of {wanted!r}, but got {occurrence}"
            )
        starts = [starts[occurrence]]
    positions: set[int] = set()
    for start in starts:
        phrase = words[start : start + len(parts)]
        if any(word.cut_off for word in phrase):
            if occurrence is None and len(starts) > 1:
                continue
            raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
        positions |= set(range(phrase[0].positions[0], phrase[-1].positions[-1] + 1))
    if not positions:
        raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
    return tuple(sorted(positions))


def expanded(pipe: Any, tokenizer: Any, prompt: str) -> str:
    """The prompt as the pipeline tokenizes it: with the placeholders of textual inversion spelled out."""
    convert = getattr(pipe, "maybe_convert_prompt", None)
    return prompt if convert is None else convert(prompt, tokenizer)


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
