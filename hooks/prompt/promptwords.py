"""The words of the prompts of one block, from the texts given or from the token ids that were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from hooks.errors import HookError
from hooks.prompt import wordlist
from hooks.prompt.wordlist import Word


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
            name, found = word.text, {word.encoder: word.positions}
            if word.cut_off and not word.positions:
                raise HookError(f"word: {name!r} is cut off, its tokens are beyond the tokenizer's limit")
        elif isinstance(word, str):
            name, found = word, self._by_encoder(word, row, occurrence)
            self._require_one_place(name, row, found)
        else:
            positions = tuple(int(p) for p in (word if hasattr(word, "__iter__") else (word,)))
            return " ".join(f"#{position}" for position in positions), positions
        positions = self.placed(found, row) if placed else next(iter(found.values()))
        if not positions:
            raise HookError(
                f"word: {name!r} stands nowhere in the text that the denoiser is given in row {row}"
            )
        return name, positions

    def _by_encoder(self, word: str, row: int, occurrence: int | None) -> dict[str, tuple[int, ...]]:
        """Token positions of a word in one row by the encoders that read it: SDXL's second may read another prompt."""
        words, found, failed = self.words(row), {}, None
        for encoder in dict.fromkeys(one.encoder for one in words):
            try:
                own = [one for one in words if one.encoder == encoder]
                found[encoder] = wordlist.find(own, word, occurrence)
            except HookError as error:
                failed = failed or error
        if not found:
            raise failed or HookError(f"word: {word!r} is no word of row {row}, whose prompt has none")
        return found

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
        return [word for name in wordlist.TOKENIZERS if name in self._ids for word in self._read(name)]

    def _read(self, name: str) -> list[Word]:
        """The words that one encoder read, of the first row of each prompt."""
        tokenizer = wordlist.tokenizer_of(self._pipe, name, self._system)
        if tokenizer is None:
            return []
        rows, found = self._ids[name], []
        if self._prompts is not None:
            for row, ids in enumerate(rows):
                number = self._prompt_of(row)
                words = wordlist.words_of_text(tokenizer, ids, self._prompts[number], number, name)
                if words is None and (
                    name == "text" or "text" not in self._ids
                ):  # SDXL's `prompt_2` may be another
                    raise HookError(
                        f"prompts[{number}]: expected the texts that were drawn, but the text encoder was given other "
                        "tokens: pass the prompts in the order of the call"
                    )
                if words is None:
                    break
                found += words if row % (self._rows // self._count) == 0 else []
            else:
                return found
        return [
            word
            for number, ids in enumerate(rows[:: self._rows // self._count])
            for word in wordlist.words_of_ids(tokenizer, ids, number, name)
        ]
