"""What a probe saw, as it is read when its block has ended: similarities, tensors, heat maps, words."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hooks import sites as site_table
from hooks.attention.maps import LayerMaps, WordMaps
from hooks.attention.masks import word_heat
from hooks.block import HookedBlock
from hooks.errors import HookError
from hooks.prompt.promptwords import PromptWords
from hooks.prompt.wordlist import Word
from hooks.prompt.wordmap import WordMap, from_array
from hooks.records import Kept, Similarity, counted
from hooks.sites import TEXT_ENCODERS


class ProbeResults(HookedBlock):
    """Results of `hooks.Probe`, which fills them in as its block ends; reading them earlier is an error."""

    _pipe: Any
    _pairs: list[tuple[int, int]]
    _rows: int  # of the batch
    _calls: int  # of the denoiser
    _similarity: dict[str, Similarity]
    _kept: dict[str, Kept]
    _pooled: dict[str, Kept]
    _latents: dict[str, Kept]
    _maps: WordMaps | None
    _layer_maps: LayerMaps | None
    _size: tuple[int, int]  # height and width of an image
    _shown: Any  # images as they were decoded, from -1 to 1, tensor of shape (rows, 3, h, w); None without
    _words: PromptWords

    def __repr__(self) -> str:
        about = [type(self._pipe).__name__]
        if self._phase != "done":
            state = {
                "new": "to be used as `with probe:`, around one call of the pipeline",
                "inside": "reading",
                "failed": "ended with an exception, nothing was recorded",
            }[self._phase]
            return f"Probe({about[0]}, {counted(len(self._pairs), 'pair')}; {state})"
        if self._similarity:
            sites = len({key.partition(":")[0] for key in self._similarity})
            about.append(f"similarity at {counted(sites, 'site')} of {counted(len(self._pairs), 'pair')}")
        about += [f"{name} at {counted(len(there), 'site')}" for name, there in self._tensors() if there]
        if self._maps is not None:
            about.append(f"word maps ({self._maps.definition})")
        return f"Probe({', '.join(about)}; {counted(self._rows, 'image')}, {counted(self._calls, 'call')})"

    def _repr_html_(self) -> str:
        """Show the similarities at the last call of each site, one row per site, one column per pair."""
        head = f"<p>{html.escape(repr(self))}</p>"
        if self._phase != "done" or not getattr(self, "_similarity", None):
            return head
        pairs = "".join(f"<th>rows {first}, {second}</th>" for first, second in self._pairs)
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(key)}</td>"
            + "".join(f"<td>{value:.4f}</td>" for value in similarity.values[-1])
            + "</tr>"
            for key, similarity in self._similarity.items()
            if len(similarity.values)
        )
        table = f"<table><tr><th>similarity at the last call</th>{pairs}</tr>{rows}</table>"
        return f"{head}<div style='max-height:24em;overflow:auto'>{table}</div>"

    def _tensors(self) -> list[tuple[str, dict[str, Kept]]]:
        return [
            ("tensors kept", self._kept),
            ("means kept", self._pooled),
            ("latents", self._latents),
        ]

    def _require_done(self, name: str) -> None:
        if self._phase == "new" or self._phase == "inside":
            raise HookError(f"Probe.{name}: read before the end of the block: leave the `with` first")
        if self._phase == "failed":
            raise HookError(f"Probe.{name}: the block ended with an exception: nothing was recorded")

    def _result(self, name: str, value: Any, remedy: str) -> Any:
        self._require_done(name)
        value = getattr(self, value)
        if value is None:
            raise HookError(f"Probe.{name}: not asked for: pass {remedy}")
        return value

    @property
    def similarity(self) -> dict[str, Similarity]:
        """Similarities by "<address>:<metric>", in the order in which the sites run."""
        self._require_done("similarity")
        return self._similarity

    @property
    def kept(self) -> dict[str, Kept]:
        """Kept tensors by address, in the order in which the sites run."""
        self._require_done("kept")
        return self._kept

    @property
    def pooled(self) -> dict[str, Kept]:
        """Pooled activations by address, in the order in which the sites run."""
        self._require_done("pooled")
        return self._pooled

    @property
    def latents(self) -> dict[str, Kept]:
        """Means of the latents of sparse autoencoders by address, in the order in which the sites run."""
        self._require_done("latents")
        return self._latents

    @property
    def maps(self) -> WordMaps:
        """Heat maps of every token of every row."""
        return self._result("maps", "_maps", "word_maps=True")

    @property
    def layer_maps(self) -> LayerMaps:
        """Sums of cross-attention, layer by layer."""
        return self._result("layer_maps", "_layer_maps", "word_maps=True, layer_maps=1")

    def words(self, row: int | None = None) -> list[Word]:
        """The words of the prompts, or of one row's prompt, by encoder, with their token positions.

        Parameters
        ----------
        row : int, optional
            Of the batch; default the words of all prompts.

        Returns
        -------
        list of Word
            Those of an encoder together, in the order of the prompt.

        Raises
        ------
        HookError
            If the texts are not known (`prompt_embeds` were passed in, and no `prompts` to the probe).
        """
        self._require_done("words")
        return self._words.words(row)

    @property
    def text_encoders(self) -> tuple[str, ...]:
        """Names of the text encoders that are read: "text", "text_2", "text_3"."""
        return tuple(
            name for name, part in TEXT_ENCODERS.items() if site_table.text_core(self._pipe, part) is not None
        )

    def token_heat(self, positions: Mapping[str, Sequence[int]], row: int) -> np.ndarray:
        """Heat of a word in one image by its token positions in each text encoder, shape (h, w), float32.

        Of a U-Net, whose encoders number tokens alike, the first's count; a transformer's text may hold several's.

        Raises
        ------
        HookError
            There is no such row or position, or the tokens of a U-Net's encoders differ.
        """
        whole = self.maps
        if whole.columns is None:
            if len(set(map(tuple, positions.values()))) > 1:
                raise HookError(
                    f"word maps: expected a word at the same tokens of all text encoders, but got {positions}: load a "
                    "textual inversion into all of them"
                )
            return word_heat(whole.heat(row), list(next(iter(positions.values()))))
        whole.heat(row)  # refuses a row that is not there
        return whole.word(row, self._words.placed(positions, row))

    def word_map(
        self, word: str | int | Sequence[int] | Word, row: int = 0, occurrence: int | None = None
    ) -> WordMap:
        """The heat map of a word in one image.

        Parameters
        ----------
        word : str, int, sequence of int or Word
            A word or phrase by its text (case and punctuation are ignored), or token positions counted with
            the start-of-text token; of a transformer, positions of the text that it is given.
        row : int
            Row of the batch, one row an image.
        occurrence : int, optional
            Which of several, from 0; the mean over the tokens of all of them, by default.

        Raises
        ------
        HookError
            If the word does not occur in this row's prompt.
        """
        whole = self.maps
        whole.heat(row)  # refuses a row that is not there
        name, positions = self._words.find(word, row, occurrence, placed=whole.columns is not None)
        return WordMap(
            values=whole.word(row, positions),
            word=name,
            positions=positions,
            row=row,
            definition=whole.definition,
            version=whole.version,
            size=self._size,
            text_mass=None if whole.text is None else whole.text[row],
            _kept=self._layer_maps,
            _image=None if self._shown is None else from_array(self._shown[row].movedim(0, -1) / 2 + 0.5),
        )
