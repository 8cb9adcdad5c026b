"""The words of the prompts of one block, from the texts given or from the token ids that were seen."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from hooks.architectures.text_encoders import TEXT_ENCODERS
from hooks.errors import HookError
from hooks.prompt import wordlist
from hooks.prompt.text import TextReader
from hooks.prompt.wordlist import Word

# as compel and others write weights: (word)1.5, (word:1.5), word++
_WEIGHTED = re.compile(r"\)[\d.+-]|:\s*[\d.]+\)|\w\+|\w--")


class PromptWords:
    """Words of a batch, by their texts where these are given, else by the encoders' token ids."""

    def __init__(self, pipe: Any, prompts: list[str] | None) -> None:
        self._prompts = prompts
        self._pipe = pipe
        self._ids: dict[str, Any] = {}
        self._places: dict[str, Any] = {}
        self._found: dict[str, list[Word]] | None = None
        self._rows, self._count = 0, 1

    def begin(self, runs: Mapping[str, tuple[Any, Any]], rows: int, text: Tensor | None = None) -> None:
        """Take over the ids of the text encoders' runs (`hooks.prompt.text.select_runs`).

        `text` (rows, positions, width) is what a U-Net is given; prompts are compared with it where none of the runs
        gave it.
        """
        self._found = None
        self._rows = rows
        self._last, self._length = (None, 0) if text is None else (text[:, -1].clone(), text.shape[1])
        read = {name: run for name, (_, run) in runs.items() if run is not None}
        self._count = len(self._prompts or ()) or max((len(run.ids) for run in read.values()), default=1)
        self._ids = {name: self._by_row(run.ids) for name, run in read.items()}
        self._places = {
            name: self._by_row(run.places) for name, run in read.items() if run.places is not None
        }
        if self._prompts is not None and (not self._prompts or rows % len(self._prompts)):
            raise HookError(
                f"prompts: expected as many as the batch has ({rows} rows), but got {len(self._prompts)}"
            )

    def _by_row(self, values: Any) -> list[list[int]]:
        """Ids or places by row of the batch, of a run that has them once for each prompt."""
        return values.repeat_interleave(self._rows // len(values), 0).tolist()

    def words(self, row: int | None = None) -> list[Word]:
        """All words by encoder, or those of one row's prompt; refused where the texts are not known."""
        by_encoder = self._by_encoder()
        found = [word for words in by_encoder.values() for word in words]
        if row is None:
            return found
        prompt = self._prompt_of(row)
        return [word for word in found if word.prompt == prompt]

    def positions(
        self, word: str | int | Sequence[int] | Word, row: int, occurrence: int | None
    ) -> tuple[str, tuple[int, ...]]:
        """Return what a word is called, and its token positions in one row."""
        if isinstance(word, Word):
            if word.cut_off and not word.positions:
                raise HookError(
                    f"word: {word.text!r} is cut off, its tokens are beyond the tokenizer's limit"
                )
            return word.text, word.positions
        if not isinstance(word, str):
            positions = tuple(int(p) for p in (word if hasattr(word, "__iter__") else (word,)))
            return " ".join(f"#{position}" for position in positions), positions
        of_row: dict[str, list[Word]] = {}
        for known in self.words(row):
            of_row.setdefault(known.encoder, []).append(known)
        found, failed = {}, None
        for encoder, words in of_row.items():  # SDXL may give its second encoder another prompt
            try:
                found[encoder] = wordlist.find(words, word, occurrence)
            except HookError as error:
                failed = failed or error
        if not found:
            raise failed or HookError(f"word: {word!r} is no word of row {row}, whose prompt has none")
        self._require_one_place(word, row, found)
        return word, next(iter(found.values()))

    def _require_one_place(self, word: str, row: int, found: Mapping[str, tuple[int, ...]]) -> None:
        """Raise where encoders whose states lie side by side have a word at different positions."""
        first: dict[Any, str] = {}
        for encoder, positions in found.items():
            places = self._places.get(encoder)
            other = first.setdefault(places and tuple(place >= 0 for place in places[row]), encoder)
            if found[other] != positions:
                raise HookError(
                    f"word: {word!r} is at tokens {list(found[other])} of {other} but {list(positions)} of {encoder}, "
                    "whose states lie side by side: load a textual inversion into both encoders, or give a Word of "
                    "Probe.words()"
                )

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
        found: set[int] = set()
        for encoder, words in self._by_place(self.words(row)).items():
            tokens = [position for word in words for position in word.positions]
            if tokens:
                found |= set(self._at(encoder, row, range(min(tokens), max(tokens) + 1)))
        if not found and self._prompts is not None and self.words(row):
            raise HookError(
                f"prompts[{self._prompt_of(row)}]: expected a text that was drawn, but its words stand nowhere in what "
                "the denoiser is given: pass the prompts in the order of the call"
            )
        return tuple(sorted(found))

    def placed(
        self,
        word: str | int | Sequence[int] | Word,
        row: int,
        positions: Sequence[int],
        occurrence: int | None,
    ) -> tuple[int, ...]:
        """Positions of the denoiser's text at which a word stands, by all encoders."""
        if isinstance(word, Word):
            return tuple(self._at(word.encoder, row, word.positions))
        if not isinstance(word, str):
            return tuple(positions)
        found: set[int] = set()
        for encoder, words in self._by_place(self.words(row)).items():
            with contextlib.suppress(HookError):  # an encoder may be given another prompt, or less of it
                found |= set(self._at(encoder, row, wordlist.find(words, word, occurrence)))
        if not found:
            raise HookError(
                f"word: {word!r} stands nowhere in the text that the denoiser is given in row {row}"
            )
        return tuple(sorted(found))

    def placed_tokens(self, positions: Mapping[str, Sequence[int]], row: int) -> tuple[int, ...]:
        """Positions of the denoiser's text at which these tokens stand, given by text encoder."""
        found: set[int] = set()
        for encoder, tokens in positions.items():
            if encoder in self._places:
                found |= set(self._at(encoder, row, tokens))
        return tuple(sorted(found))

    def _by_place(self, words: Sequence[Word]) -> dict[str, list[Word]]:
        """Words of the encoders whose tokens stand in the denoiser's text."""
        return {name: [word for word in words if word.encoder == name] for name in self._places}

    def _at(self, encoder: str, row: int, tokens: Sequence[int]) -> list[int]:
        self._prompt_of(row)  # refuses a row that is not there
        places = self._places[encoder][row]
        return [position for position, token in enumerate(places) if token in set(tokens)]

    def _prompt_of(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise HookError(f"row: expected one of the batch's {self._rows} rows, but got {row}")
        return row // (self._rows // self._count)

    def _by_encoder(self) -> dict[str, list[Word]]:
        if self._found is None:
            self._found = self._read()
        return self._found

    def _read(self) -> dict[str, list[Word]]:
        encoders = [
            name
            for name in wordlist.TOKENIZERS
            if wordlist.tokenizer_of(self._pipe, name) is not None
            and (self._prompts is not None or name in self._ids)
        ]
        if not encoders:
            raise HookError(
                "words: the texts are not known, since no text encoder gave the denoiser its "
                "encoder_hidden_states (prompt_embeds were passed in): pass prompts=[...] to Probe, or token "
                "positions in place of words"
            )
        found = {}
        for name in encoders:
            tokenizer = wordlist.tokenizer_of(self._pipe, name)
            found[name] = self._of_encoder(name, tokenizer, self._ids.get(name))
        return found

    def _of_encoder(self, name: str, tokenizer: Any, ids: list[list[int]] | None) -> list[Word]:
        words: list[Word] = []
        if self._prompts is not None:
            wrong = self._first_other(name, tokenizer, ids)
            if wrong is None:
                for number, prompt in enumerate(self._prompts):
                    words += wordlist.of_text(self._pipe, tokenizer, prompt, number, name)
                return words
            if ids is not None and not any(
                wordlist.marks_ends(tokenizer, row) for row in ids
            ):  # lower case, or a template around the prompt
                return self._within(name, tokenizer, ids)
            if name == "text" or "text" not in self._ids:  # SDXL's `prompt_2` may be another
                raise HookError(
                    f"prompts[{wrong}]: expected the texts that were drawn, but the text encoder was given "
                    "other tokens: pass the prompts in the order of the call"
                )
        for number, row in enumerate(ids[:: self._rows // self._count]):
            words += wordlist.of_ids(tokenizer, row, number, name) or []
        return words

    def _within(self, name: str, tokenizer: Any, ids: list[list[int]]) -> list[Word]:
        """Words of the prompts as they stand in what the encoder was given."""
        words: list[Word] = []
        for row, seen in enumerate(ids):
            number = self._prompt_of(row)
            found = wordlist.of_ids(tokenizer, seen, number, name, self._prompts[number])
            if found is None:
                raise HookError(
                    f"prompts[{number}]: expected a text that was drawn, but the text encoder was given another: pass "
                    "the prompts in the order of the call"
                )
            words += found if row % (self._rows // self._count) == 0 else []
        return words

    def _first_other(self, name: str, tokenizer: Any, ids: list[list[int]] | None) -> int | None:
        """Number of the first prompt whose tokens are not those seen; None if all are."""
        if ids is None:
            return self._require_states_of_prompts(name, tokenizer)
        limit = wordlist.length_limit(self._pipe, tokenizer, name)
        own = [tokenizer(one, truncation=True, max_length=limit)["input_ids"] for one in self._prompts]
        for row, seen in enumerate(ids):
            number = self._prompt_of(row)
            if seen[: len(own[number])] != own[number]:
                return number
        return None

    def _require_states_of_prompts(self, name: str, tokenizer: Any) -> None:
        """Raise where states that were passed in are not of the prompts, as far as their last position tells."""
        if self._last is None:
            return
        limit = wordlist.length_limit(self._pipe, tokenizer, name)
        instead = "give token positions in place of words, or pass the pipeline prompts"
        if self._length != limit:
            raise HookError(
                f"prompts: expected prompt_embeds of {limit} positions, as {TEXT_ENCODERS[name]} gives them, but got "
                f"{self._length}: {instead}"
            )
        if getattr(self._pipe, TEXT_ENCODERS[name], None) is None:
            for number, prompt in enumerate(self._prompts):
                if _WEIGHTED.search(prompt):
                    raise HookError(
                        f"prompts[{number}]: expected a text without weights, but got {prompt!r:.80}: take them out"
                    )
            warnings.warn(
                "prompts: not checked: the pipeline has no text encoder to compare prompt_embeds with",
                stacklevel=2,
            )
            return
        ids = tokenizer(
            self._prompts, padding="max_length", max_length=limit, truncation=True, return_tensors="pt"
        )["input_ids"]
        reader = TextReader(self._pipe, name, TEXT_ENCODERS[name])
        for row, alike in enumerate(reader.gives_last(ids, self._last)):
            if not alike:
                number = self._prompt_of(row)
                raise HookError(
                    f"prompts[{number}]: expected the text that prompt_embeds are of, but {TEXT_ENCODERS[name]} makes "
                    f"others of it (another order, or weights?): {instead}"
                )
