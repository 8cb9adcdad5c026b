"""Results of a probe, read when its block has ended: similarities, tensors, heat maps, words."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from hooks.architectures.text_encoders import text_cores
from hooks.attention.maps import LayerMaps, WordMaps
from hooks.block import HookedBlock
from hooks.errors import HookError
from hooks.prompt.wordlist import PromptWords, Word

if TYPE_CHECKING:
    from PIL import Image

    from hooks.prompt.wordmap import WordMap

_LATENTS = ("latent", "x0_pred", "latent.final")  # sites that the VAE can decode


def counted(number: int, noun: str) -> str:
    """Return the number and the noun, as in "1 call"; the noun in the plural unless the number is 1.

    Examples
    --------
    >>> counted(1, "call"), counted(20, "call"), counted(2, "patch")
    ('1 call', '20 calls', '2 patches')
    """
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('ch') else 's'}"


@dataclass(frozen=True, repr=False)
class Similarity:
    """Similarities (n_calls, n_pairs) of pairs of batch rows at one site, by call of the denoiser.

    Attributes
    ----------
    values : ndarray, shape (n_calls, n_pairs), float32
        NaN where a similarity is undefined (a row of zeros, no shared word, an unknown end of text).
    call : ndarray, shape (n_calls,), int64
        Number of the denoiser's call, from 0; 0 for sites that are read once.
    timestep : ndarray, shape (n_calls,), float64
        Timestep of the call; NaN for sites that are read once.
    """

    values: np.ndarray
    call: np.ndarray
    timestep: np.ndarray

    def __repr__(self) -> str:
        calls, pairs = self.values.shape
        known = self.values[np.isfinite(self.values)]
        ends = f", {known.min():.4f} to {known.max():.4f}" if known.size else ""
        return f"Similarity({counted(calls, 'call')}, {counted(pairs, 'pair')}{ends})"


@dataclass(frozen=True, repr=False)
class Kept:
    """Tensors recorded at one site at each call, of the rows conditioned on the prompts (not on negative prompts).

    Attributes
    ----------
    values : Tensor, shape (n_calls, rows, ...), float32, on the CPU
    call, timestep : ndarray, shape (n_calls,)
        As in `Similarity`.
    places : int, optional
        Number of pixels or tokens of the site, if `keep_places` chose some of them.
    """

    values: Tensor
    call: np.ndarray
    timestep: np.ndarray
    places: int | None = None

    def __repr__(self) -> str:
        return f"Kept({counted(len(self.call), 'call')}, each of shape {tuple(self.values.shape[1:])})"


def _result_property(name: str, meaning: str, remedy: str = "") -> Any:
    """Return a property of a result of the probe; its HookErrors: block not ended, or result not requested."""

    def read(probe: ProbeResults) -> Any:
        """Return the result, which the probe keeps under its name with an underscore."""
        probe._require_done(name)
        value = getattr(probe, f"_{name}")
        if value is None:
            raise HookError(f"Probe.{name}: not asked for: pass {remedy}")
        return value

    return property(read, doc=meaning)


class ProbeResults(HookedBlock):
    """Results of `hooks.Probe`, filled in as its block ends; HookError if read earlier or after the block failed."""

    _pipe: Any
    _architecture: Any
    _pairs: list[tuple[int, int]]
    _rows: int  # of the batch
    _calls: int  # of the denoiser
    _size: tuple[int, int]  # height and width of an image
    _shown: Any  # images as they were decoded, from -1 to 1, tensor of shape (rows, 3, h, w); None without
    _words: PromptWords
    _concept_columns: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]  # and positions in its own prompt

    similarity: dict[str, Similarity] = _result_property(
        "similarity", 'Similarities by "<address>:<metric>", in the order in which the sites run.'
    )
    kept: dict[str, Kept] = _result_property(
        "kept", "Tensors of sites in `keep`, by address, in order of the run."
    )
    pooled: dict[str, Kept] = _result_property(
        "pooled",
        "Means over space or groups of tokens at the sites in `pool`, by address, in order of the run.",
    )
    latents: dict[str, Kept] = _result_property(
        "latents", "Latents of sparse autoencoders, averaged over positions, by address, in order of the run."
    )
    maps: WordMaps = _result_property(
        "maps", "Heat maps of the prompts' tokens in every image.", "word_maps=True"
    )
    layer_maps: LayerMaps = _result_property(
        "layer_maps", "Sums of attention to the text, layer by layer.", "word_maps=True, layer_maps=1"
    )
    concept_maps: WordMaps = _result_property(
        "concept_maps", "Heat maps of the concepts in every image.", "concepts=['umbrella', 'dog']"
    )

    def __repr__(self) -> str:
        about = [type(self._pipe).__name__]
        if self._phase != "done":
            return f"Probe({about[0]}, {counted(len(self._pairs), 'pair')}; {self._phase_text('reading')})"
        if self._similarity:
            sites = len({key.partition(":")[0] for key in self._similarity})
            about.append(f"similarity at {counted(sites, 'site')} of {counted(len(self._pairs), 'pair')}")
        tensors = (("tensors kept", self._kept), ("means kept", self._pooled), ("latents", self._latents))
        about += [f"{name} at {counted(len(there), 'site')}" for name, there in tensors if there]
        if self._maps is not None:
            about.append(f"word maps ({self._maps.definition})")
        if self._concept_maps is not None:
            about.append(f"maps of {', '.join(self._concept_columns)}")
        return f"Probe({', '.join(about)}; {counted(self._rows, 'image')}, {counted(self._calls, 'call')})"

    def _repr_html_(self) -> str:
        """Return an HTML table of similarities at each site's last call, for notebooks; else the `repr`."""
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

    def _require_done(self, name: str) -> None:
        """Raise a HookError, which names a result, if the block has not ended or ended with an exception."""
        if self._phase == "new" or self._phase == "inside":
            raise HookError(f"Probe.{name}: read before the end of the block: leave the `with` first")
        if self._phase == "failed":
            raise HookError(f"Probe.{name}: the block ended with an exception: nothing was recorded")

    def words(self, row: int | None = None) -> list[Word]:
        """Return the words of all prompts, or of one batch row's prompt, with their token positions, by text encoder.

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
        """Names of the text encoders of the pipeline that are read, out of "text", "text_2" and "text_3"."""
        return tuple(text_cores(self._pipe))

    def token_heat(self, positions: Mapping[str, Sequence[int]], row: int) -> np.ndarray:
        """Return the heat map (h, w) of a word's token positions in one image: in a U-Net their mean, else their sum.

        `positions`, by text encoder, are equal in all encoders of a U-Net; a transformer's text may hold several's.

        Raises
        ------
        HookError
            There is no such row or position, or the tokens of a U-Net's encoders differ.
        """
        maps = self.maps
        maps.heat(row)  # refuses a row that is not there
        if self._architecture.transformer:
            return maps.word(row, self._words.denoiser_positions(positions, row))
        if len(set(map(tuple, positions.values()))) > 1:
            raise HookError(
                f"word maps: expected a word at the same tokens of all text encoders, but got {positions}: load a "
                "textual inversion into all of them"
            )
        return maps.word(row, next(iter(positions.values())))

    def word_map(
        self, word: str | int | Sequence[int] | Word, row: int = 0, occurrence: int | None = None
    ) -> WordMap:
        """Return the heat map of a word in one image; HookError if the prompt does not have the word.

        Parameters
        ----------
        word : str, int, sequence of int or Word
            A word or phrase by its text (case and punctuation are ignored), or token positions counted with
            the start-of-text token; of a transformer, positions of the text that it is given.
        row : int
            Row of the batch, one row an image.
        occurrence : int, optional
            Number of the occurrence, from 0; by default the tokens of all (their mean, in a transformer their sum).

        Raises
        ------
        HookError
            If the word is not in the prompt of this row, or `word_maps` was not requested.
        """
        maps = self.maps
        maps.heat(row)  # refuses a row that is not there
        name, positions = self._words.locate(word, row, occurrence, denoiser=self._architecture.transformer)
        mass = None if maps.text is None else maps.text[row]
        values = maps.word(row, positions)
        return self._word_map(maps, values, name, positions, row, text_mass=mass, _kept=self._layer_maps)

    def decode(self, step: int, site: str = "latent") -> list[Image.Image]:
        """Return the images that the VAE decodes from the latents of one call, a row of the batch each.

        Parameters
        ----------
        step : int
            Call of the denoiser, from 0; -1 is the last.
        site : str
            ``"latent"``: what the denoiser is given, with its noise; ``"x0_pred"``: the prediction of the image without
            noise at that step. It is decoded if `keep` holds it, at all places.

        Raises
        ------
        HookError
            The site was not kept, holds no latent, or had no such call.

        Examples
        --------
        >>> with Probe(pipe, keep="x0_pred") as probe:  # doctest: +SKIP
        ...     pipe("a person with a dog", num_inference_steps=10)
        >>> probe.decode(4, "x0_pred")[0]  # doctest: +SKIP
        """
        import torch

        from hooks.architectures.latents import decode
        from hooks.prompt.wordmap import from_array

        if site not in _LATENTS or site not in self.kept or self.kept[site].values.ndim != 5:
            one = site if site in _LATENTS else "x0_pred"
            raise HookError(
                f"Probe.decode: expected {site!r} as a kept latent, found none: pass keep={one!r}"
            )
        values, calls = self.kept[site].values, len(self.kept[site].values)
        if not -calls <= step < calls:
            raise HookError(f"step: expected one of the {calls} calls of {site}, but got {step}")
        vae, final = self._pipe.vae, self._architecture.final_latent
        latent = values[step].to(vae.device, torch.float32)
        # the denoiser's scale is (x - shift) * scale of what the decoder is given
        start, end = (final(self._pipe, torch.full_like(latent, x)) for x in (0.0, 1.0))
        with torch.no_grad():
            image = decode(vae, ((latent - start) / (end - start)).to(vae.dtype)).float().cpu()
        return [from_array(one.movedim(0, -1) / 2 + 0.5) for one in image]

    def concept_map(self, concept: str, row: int = 0) -> WordMap:
        """Return the heat map of a concept in one image; HookError if it is none of the probe's `concepts`.

        In a U-Net, what the image would pay the concept's tokens beside the prompt's; else the softmax over concepts of
        products of outputs (`hooks.concepts`).

        Parameters
        ----------
        concept : str
            As it was given to the probe.
        row : int
            Row of the batch, one row an image.

        Raises
        ------
        HookError
            If it is not one of `concepts`, or there is no such row.
        """
        maps = self.concept_maps
        maps.heat(row)  # refuses a row that is not there
        if concept not in self._concept_columns:
            raise HookError(
                f"concept: expected one of {', '.join(self._concept_columns)}, but got {concept!r}"
            )
        columns, positions = self._concept_columns[concept]
        return self._word_map(maps, maps.word(row, columns), concept, positions, row)

    def _word_map(
        self, maps: WordMaps, values: np.ndarray, word: str, positions: tuple[int, ...], row: int, **more: Any
    ) -> WordMap:
        """Return a `WordMap` of these values over the image of a row, by the definition of `maps`."""
        from hooks.prompt.wordmap import WordMap, from_array

        image = None if self._shown is None else from_array(self._shown[row].movedim(0, -1) / 2 + 0.5)
        about = maps.definition, maps.version, self._size
        return WordMap(values, word, positions, row, *about, **more, _image=image)
