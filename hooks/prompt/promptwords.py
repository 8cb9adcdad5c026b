"""The words of the prompts of one block, from the texts given or from the token ids that were seen."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from hooks.errors import HookError
from hooks.prompt import wordlist
from hooks.prompt.wordlist import Word


class PromptWords:
    """Words of a batch.

    Parameters
    ----------
    pipe : DiffusionPipeline
    prompts : list of str, optional
        Their texts.
    """

    def __init__(self, pipe: Any, prompts: list[str] | None) -> None:
        self._prompts = prompts
        self._pipe = pipe
        self._ids: dict[str, Any] = {}
        self._places: dict[str, Any] = {}
        self._found: dict[str, list[Word]] | None = None
        self._rows = 0

    def begin(self, runs: Mapping[str, tuple[Any, Any]], rows: int) -> None:
        """Take over the ids of the text encoders' runs (`hooks.prompt.text.select_runs`).

        Raises
        ------
        HookError
            If the rows are no multiple of the prompts given.
        """
        self._ids = {name: run.ids for name, (_, run) in runs.items() if run is not None}
        self._found = None
        self._places = {
            name: run.places.tolist()
            for name, (_, run) in runs.items()
            if run is not None and getattr(run, "places", None) is not None
        }
        self._rows = rows
        if self._prompts is not None and (not self._prompts or rows % len(self._prompts)):
            raise HookError(
                f"prompts: expected as many as the batch has ({rows} rows), but got {len(self._prompts)}"
            )

    def words(self, row: int | None = None) -> list[Word]:
        """All words by encoder, or those of one row's prompt.

        Raises
        ------
        HookError
            If the texts are not known, or are not those the encoder was given.
        """
        by_encoder = self._by_encoder()
        found = [word for words in by_encoder.values() for word in words]
        if row is None:
            return found
        prompt = self._prompt_of(row)
        return [word for word in found if word.prompt == prompt]

    def positions(
        self, word: str | int | Sequence[int] | Word, row: int, occurrence: int | None
    ) -> tuple[str, tuple[int, ...]]:
        """Return what a word is called, and its token positions in one row.

        Raises
        ------
        HookError
            If the word does not occur there.
        """
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
        failed = None
        for words in of_row.values():  # SDXL may give its second encoder another prompt
            try:
                return word, wordlist.find(words, word, occurrence)
            except HookError as error:
                failed = failed or error
        raise failed or HookError(f"word: {word!r} is no word of row {row}, whose prompt has none")

    def columns(self, row: int) -> tuple[int, ...]:
        """Positions of the denoiser's text at which the words of one row's prompt stand, and what is between them.

        A word stands there once for each encoder that gives the denoiser its states.

        Raises
        ------
        HookError
            The text of an encoder is not known.
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
        """Positions of the denoiser's text at which a word stands, by all encoders.

        Parameters
        ----------
        positions
            From `positions`.
        """
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
        places = self._places[encoder][self._prompt_of(row)]
        return [position for position, token in enumerate(places) if token in set(tokens)]

    def _prompt_of(self, row: int) -> int:
        if not 0 <= row < self._rows:
            raise HookError(f"row: expected one of the batch's {self._rows} rows, but got {row}")
        prompts = len(self._prompts) if self._prompts is not None else len(next(iter(self._ids.values())))
        return row // (self._rows // prompts)

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
            ids = self._ids[name].tolist() if name in self._ids else None
            found[name] = self._of_encoder(name, tokenizer, ids)
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
        for number, row in enumerate(ids):
            if wordlist.marks_ends(tokenizer, row):
                words += wordlist.of_tokens(tokenizer, row, number, name)
            else:
                words += wordlist.of_ids(tokenizer, row, number, name) or []
        return words

    def _within(self, name: str, tokenizer: Any, ids: list[list[int]]) -> list[Word]:
        """Words of the prompts as they stand in what the encoder was given."""
        words: list[Word] = []
        for number, (prompt, row) in enumerate(zip(self._prompts, ids)):
            found = wordlist.of_ids(tokenizer, row, number, name, prompt)
            if found is None:
                raise HookError(
                    f"prompts[{number}]: expected a text that was drawn, but the text encoder was given another: pass "
                    "the prompts in the order of the call"
                )
            words += found
        return words

    def _first_other(self, name: str, tokenizer: Any, ids: list[list[int]] | None) -> int | None:
        """Number of the first prompt whose tokens are not those seen; None if all are."""
        if ids is None:
            return None
        limit = wordlist.length_limit(self._pipe, tokenizer, name)
        if len(ids) != len(self._prompts):
            return 0
        for number, prompt in enumerate(self._prompts):
            text = wordlist.expanded(self._pipe, tokenizer, prompt)
            own = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
            if ids[number][: len(own)] != own:
                return number
        return None
