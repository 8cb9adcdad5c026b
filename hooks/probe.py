"""The probe: reads a pipeline while it generates, and leaves no trace.

    with Probe(pipe, pairs=[(0, 1), (0, 2)]) as probe:
        images = pipe(prompt=[...], generator=[...]).images
    probe.similarity["x0_pred:cosine"].values

The constructor touches nothing; entering attaches every hook or none; leaving removes them, also after an
exception. Every hook only reads, so the images are bit for bit those generated without it. Reductions run on
the device; the numbers leave it once, when the block ends (tensors that are kept, at every call).

One block watches one call of the pipeline. Within it:

- records are numbered by call of the denoiser, from 0, with the timestep attached (PNDM calls it N + 1 times for
  N steps);
- what the text encoder, the VAE and the decoder gave carries call number 0 and no timestep;
- of several decodes (a preview in a callback, say) the last one after its last call counts.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from hooks import sites as site_table
from hooks.architectures.registry import architecture_of
from hooks.architectures.site import Call, Inputs, Step, branches_error, has_module
from hooks.architectures.text_encoders import text_cores
from hooks.attention.attention import AttentionSums, RefineSums
from hooks.attention.definitions import Definition, default_name, get
from hooks.errors import HookError
from hooks.prompt.text import TextReader, record_states, select_runs
from hooks.prompt.wordlist import PromptWords
from hooks.recorder import PairPositions, PositionSampler, Recorder, RowGroups
from hooks.results import ProbeResults
from hooks.sites import DEFAULT_SITES, TEXT_ENCODERS, Site, module_at

if TYPE_CHECKING:
    from hooks.autoencoder import SparseAutoencoder

# Within an attention, what is hooked or says how it attends.
_PARTS = ("processor", "to_q", "to_k", "to_kv", "to_qkv")


class Probe(ProbeResults):
    """Context manager that records activations, similarities and attention maps in one call of a diffusion pipeline.

    Parameters
    ----------
    pipe : DiffusionPipeline
        One of `hooks.sites.SUPPORTED_PIPELINES`, or a subclass.
    sites : str or iterable of str
        Addresses or globs of the sites whose similarities are computed (see `hooks.sites`); all default
        ones, by default. Embeddings and text layers pass the final norm first; what is kept is raw.
    pairs : sequence of (int, int), optional
        Rows of the batch to compare, one row an image. With `num_images_per_prompt=n`, image k of prompt i
        is row i * n + k; text sites compare the prompts of the two rows. Without pairs no similarities are
        computed.
    shared_positions : sequence of (list of int, list of int), or mapping of str to such sequences, optional
        Per pair, aligned token positions of the words that its prompts share; gives `cosine_words` at text
        sites. By text encoder ("text", "text_2", "text_3") where their tokens differ.
    keep : str or iterable of str
        Addresses or globs of sites whose tensors are kept, in float32 on the CPU, whether or not in `sites`.
    pool : str or iterable of str
        Addresses or globs of sites whose mean over space is kept, in float32 on the CPU; where a row is one of tokens
        (in text encoders, at keys and values of cross-attention) the mean over each group of `position_groups`.
    position_groups : sequence of mapping of str to sequence of int, or mapping of str to such sequences, optional
        Of each row of the batch the token positions by the name of their group, see `hooks.position_groups`. By text
        encoder where their tokens differ ("text", "text_2", "text_3"), and "dit" for the text that a diffusion
        transformer is given.
    word_maps : bool, str or Definition
        Whether to sum cross-attention into word maps, at a memory that does not grow with the steps: True or the name
        of a definition (`hooks.attention.definitions`).
    map_tokens : {"words", "all"}
        Which positions of the text have maps: those of each prompt's words, which keeps memory low, or all, with start,
        end and padding.
    layer_maps : int
        Beside word maps, every layer's attention apart, heads averaged, in so many bins of (nearly) equal numbers of
        calls; 0 for none. More bins than calls are a bin for each.
    head_maps : bool
        Whether the heads of every layer are kept apart, too; without `layer_maps` in one bin. Memory is that of layer
        maps by the number of heads.
    prompts : str or sequence of str, optional
        The texts of the batch, for words with the characters they have there; without them, words are read
        off the token ids that the text encoders were given.
    system_prompt : str, optional
        With `prompts`, the system prompt that the pipeline is called with, where it is not its own.
    keep_places : {"all", "mean"} or callable
        What is kept of them: the tensor as it is; the mean over space (or tokens); or some places, as vectors. A
        callable is given the address, the call, the row and the number of places, and returns the numbers of those to
        keep, as many for each row; pixels are numbered row by row.
    autoencoders : mapping of str to SparseAutoencoder, optional
        By address, sites whose latents are read.
    concepts : str or sequence of str, optional
        Words that need not be in the prompt, whose maps `concept_map` gives (`hooks.concepts`); the image
        does not read them. Of transformers two or more, since their maps are a softmax over them.

    Attributes
    ----------
    similarity : dict of str to Similarity
        By "<address>:<metric>"; metrics are `cosine`, and at text sites `cosine_sequence`, `cosine_eos` and
        `cosine_words`. Every requested key is there; a branch of guidance or a decoded site that this call had not has
        no calls where a glob matches sites that ran, too.
    kept, pooled : dict of str to Kept
        What is kept at some places has values of shape (n_calls, rows, places, c).
        What is pooled has values of shape (n_calls, rows, c), at sites of tokens (n_calls, rows, groups, c).
    latents : dict of str to Kept
        Of sparse autoencoders: means over space (or tokens), of shape (n_calls, rows, n_latents).
    maps : WordMaps
        Heat maps of the prompts' tokens; `word_map` gives a word's.
    layer_maps : LayerMaps
        The same layer by layer.
    concept_maps : WordMaps
        Heat maps of the concepts; `concept_map` gives a concept's.

    Raises
    ------
    HookError
        On entering, for a pipeline, site or pair that cannot be read; while running, for a batch that does
        not fit; as the block ends, for a site that was asked for and never ran; on reading results before the block
        has ended, or after it failed.
    """

    def __init__(
        self,
        pipe: Any,
        sites: str | Iterable[str] = DEFAULT_SITES,
        pairs: Sequence[tuple[int, int]] | None = None,
        shared_positions: PairPositions | Mapping[str, PairPositions] | None = None,
        keep: str | Iterable[str] = (),
        pool: str | Iterable[str] = (),
        position_groups: RowGroups | Mapping[str, RowGroups] | None = None,
        word_maps: bool | str | Definition = False,
        layer_maps: int = 0,
        prompts: str | Sequence[str] | None = None,
        keep_places: PositionSampler | Literal["all", "mean"] = "all",
        autoencoders: Mapping[str, SparseAutoencoder] | None = None,
        system_prompt: str | None = None,
        map_tokens: Literal["words", "all"] = "words",
        concepts: str | Sequence[str] = (),
        head_maps: bool = False,
    ) -> None:
        self._pipe = pipe
        self._autoencoders = dict(autoencoders or {})
        patterns = {"similarity": sites, "kept": keep, "pooled": pool, "latents": self._autoencoders}
        self._patterns = {
            kind: [one] if isinstance(one, str) else list(one) for kind, one in patterns.items()
        }
        self._keep_places, self._position_groups = keep_places, position_groups
        self._pairs = [] if pairs is None else list(pairs)
        self._shared_positions = shared_positions
        self._word_maps, self._bins, self._map_tokens = word_maps, layer_maps, map_tokens
        self._head_maps = head_maps
        self._system_prompt, self._concepts = system_prompt, concepts
        self._prompts = [prompts] if isinstance(prompts, str) else prompts and list(prompts)

    # Entering and leaving

    def _forget(self) -> None:
        """Drop the call under way, the attention sums and the recorder."""
        self._call, self._inputs = None, None
        self._attention, self._recorder = {}, None

    def _prepare(self) -> None:
        """Resolve the requested sites and build recorder and attention sums; HookError for an unreadable request."""
        pipe = self._pipe
        self._architecture = architecture_of(pipe)
        # also without pairs, so that a wrong address is reported
        chosen = {
            kind: site_table.resolve(pipe, patterns) if patterns or kind == "similarity" else []
            for kind, patterns in self._patterns.items()
        }
        if not self._pairs:
            chosen["similarity"] = []
        for address in set(self._autoencoders) - {site.address for site in chosen["latents"]}:
            raise HookError(
                f"autoencoders: expected the address of one site, but got the pattern {address!r}"
            )
        self._asked = {site.address for sites in chosen.values() for site in sites}
        tiles = self._decodes_in_tiles()
        self._attention = self._new_attention_sums()
        chosen["shown"] = site_table.resolve(pipe, "image") if self._attention and not tiles else []
        self._recorder = Recorder(
            chosen,
            self._pairs,
            self._shared_positions,
            self._position_groups,
            self._keep_places,
            self._autoencoders,
        )
        hooked = self._asked | {site.address for site in chosen["shown"]}
        self._sites = {site.address: site for site in site_table.available(pipe) if site.address in hooked}
        self._call: Call | None = None
        self._inputs: Inputs | None = None
        self._paths = {site.module for site in self._sites.values()}
        for kind in {sums.kind for sums in self._attention.values()}:
            for site, _ in self._architecture.attentions(pipe, kind):
                paths = (f"{site.module}.{part}" for part in _PARTS)
                self._paths |= {path for path in paths if has_module(pipe, path)}
        self._readers = []
        for name in text_cores(pipe):
            layers = [site for site in self._sites.values() if site.address.startswith(f"{name}.layers.")]
            inside = [site for site in layers if not site.layer_norm]
            self._readers.append(TextReader(pipe, name, TEXT_ENCODERS[name], inside))

    def _new_attention_sums(self) -> dict[str, AttentionSums]:
        """Return new, empty sums of attention: "cross" and "self" for word maps, "concepts"; none that is off."""
        bins, word_maps = self._bins, self._word_maps
        if not isinstance(bins, int) or isinstance(bins, bool) or bins < 0:
            raise HookError(f"layer_maps: expected a number of bins, 0 for none, but got {bins!r}")
        if self._map_tokens not in ("words", "all"):
            raise HookError(f"map_tokens: expected 'words' or 'all', but got {self._map_tokens!r}")
        bins = max(bins, int(self._head_maps))
        sums: dict[str, AttentionSums] = {}
        if self._concepts:
            from hooks.concepts import concept_sums

            getters = (lambda: self._call), (lambda: self._inputs)
            sums["concepts"], self._concept_columns = concept_sums(self._pipe, *getters, self._concepts)
        if word_maps in (False, None):
            if bins:
                raise HookError("layer_maps: expected word maps beside them: pass word_maps=True")
            return sums
        default = default_name(self._architecture.readings)
        definition = get(default if word_maps is True else word_maps)
        arguments = self._pipe, lambda: self._call, definition
        if self._architecture.transformer:
            from hooks.attention.final import FinalSums

            return sums | {"cross": FinalSums(*arguments, bins, self._head_maps)}
        if definition.reading != "probability":
            raise HookError(
                f"definition {definition.name!r}: is of transformers, but {type(self._pipe).__name__} draws with a "
                f"U-Net: choose {default}"
            )
        sums["cross"] = AttentionSums(*arguments, bins, self._head_maps)
        return sums | ({"self": RefineSums(*arguments)} if definition.refine else {})

    def _decodes_in_tiles(self) -> bool:
        """Return whether the VAE decodes in tiles; HookError if it does and a site in or after it is requested."""
        tiles = getattr(self._pipe.vae, "use_tiling", False)
        sites = site_table.available(self._pipe) if tiles else []
        after = [site.address for site in sites if site.decoded and site.address in self._asked]
        if after:
            raise HookError(
                f"{after[0]}: the VAE decodes in tiles, which no site can read whole: "
                "call pipe.vae.disable_tiling() or leave latent.final, vae.* and image out"
            )
        return tiles

    def _attach_sites(self, stack: contextlib.ExitStack) -> None:
        """Hook the attention layers and the sites of denoiser and decoder; closing `stack` removes the hooks."""
        for sums in self._attention.values():
            sums.attach(stack)
        for site in self._sites.values():
            if site.address == "latent.final":
                module = module_at(self._pipe, site.module)
                stack.callback(module.register_forward_pre_hook(self._before_decoding).remove)
            elif site.decoded:
                receive = functools.partial(self._recorder.record_decoded, site.address)
                stack.callback(site.attach_reader(self._pipe, receive).remove)
            elif site.address == "text.pooled" or (site.per_step and site.read != "pipeline"):
                receive = functools.partial(self._record_in_denoiser, site)
                stack.callback(site.attach_reader(self._pipe, receive).remove)

    # What the hooks do

    def _before_denoiser(self, inputs: Inputs, args: Any, kwargs: Any) -> None:
        """Begin a call of the denoiser; at the first, find the prompts' text-encoder runs and record their sites."""
        rows, known = inputs.batch.rows, self._recorder.rows
        if known is not None and rows != known:
            raise HookError(f"denoiser: expected {known} rows as in the first call, but got {rows}")
        prompts = {len(run.states[0]) for reader in self._readers for run in reader.runs}
        if prompts and all(rows % number for number in prompts):
            got = f"texts of {max(prompts)} prompts"
            raise branches_error(self._pipe, inputs.batch.branches, rows * len(inputs.batch.branches), got)
        if self._attention and inputs.masked:
            raise HookError("word_maps: the pipeline masks tokens in attention: leave attention maps off")
        self._call = Call(inputs.batch, self._calls, self._architecture.planned_steps(self._pipe))
        self._inputs = inputs
        self._recorder.next_call(rows, inputs.timestep)
        if known is None:
            self._rows = rows
            runs = select_runs(self._readers, inputs.text, inputs.pooled)
            texts = self._prompts, self._system_prompt
            self._words = PromptWords(self._pipe, *texts, runs, rows, inputs.text.shape[1])
            if "cross" in self._attention:
                self._attention["cross"].columns = self._map_columns(inputs)
            if "concepts" in self._attention:
                self._attention["concepts"].columns = (
                    tuple(range(self._attention["concepts"].width)),
                ) * rows
            record_states(runs, inputs.text, self._sites, self._recorder.record_text)
        self._recorder.record("latent", inputs.latent)

    @torch.no_grad()
    def _after_denoiser(self, module: Any, args: Any, output: Any) -> None:
        """Record the predictions in the denoiser's output and end the call."""
        call, self._call = self._call, None
        for kind in ("cross", "concepts"):
            if call is not None and kind in self._attention:
                self._attention[kind].end_call(call)
        if self._inputs is not None:
            for address, values in self._architecture.predictions(self._inputs, output, second=call is None):
                self._recorder.record(address, values)

    def _map_columns(self, inputs: Inputs) -> tuple[tuple[int, ...], ...]:
        """Return by row the positions of the denoiser's text that have maps."""
        tokens, rows = inputs.text.shape[1], range(inputs.batch.rows)
        if self._map_tokens == "all":
            spans = inputs.batch.spans("text", ("text",))
            return tuple(tuple(range(span.stop or tokens)) for span in spans)
        if self._architecture.transformer:
            return tuple(self._words.denoiser_columns(row) for row in rows)
        return tuple(self._words.positions_within(row, tokens) for row in rows)

    def _on_step(self, step: Step) -> None:
        """Record the predictions that follow from a step of the scheduler."""
        self._inputs.batch.require_images(self._pipe, len(step.output))
        predictions = self._architecture.step_predictions(self._pipe, self._inputs, step, self._sites)
        for address, values in predictions:
            self._recorder.record(address, values)

    def _record_in_denoiser(self, site: Site, values: Tensor) -> None:
        """Record the prompts' rows of a site inside the denoiser, once or at every call as the site runs."""
        if self._call is not None and (site.per_step or self._call.number == 0):
            rows = site.stream_tokens(self._call.batch.conditional(values, site.address), self._call.batch)
            self._recorder.record(site.address, rows, once=not site.per_step)

    @torch.no_grad()
    def _before_decoding(self, module: Any, args: tuple[Any, ...]) -> None:
        """Record the final latent, the input of the VAE's decoder."""
        self._recorder.record_decoded("latent.final", self._architecture.final_latent(self._pipe, args[0]))

    @torch.no_grad()
    def _finish(self) -> None:
        """Set the results; HookError if the pipeline's call was incomplete or a requested site never ran."""
        self._require_whole_call()
        results = self._recorder.results()
        self._similarity, self._kept = results["similarity"], results["kept"]
        self._pooled, self._latents = results["pooled"], results["latents"]
        self._require_sites_ran(results)
        cross, concepts = self._attention.get("cross"), self._attention.get("concepts")
        self._maps = self._layer_maps = self._concept_maps = None
        pictures = results["shown"].get("image")
        self._shown = pictures.values[0] if pictures is not None and len(pictures.values) else None
        for sums in self._attention.values():
            sums.require_one_run_per_call(self._calls)
        if cross is not None:
            self._maps = cross.word_maps(self._attention.get("self"))
            self._layer_maps = cross.layer_maps(self._calls)
        if concepts is not None:
            self._concept_maps = concepts.word_maps(None)
        for sums in self._attention.values():
            scale = self._architecture.latent_scale(self._pipe) * self._architecture.patch_size(self._pipe)
            self._size = tuple(side * scale for side in sums.latent[1:])

    def _require_whole_call(self) -> None:
        """Raise HookError if the pipeline was not called inside the block, or ended before all planned steps."""
        self._decodes_in_tiles()
        name, calls = type(self._pipe).__name__, self._calls
        if not self._steps or not calls:
            raise HookError(
                f"Probe: expected a call of this {name} inside the block, but got none: call the very pipeline that "
                "was passed to Probe, not one that shares its parts"
            )
        planned = self._architecture.planned_steps(self._pipe)
        if planned is not None and calls < planned and not getattr(self._pipe, "interrupt", False):
            raise HookError(
                f"Probe: expected {planned} calls of the denoiser, as {name} plans, but got {calls}: let exceptions "
                "leave the block, or stop the pipeline by pipe._interrupt = True"
            )

    def _require_sites_ran(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise HookError if a requested site never ran.

        Of the sites that one glob matches, branches of guidance and what is decoded may be without calls beside others.
        """
        for kind, patterns in self._patterns.items():
            entries = {key.partition(":")[0]: entry for key, entry in results[kind].items()}
            for pattern in patterns if entries else ():
                sites = site_table.resolve(self._pipe, pattern)
                missing = [site for site in sites if not len(entries[site.address].call)]
                if len(missing) < len(sites):
                    missing = [site for site in missing if site.read != "pipeline" and not site.decoded]
                for site in missing:
                    remedy = "turn off what skips its module, or leave it out"
                    if site.decoded:
                        remedy = "decode the whole batch (without output_type='latent'), or leave it out"
                    elif site.read == "pipeline":
                        remedy = "turn that branch of guidance on, or leave it out"
                    raise HookError(
                        f"{site.address}: expected a site that runs in this call, but it never ran: {remedy}"
                    )
