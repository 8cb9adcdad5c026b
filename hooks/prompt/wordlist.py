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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, TOKENIZERS
from hooks.errors import HookError
from hooks.prompt.given import prompt_tokenizer, with_vectors
from hooks.prompt.spans import (
    Span,
    encode,
    groups_around,
    split_pieces,
    split_words,
    token_positions,
)


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
    result = []
    for encoder in TOKENIZERS:
        if (tokenizer := tokenizer_of(pipe, encoder)) is not None:
            config = getattr(getattr(pipe, TEXT_ENCODERS[encoder], None), "config", None)
            longest = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
            limit = min(tokenizer.model_max_length, longest)
            for number, prompt in enumerate(prompts):
                ids = tokenizer(prompt, truncation=True, max_length=limit)["input_ids"]
                result += words_of_text(tokenizer, ids, prompt, number, encoder) or []
    return result


def position_groups(
    tokenizer: Any, prompt: str, word: str, occurrence: int = 0
) -> dict[str, tuple[int, ...]]:
    """Return the token positions of a prompt by their place around one of its words.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of transformers, which pads to its `model_max_length`.
    prompt : str
    word : str
        A word between white space, without punctuation at its edges; case counts.
    occurrence : int
        Which of several, from 0.

    Returns
    -------
    dict of str to tuple of int
        "start" (of text), "before" the word, "word", "after" it, "end" (of text), "padding". Together all positions,
        each once.

    Raises
    ------
    HookError
        If the word does not occur so often, or the prompt is longer than the tokenizer takes.
    """
    spans = [span for text, span in split_words(prompt) if text == word]
    if not 0 <= occurrence < len(spans):
        raise HookError(
            f"positions: expected {word!r} at least {occurrence + 1} times in {prompt!r}, but it is there "
            f"{len(spans)} times"
        )
    ((ids, offsets),) = encode(with_vectors(tokenizer), [prompt], "positions")
    length = tokenizer.model_max_length
    if len(ids) > length:
        raise HookError(f"positions: expected at most {length} tokens, but {prompt!r} has {len(ids)}")
    return groups_around(token_positions(offsets, spans[occurrence]), len(ids), length)


def tokenizer_of(pipe: Any, encoder: str, system: str | None = None) -> Any:
    """The tokenizer of a text encoder as the pipeline uses it, or None if the pipeline has others alone."""
    encoders = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    tokenizer = getattr(pipe, TOKENIZERS[encoder], None)
    if tokenizer is None or (encoders and encoder not in encoders):
        return None
    return prompt_tokenizer(
        architecture_of(pipe).layouts[-1], [*TOKENIZERS].index(encoder), tokenizer, system
    )


def words_of_text(
    tokenizer: Any, ids: Sequence[int], prompt: str, number: int, encoder: str
) -> list[Word] | None:
    """Words of a prompt by the characters of its tokens; None if `ids`, which the encoder was given, are of another."""
    ((uncut, offsets),) = encode(tokenizer, [prompt], encoder)
    same = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], zip(uncut, ids))])
    # by the encoder's limit, behind which an end may stand
    cut = list(ids[same:]) if same < len(uncut) else []
    if len(cut) > 1 or {*cut} - {*tokenizer.all_special_ids}:
        return None
    return _listed(prompt, offsets, same, number, encoder)


def words_of_ids(tokenizer: Any, ids: Sequence[int], number: int, encoder: str) -> list[Word]:
    """Words of a text of which only the token ids are known, by what each token adds to it."""
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    spelled = tokenizer.template.vectors if hasattr(tokenizer, "template") else {}
    vectors = {one for token in spelled.values() for one in token.split()[1:]}
    names = tokenizer.convert_ids_to_tokens(list(ids))
    # CLIP's mark the ends of words, and drop blanks between them
    clip = any(name.endswith("</w>") for name in names)
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
    result, counts = [], Counter()
    for begin, stop in split_pieces(text):
        tokens = token_positions(offsets, (begin, stop))
        positions = tuple(place for place in tokens if place < kept)
        word, key = text[begin:stop], lower(text[begin:stop])
        cut_off = len(positions) < len(tokens)
        result.append(Word(word, key, counts[key], (begin, stop), positions, number, encoder, cut_off))
        counts[key] += 1
    return result


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
        listed = ", ".join(have) or "none"
        raise HookError(f"word: {wanted!r} is no word of this prompt, which has {listed}{nearest}")
    if occurrence is not None:
        if not 0 <= occurrence < len(phrases):
            raise HookError(
                f"occurrence: expected a number below the {len(phrases)} of {wanted!r}, but got {occurrence}"
            )
        phrases = [phrases[occurrence]]
    complete = [phrase for phrase in phrases if not any(word.cut_off for word in phrase)]
    if not complete:
        raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
    ranges = [range(phrase[0].positions[0], phrase[-1].positions[-1] + 1) for phrase in complete]
    return tuple(sorted({position for one in ranges for position in one}))


class PromptWords:
    """Words of a batch, by their texts where these are given, else by the encoders' token ids.

    `runs` are those of the text encoders that gave the denoiser its text (`hooks.prompt.text.select_runs`).
    """

    def __init__(
        self,
        pipe: Any,
        prompts: list[str] | None,
        system_prompt: str | None,
        runs: Mapping[str, tuple[Any, Any]],
        rows: int,
    ) -> None:
        self._pipe, self._prompts, self._system = pipe, prompts, system_prompt
        self._rows = rows
        read = {name: run for name, (_, run) in runs.items() if run is not None}
        self._count = len(prompts or ()) or max((len(run.ids) for run in read.values()), default=1)
        self._ids = {name: self._by_row(run.ids) for name, run in read.items()}
        self._places = {
            name: self._by_row(run.places) for name, run in read.items() if run.places is not None
        }
        if prompts is not None and (not prompts or rows % len(prompts)):
            raise HookError(
                f"prompts: expected as many as the batch has ({rows} rows), but got {len(prompts)}"
            )

    def _by_row(self, values: Any) -> list[list[int]]:
        """Ids or places by row of the batch, of a run that has them once for each prompt."""
        return values.repeat_interleave(self._rows // len(values), 0).tolist()

    def words(self, row: int | None = None) -> list[Word]:
        """All words by encoder, or those of one row's prompt; refused where the texts are not known."""
        prompt = None if row is None else self._prompt_of(row)
        return [word for word in self._words if row is None or word.prompt == prompt]

    def find(
        self, word: str | int | Sequence[int] | Word, row: int, occurrence: int | None, placed: bool
    ) -> tuple[str, tuple[int, ...]]:
        """What a word is called, and its token positions in one row; if `placed`, in the denoiser's text."""
        if isinstance(word, Word):
            name, by_encoder = word.text, {word.encoder: word.positions}
            if word.cut_off and not word.positions:
                raise HookError(f"word: {name!r} is cut off, its tokens are beyond the tokenizer's limit")
        elif isinstance(word, str):
            name, by_encoder = word, self._by_encoder(word, row, occurrence)
        else:
            positions = tuple(int(p) for p in (word if hasattr(word, "__iter__") else (word,)))
            return " ".join(f"#{position}" for position in positions), positions
        positions = self.placed(by_encoder, row) if placed else next(iter(by_encoder.values()))
        if not positions:
            raise HookError(
                f"word: {name!r} stands nowhere in the text that the denoiser is given in row {row}"
            )
        return name, positions

    def _by_encoder(self, word: str, row: int, occurrence: int | None) -> dict[str, tuple[int, ...]]:
        """Token positions of a word in one row by the encoders that read it: SDXL's second may read another prompt."""
        words, result, failed = self.words(row), {}, None
        for encoder in dict.fromkeys(one.encoder for one in words):
            try:
                own = [one for one in words if one.encoder == encoder]
                result[encoder] = find(own, word, occurrence)
            except HookError as error:
                failed = failed or error
        if not result:
            raise failed or HookError(f"word: {word!r} is no word of row {row}, whose prompt has none")
        first: dict[Any, str] = {}  # encoder of those whose states lie side by side
        for encoder, positions in result.items():
            places = self._places.get(encoder)
            other = first.setdefault(places and tuple(place >= 0 for place in places[row]), encoder)
            if result[other] != positions:
                raise HookError(
                    f"word: {word!r} is at tokens {list(result[other])} of {other} but {list(positions)} of {encoder}, "
                    "whose states lie side by side: load a textual inversion into both encoders, or give a Word of "
                    "Probe.words()"
                )
        return result

    def columns(self, row: int) -> tuple[int, ...]:
        """Positions of the denoiser's text at which the words of one row's prompt stand, and what is between them.

        A word stands there once for each encoder that gives the denoiser its states.
        """
        if not self._places:
            raise HookError(
                "word_maps: the states that the denoiser is given are those of no text encoder in this block (were "
                "prompt_embeds made before?), so that no word has a place: call pipe.encode_prompt inside the block, "
                "or leave word maps off"
            )
        tokens: dict[str, list[int]] = {}
        for word in self.words(row):
            tokens.setdefault(word.encoder, []).extend(word.positions)
        ranges = {name: range(min(own), max(own) + 1) for name, own in tokens.items() if own}
        found = self.placed(ranges, row)
        if not found and self._prompts is not None and tokens:
            raise HookError(
                f"prompts[{self._prompt_of(row)}]: expected a text that was drawn, but its words stand nowhere in what "
                "the denoiser is given: pass the prompts in the order of the call"
            )
        return found

    def placed(self, positions: Mapping[str, Sequence[int]], row: int) -> tuple[int, ...]:
        """Positions of the denoiser's text at which these tokens stand, given by text encoder."""
        self._prompt_of(row)  # refuses a row that is not there
        found: set[int] = set()
        for encoder in positions.keys() & self._places.keys():
            tokens, places = {*positions[encoder]}, self._places[encoder][row]
            found |= {position for position, token in enumerate(places) if token in tokens}
        return tuple(sorted(found))

    def _prompt_of(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise HookError(f"row: expected one of the batch's {self._rows} rows, but got {row}")
        return row // (self._rows // self._count)

    @cached_property
    def _words(self) -> list[Word]:
        if not self._ids:
            raise HookError(
                "words: the texts are not known, since no text encoder in this block gave the denoiser its "
                "encoder_hidden_states (prompt_embeds were passed in): call pipe.encode_prompt inside it, or give "
                "token positions, or a Word of hooks.words(pipe, prompts), in place of words"
            )
        return [word for name in TOKENIZERS if name in self._ids for word in self._read(name)]

    def _read(self, name: str) -> list[Word]:
        """The words that one encoder read, of the first row of each prompt."""
        tokenizer = tokenizer_of(self._pipe, name, self._system)
        rows, images = self._ids[name], self._rows // self._count
        if tokenizer is None:
            return []
        if self._prompts is not None:
            read = [
                words_of_text(tokenizer, ids, self._prompts[row // images], row // images, name)
                for row, ids in enumerate(rows)
            ]
            if None not in read:
                return [word for words in read[::images] for word in words or ()]
            if name == "text" or "text" not in self._ids:  # SDXL's `prompt_2` may be another
                raise HookError(
                    f"prompts[{read.index(None) // images}]: expected the texts that were drawn, but the text encoder "
                    "was given other tokens: pass the prompts in the order of the call"
                )
        return [
            word
            for number, ids in enumerate(rows[::images])
            for word in words_of_ids(tokenizer, ids, number, name)
        ]
