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
from hooks.prompt.given import PromptTokenizer, prompt_tokenizer, spell_out_placeholders
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
    """A word of a prompt, a run of letters or of digits, with its token positions in one text encoder.

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
    """Return a text in lower case and Unicode form NFC, in which words are compared."""
    return unicodedata.normalize("NFC", text).lower()


def words(pipe: Any, prompts: str | Sequence[str]) -> list[Word]:
    """Return the words of prompts, with token positions, as each tokenizer of a pipeline reads them.

    Parameters
    ----------
    pipe : DiffusionPipeline
        With one tokenizer or, as SDXL, with two.
    prompts : str or sequence of str

    Returns
    -------
    list of Word
        By encoder, prompt and position. Words beyond the tokenizer's limit are included, with `cut_off`.

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
    """Return the token positions of a prompt by their place around one occurrence of a word.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of transformers, which pads to its `model_max_length`.
    prompt : str
    word : str
        A word between white space, without punctuation at its edges; case counts.
    occurrence : int
        Number of the occurrence, from 0.

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
    ((ids, offsets),) = encode(spell_out_placeholders(tokenizer), [prompt], "positions")
    length = tokenizer.model_max_length
    if len(ids) > length:
        raise HookError(f"positions: expected at most {length} tokens, but {prompt!r} has {len(ids)}")
    return groups_around(token_positions(offsets, spans[occurrence]), len(ids), length)


def tokenizer_of(pipe: Any, encoder: str, system_prompt: str | None = None) -> Any:
    """Return the tokenizer of a text encoder ("text_2"), with the pipeline's template; None if there is none."""
    encoders = [name for name, part in TEXT_ENCODERS.items() if getattr(pipe, part, None) is not None]
    tokenizer = getattr(pipe, TOKENIZERS[encoder], None)
    if tokenizer is None or (encoders and encoder not in encoders):
        return None
    layout = architecture_of(pipe).layouts[-1]
    return prompt_tokenizer(layout, [*TOKENIZERS].index(encoder), tokenizer, system_prompt)


def words_of_text(
    tokenizer: Any, ids: Sequence[int], prompt: str, prompt_number: int, encoder: str
) -> list[Word] | None:
    """Return the `Word` list of a prompt; None if `ids`, which the text encoder got, are the tokens of another text."""
    ((uncut, offsets),) = encode(tokenizer, [prompt], encoder)
    same = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], zip(uncut, ids))])
    # by the encoder's limit, behind which an end may stand
    cut = list(ids[same:]) if same < len(uncut) else []
    if len(cut) > 1 or {*cut} - {*tokenizer.all_special_ids}:
        return None
    return _build_words(prompt, offsets, same, prompt_number, encoder)


def words_of_ids(tokenizer: Any, ids: Sequence[int], prompt_number: int, encoder: str) -> list[Word]:
    """Return the `Word` list of a prompt of which only the token ids are known, by decoding them."""
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
        full = before + tokenizer.decode(decoded, clean_up_tokenization_spaces=False)
        offsets.append((len(text.rstrip("\ufffd")), len(full)))  # of a character begun by the token before
        text = full
        if token in added:
            before, decoded = f"{text} ", []
        last = "</w>" if token in added else name
    if clip and last and not last.endswith("</w>"):  # the text is cut within its last word
        offsets.append(next(span for span in reversed(offsets) if span[0] < span[1]))
    return _build_words(text, offsets, len(ids), prompt_number, encoder)


def _build_words(
    text: str, offsets: Sequence[Span], n_read: int, prompt_number: int, encoder: str
) -> list[Word]:
    """Return the `Word` list of a text by its tokens' character spans; the encoder reads the first `n_read` tokens."""
    result, counts = [], Counter()
    for begin, stop in split_pieces(text):
        tokens = token_positions(offsets, (begin, stop))
        positions = tuple(position for position in tokens if position < n_read)
        word, key = text[begin:stop], lower(text[begin:stop])
        cut_off = len(positions) < len(tokens)
        result.append(Word(word, key, counts[key], (begin, stop), positions, prompt_number, encoder, cut_off))
        counts[key] += 1
    return result


def find(words: Iterable[Word], wanted: str, occurrence: int | None = None) -> tuple[int, ...]:
    """Return the token positions of a word or phrase among a prompt's `words`, of all occurrences by default."""
    words = list(words)
    parts = [lower(wanted[a:b]) for a, b in split_pieces(wanted)]
    if not parts:
        raise HookError(
            f"word: expected letters or digits, but got {wanted!r}: give a token position instead"
        )
    forms = [word.lower for word in words]
    pieces = [[text[a:b] for a, b in split_pieces(text)] for text in forms]  # a run keeps "non-binary" whole
    phrases = [
        words[first:stop]
        for first in range(len(words))
        for stop in range(first + 1, min(len(words), first + 2 * len(parts)) + 1)
        if pieces[first] and pieces[stop - 1] and [*itertools.chain(*pieces[first:stop])] == parts
    ]
    if not phrases:
        close = difflib.get_close_matches(lower(wanted), forms, 1)
        nearest = f": did you mean {close[0]}?" if close else ""
        listed = ", ".join(forms) or "none"
        raise HookError(f"word: {wanted!r} is no word of this prompt, which has {listed}{nearest}")
    if occurrence is not None:
        if not 0 <= occurrence < len(phrases):
            raise HookError(
                f"occurrence: expected a number below the {len(phrases)} of {wanted!r}, but got {occurrence}"
            )
        phrases = [phrases[occurrence]]
    uncut = [phrase for phrase in phrases if not any(word.cut_off for word in phrase)]
    if not uncut:
        raise HookError(f"word: {wanted!r} is cut off, its tokens are beyond the tokenizer's limit")
    ranges = [range(phrase[0].positions[0], phrase[-1].positions[-1] + 1) for phrase in uncut]
    return tuple(sorted({position for positions in ranges for position in positions}))


class PromptWords:
    """Words of a batch's prompts, from their texts if given, else from the encoders' token ids.

    `runs` are those of the text encoders that gave the denoiser its text (`hooks.prompt.text.select_runs`). If none did
    and the prompts are given, their tokens are taken to stand where the pipeline's tokenizers put them.
    """

    def __init__(
        self,
        pipe: Any,
        prompts: list[str] | None,
        system_prompt: str | None,
        runs: Mapping[str, tuple[Any, Any]],
        rows: int,
        length: int,
    ) -> None:
        """Take the texts from `prompts`, or from the token ids in (reader, run) by encoder.

        The batch has `rows`, and the denoiser's text `length` tokens.
        """
        self._pipe, self._prompts, self._system = pipe, prompts, system_prompt
        self._rows = rows
        read = {name: run for name, (_, run) in runs.items() if run is not None}
        self._count = len(prompts or ()) or max((len(run.ids) for run in read.values()), default=1)
        self._ids = {
            name: run.ids.repeat_interleave(rows // len(run.ids), 0).tolist() for name, run in read.items()
        }
        self._places = {name: run.places.tolist() for name, run in read.items() if run.places is not None}
        if prompts is not None and (not prompts or rows % len(prompts)):
            raise HookError(
                f"prompts: expected as many as the batch has ({rows} rows), but got {len(prompts)}"
            )
        self._misfit: HookError | None = None
        if prompts is not None and not self._places:
            try:
                self._ids, self._places = self._tokenize(length)
            except HookError as error:
                self._misfit = error

    def _tokenize(self, length: int) -> tuple[dict[str, list[list[int]]], dict[str, list[list[int]]]]:
        """Return token ids and places of each row by encoder, for states of `length` tokens made outside the block.

        HookError if the states are fewer than the prompts' tokens or, of a U-Net, more than its tokenizer gives.
        """
        architecture, ids, places, begin = architecture_of(self._pipe), {}, {}, 0
        towers = architecture.joined_encoders() if architecture.transformer else [*TOKENIZERS]
        for name in towers:
            if (tokenizer := tokenizer_of(self._pipe, name, self._system)) is None:
                continue
            uncounted = tokenizer.template.uncounted if isinstance(tokenizer, PromptTokenizer) else 0
            lengths = architecture.layouts[0].lengths
            room = lengths[[*TOKENIZERS].index(name)] if lengths else tokenizer.model_max_length
            stop = length if not lengths or name == towers[-1] else begin + room
            options = {"truncation": True, "max_length": room + uncounted}
            texts = [list(tokenizer(text, **options)["input_ids"]) for text in self._prompts]
            longest = max(map(len, texts)) - uncounted
            if stop > length or stop - begin < longest or (not lengths and length != room):
                raise HookError(
                    f"prompts: expected prompt_embeds of {f'at least {begin + longest}' if lengths else room} tokens, "
                    f"as the tokenizer of {name} gives, but got {length}: call pipe.encode_prompt inside the block"
                )
            inside = range(uncounted, uncounted + stop - begin)
            ids[name] = [text for text in texts for _ in range(self._rows // len(texts))]
            places[name] = [[-1] * begin + [*inside] + [-1] * (length - stop)] * self._rows
            begin = stop if lengths else 0
        return ids, places

    def words(self, row: int | None = None) -> list[Word]:
        """Return the words of a row's prompt (None: of all), sorted by encoder; HookError if texts are not known."""
        prompt = None if row is None else self._prompt_number(row)
        return [word for word in self._words if row is None or word.prompt == prompt]

    def locate(
        self, word: str | int | Sequence[int] | Word, row: int, occurrence: int | None, denoiser: bool
    ) -> tuple[str, tuple[int, ...]]:
        """Return a word's name and token positions in a row, of the denoiser's text or else its encoder's text."""
        if isinstance(word, Word):
            name, by_encoder = word.text, {word.encoder: word.positions}
            if word.cut_off and not word.positions:
                raise HookError(f"word: {name!r} is cut off, its tokens are beyond the tokenizer's limit")
        elif isinstance(word, str):
            name, by_encoder = word, self._word_positions(word, row, occurrence)
        else:
            positions = tuple(int(p) for p in (word if hasattr(word, "__iter__") else (word,)))
            return " ".join(f"#{position}" for position in positions), positions
        positions = self.denoiser_positions(by_encoder, row) if denoiser else next(iter(by_encoder.values()))
        if not positions:
            raise HookError(
                f"word: {name!r} stands nowhere in the text that the denoiser is given in row {row}"
            )
        return name, positions

    def _word_positions(self, word: str, row: int, occurrence: int | None) -> dict[str, tuple[int, ...]]:
        """Return a word's token positions in a row's prompt, by text encoder; HookError if no encoder reads it."""
        words, result, failed = self.words(row), {}, None
        for encoder in dict.fromkeys(entry.encoder for entry in words):
            try:
                encoder_words = [entry for entry in words if entry.encoder == encoder]
                result[encoder] = find(encoder_words, word, occurrence)
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

    def positions_within(self, row: int, tokens: int) -> tuple[int, ...]:
        """Return a row's positions between start and end of a U-Net's text; all of `tokens` if they are not known."""
        ends = []
        for name in self._places:
            ids, eos = (
                self._ids[name][row],
                getattr(getattr(self._pipe, TOKENIZERS[name], None), "eos_token_id", None),
            )
            ends.append(ids.index(eos) if eos in ids else len(ids))
        return tuple(range(1, min(max(ends), tokens)) if ends else range(tokens))

    def denoiser_columns(self, row: int) -> tuple[int, ...]:
        """Return the positions in the denoiser's text of a row's prompt: its words, and the signs beside them.

        For each encoder that gives the denoiser states; HookError if none does.
        """
        if not self._places:
            raise self._misfit or HookError(
                "word_maps: the states that the denoiser is given are those of no text encoder in this block (were "
                "prompt_embeds made before?), so that no word has a place: pass the texts as `prompts` to Probe, call "
                "pipe.encode_prompt inside the block, or leave word maps off"
            )
        tokens: dict[str, list[int]] = {}
        for word in self.words(row):
            tokens.setdefault(word.encoder, []).extend(word.positions)
        ranges = {name: self._text_range(name, row, words) for name, words in tokens.items() if words}
        result = self.denoiser_positions(ranges, row)
        if not result and self._prompts is not None and tokens:
            raise HookError(
                f"prompts[{self._prompt_number(row)}]: expected a text that was drawn, but its words stand nowhere in "
                "what the denoiser is given: pass the prompts in the order of the call"
            )
        return result

    def _text_range(self, encoder: str, row: int, words: Sequence[int]) -> range:
        """Return the token positions of a row's prompt in a text encoder, given those of its words."""
        tokenizer, ids = tokenizer_of(self._pipe, encoder, self._system), self._ids[encoder][row]
        special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id} | {tokenizer.eos_token_id}
        first, stop = min(words), max(words) + 1
        if not (isinstance(tokenizer, PromptTokenizer) and tokenizer.template.before):  # which is no prompt
            first -= len([*itertools.takewhile(lambda token: token not in special, ids[:first][::-1])])
        stop += len([*itertools.takewhile(lambda token: token not in special, ids[stop:])])
        return range(first, stop)

    def denoiser_positions(self, positions: Mapping[str, Sequence[int]], row: int) -> tuple[int, ...]:
        """Return where tokens of a row, given as positions by encoder, stand in the denoiser's text (sorted)."""
        self._prompt_number(row)  # refuses a row that is not there
        result: set[int] = set()
        for encoder in positions.keys() & self._places.keys():
            tokens, places = {*positions[encoder]}, self._places[encoder][row]
            result |= {position for position, token in enumerate(places) if token in tokens}
        return tuple(sorted(result))

    def _prompt_number(self, row: int) -> int:
        """Return the number of the prompt that a row of the batch is of; HookError if there is no such row."""
        if not 0 <= row < self._rows:
            raise HookError(f"row: expected one of the batch's {self._rows} rows, but got {row}")
        return row // (self._rows // self._count)

    @cached_property
    def _words(self) -> list[Word]:
        """Words of all prompts, sorted by encoder; HookError if the texts are not known."""
        if not self._ids:
            raise self._misfit or HookError(
                "words: the texts are not known, since no text encoder in this block gave the denoiser its "
                "encoder_hidden_states (prompt_embeds were passed in): pass the texts as `prompts` to Probe, or give "
                "token positions, or a Word of hooks.words(pipe, prompts), in place of words"
            )
        return [word for name in TOKENIZERS if name in self._ids for word in self._encoder_words(name)]

    def _encoder_words(self, name: str) -> list[Word]:
        """Return the words of all prompts as the text encoder `name` read them; HookError if it read other texts."""
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
