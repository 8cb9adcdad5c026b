"""The probe: reads a pipeline while it draws, and leaves no trace.

    with Probe(pipe, pairs=[(0, 1), (0, 2)]) as probe:
        images = pipe(prompt=[...], generator=[...]).images
    probe.similarity["x0_pred:cosine"].values

The constructor touches nothing; entering attaches every hook or none; leaving removes them, also after an
exception. Every hook only reads, so the images are bit for bit those drawn without it. Reductions run on
the device; the numbers leave it once, when the block ends (tensors that are kept, at every call).

One block watches one call of the pipeline. Within it:

- records are numbered by UNet call, from 0, with the timestep attached (PNDM calls the UNet N + 1 times for
  N steps);
- what the text encoder, the VAE and the decoder gave carries call number 0 and no timestep;
- of several decodes (a preview in a callback, say) the last one after the last UNet call counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hooks import sites as site_table
from hooks.attention import AttentionSums, Batch, WordMaps
from hooks.errors import HookError
from hooks.prediction import guide, predict_x0, signal_level
from hooks.records import METRICS_OF_TEXT, Kept, Records, Similarity, first_tensor, timesteps_to_array
from hooks.similarity import SharedPositions, cosine, cosine_at, products
from hooks.sites import DEFAULT_SITES, TEXT_ENCODERS, Site, module_at
from hooks.text import TextReader, TextStates, conditional_states

ONCE_AFTER_DENOISING = ("latent.final", "vae.", "image")


class Probe:
    """Reads sites of a pipeline during one call of it.

    Parameters
    ----------
    pipe : DiffusionPipeline
        One of `hooks.sites.SUPPORTED_PIPELINES`, or a subclass.
    sites : str or iterable of str
        Addresses or globs of the sites whose similarities are computed (see `hooks.sites`); all, unless told.
    pairs : sequence of (int, int), optional
        Rows of the batch to compare, one row an image. With `num_images_per_prompt=n`, image k of prompt i
        is row i * n + k; text sites compare the prompts of the two rows. Without pairs no similarities are
        computed.
    shared_positions : sequence of (list of int, list of int), optional
        Per pair, aligned token positions of the words that its prompts share; gives `cosine_words` at text
        sites.
    keep : str or iterable of str
        Addresses or globs of sites whose tensors are kept whole, in float32 on the CPU, whether or not in
        `sites`.
    word_maps : bool
        Whether to sum cross-attention into word maps (`hooks.attention`).
    text_layer_norm : bool
        Whether embeddings and text layers pass the final layer norm before they are compared. What is kept
        is raw.

    Attributes
    ----------
    similarity : dict of str to Similarity
        By "<address>:<metric>"; metrics are `cosine`, and at text sites `cosine_sequence`, `cosine_eos` and
        `cosine_words`. Every requested key is there; a site that did not run in this call has no calls.
    kept : dict of str to Kept
    maps : WordMaps

    Raises
    ------
    HookError
        On entering, for a pipeline, site or pair that cannot be read; while running, for a batch that does
        not fit; on reading results before the block has ended, or after it failed.
    """

    def __init__(
        self,
        pipe: Any,
        sites: str | Iterable[str] = DEFAULT_SITES,
        pairs: Sequence[tuple[int, int]] | None = None,
        shared_positions: Sequence[tuple[Sequence[int], Sequence[int]]] | None = None,
        keep: str | Iterable[str] = (),
        word_maps: bool = False,
        text_layer_norm: bool = True,
    ) -> None:
        self._pipe = pipe
        self._patterns, self._keep_patterns = sites, keep
        self._pairs = [] if pairs is None else list(pairs)
        self._shared_positions = shared_positions
        self._word_maps = word_maps
        self._text_layer_norm = text_layer_norm
        self._phase = "new"  # new, inside, done, failed

    # Entering and leaving

    def __enter__(self) -> Probe:
        if self._phase != "new":
            raise HookError("Probe: entered a second time; one probe watches one block: make a new one")
        self._prepare()
        with contextlib.ExitStack() as stack:  # rolls back what was attached if anything fails
            self._attach(stack)
            self._hooks = stack.pop_all()
        self._phase = "inside"
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._hooks.close()
        self._phase = "failed"
        if kind is None:
            self._finish()
            self._phase = "done"
        self._readers, self._batch, self._attention, self._numbers, self._tensors = [], None, None, None, None

    def _prepare(self) -> None:
        pipe = self._pipe
        compared = self._resolve(self._patterns)  # also without pairs, so that a wrong address is told
        compared = compared if self._pairs else []
        kept = site_table.resolve(pipe, self._keep_patterns) if self._keep_patterns else []
        wanted = {site.address for site in (*compared, *kept)}
        self._sites = {site.address: site for site in site_table.available(pipe) if site.address in wanted}
        self._check_vae()
        per_step = {site.address for site in self._sites.values() if site.per_step}
        self._left, self._right = _pair_rows(self._pairs)
        if self._shared_positions is not None and not self._pairs:
            raise HookError("shared_positions: given without pairs: pass the pairs they belong to")
        self._shared = (
            SharedPositions(self._shared_positions, len(self._pairs))
            if self._shared_positions is not None
            else None
        )
        keys = [f"{site.address}:{metric}" for site in compared for metric in self._metrics(site)]
        self._numbers = Records(keys, {key for key in keys if key.rpartition(":")[0] in per_step})
        self._tensors = Records([site.address for site in kept], per_step)
        self._once = [key for key in (*keys, *self._sites) if key.startswith(ONCE_AFTER_DENOISING)]
        self._batch: Batch | None = None
        self._input: Tensor | None = None
        self._timestep: Any = None
        self._rows: int | None = None
        self._timesteps: list[Any] = []
        self._parts: dict[str, list[Tensor]] = {}
        self._pair_devices: dict[torch.device, tuple[Tensor, Tensor]] = {}
        needs_text = any(site.kind == "text" for site in self._sites.values())
        self._readers = [
            TextReader(pipe, name, part)
            for name, part in TEXT_ENCODERS.items()
            if needs_text and site_table.text_core(pipe, part) is not None
        ]
        self._attention = AttentionSums(pipe, lambda: self._batch) if self._word_maps else None

    def _resolve(self, patterns: str | Iterable[str]) -> list[Site]:
        if patterns is DEFAULT_SITES:  # all there are, so a missing x0_pred is no error here
            return site_table.available(self._pipe)
        return site_table.resolve(self._pipe, patterns)

    def _metrics(self, site: Site) -> Sequence[str]:
        if site.kind != "text":
            return ("cosine",)
        return METRICS_OF_TEXT if self._shared is not None else METRICS_OF_TEXT[:2]

    def _check_vae(self) -> None:
        after = [address for address in self._sites if address.startswith(ONCE_AFTER_DENOISING)]
        if after and getattr(self._pipe.vae, "use_tiling", False):
            raise HookError(
                f"{after[0]}: the VAE decodes in tiles, which no site can read whole: "
                "call pipe.vae.disable_tiling() or leave latent.final, vae.* and image out"
            )

    def _attach(self, stack: contextlib.ExitStack) -> None:
        """Order matters on the UNet only: its batch is known before, and forgotten after, its modules run."""
        unet = self._pipe.unet
        stack.callback(unet.register_forward_pre_hook(self._before_unet, with_kwargs=True).remove)
        for reader in self._readers:
            reader.attach(stack)
        if self._attention is not None:
            self._attention.attach(stack)
        for site in self._sites.values():
            module = module_at(self._pipe, site.module)
            if site.kind == "unet":
                stack.callback(module.register_forward_hook(self._on_unet_module(site)).remove)
            elif site.address == "latent.final":
                stack.callback(module.register_forward_pre_hook(self._before_decoding).remove)
            elif site.kind in ("vae", "image"):
                stack.callback(module.register_forward_hook(self._on_decoding(site.address)).remove)
        stack.callback(unet.register_forward_hook(self._after_unet).remove)

    # What the hooks do

    @torch.no_grad()
    def _before_unet(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names = ("sample", "timestep", "encoder_hidden_states")
        given = {name: args[i] if i < len(args) else kwargs.get(name) for i, name in enumerate(names)}
        sample, states = given["sample"], given["encoder_hidden_states"]
        self._refuse_second_call()
        branches = 2 if getattr(self._pipe, "do_classifier_free_guidance", False) else 1
        if sample.shape[0] % branches:
            raise HookError(f"UNet: expected an even batch under guidance, but got {sample.shape[0]} rows")
        rows = sample.shape[0] // branches
        if self._rows not in (None, rows):
            raise HookError(f"UNet: expected {self._rows} rows as in the first call, but got {rows}")
        if self._attention is not None and kwargs.get("encoder_attention_mask") is not None:
            raise HookError("word_maps: the pipeline masks tokens in cross-attention: leave word_maps off")
        self._batch = Batch(rows, branches, *sample.shape[-2:])
        self._input = self._batch.conditional(sample, "latent")[:, : self._pipe.vae.config.latent_channels]
        self._timestep = given["timestep"]
        if self._rows is None:
            self._check_pairs(rows)
            self._rows = rows
            final = self._batch.conditional(states, "text.final")
            for site in conditional_states(self._readers, final, self._sites):
                self._record_text(site)
        for reader in self._readers:
            reader.runs.clear()
        self._timesteps.append(self._timestep)
        self._numbers.clear(self._once)
        self._tensors.clear(self._once)
        self._parts.clear()
        self._record("latent", self._input)

    @torch.no_grad()
    def _after_unet(self, module: Any, args: Any, output: Any) -> None:
        batch, self._batch = self._batch, None
        if batch is None:
            return
        output = first_tensor(output)
        conditional = guided = batch.conditional(output, "noise_pred")
        if batch.branches == 2:
            unconditional = output[: batch.rows]
            self._record("noise_pred.unconditional", unconditional)
            if "noise_pred.guided" in self._sites or "x0_pred" in self._sites:
                rescale = getattr(self._pipe, "guidance_rescale", 0.0)
                guided = guide(unconditional, conditional, self._pipe.guidance_scale, rescale)
        self._record("noise_pred.conditional", conditional)
        self._record("noise_pred.guided", guided)
        if "x0_pred" in self._sites:
            scheduler = self._pipe.scheduler
            level = signal_level(scheduler, self._timestep, guided.device)
            kind = getattr(scheduler.config, "prediction_type", "epsilon")
            self._record("x0_pred", predict_x0(self._input, guided, level, kind))
        self._input = None

    def _on_unet_module(self, site: Site) -> Callable[..., None]:
        @torch.no_grad()
        def hook(module: Any, args: Any, output: Any) -> None:
            if self._batch is not None:
                self._record(site.address, self._batch.conditional(first_tensor(output), site.address))

        return hook

    @torch.no_grad()
    def _before_decoding(self, module: Any, args: tuple[Any, ...]) -> None:
        config = self._pipe.vae.config
        mean, std = getattr(config, "latents_mean", None), getattr(config, "latents_std", None)
        latent = args[0]
        if "XL" in type(self._pipe).__name__ and mean is not None and std is not None:
            mean, std = (latent.new_tensor(v).view(1, -1, 1, 1) for v in (mean, std))
            latent = (latent - mean) * config.scaling_factor / std
        else:
            latent = latent * config.scaling_factor
        self._gather("latent.final", latent)

    def _on_decoding(self, address: str) -> Callable[..., None]:
        @torch.no_grad()
        def hook(module: Any, args: Any, output: Any) -> None:
            self._gather(address, first_tensor(output))

        return hook

    # Recording

    def _record(self, address: str, values: Tensor) -> None:
        call = len(self._timesteps) - 1
        key = f"{address}:cosine"
        if key in self._numbers:
            self._numbers.add(key, call, *products(values, *self._rows_on(values.device)))
        if address in self._tensors:
            self._tensors.add(address, call, _keep(values))

    def _gather(self, address: str, values: Tensor) -> None:
        """Record a site of the decoder once the whole batch is there (`vae.enable_slicing`: row by row)."""
        if self._rows is None:
            return  # a decode outside the pipeline's own call
        parts = self._parts.setdefault(address, [])
        if sum(len(part) for part in parts) + len(values) > self._rows:
            parts.clear()  # an earlier decode of some of the rows
        parts.append(values)
        if sum(len(part) for part in parts) != self._rows:
            return
        whole = parts[0] if len(parts) == 1 else torch.cat(parts)
        del self._parts[address]
        key = f"{address}:cosine"
        self._numbers.clear([key])
        self._tensors.clear([address])
        if key in self._numbers:
            self._numbers.add(key, 0, *products(whole, *self._rows_on(whole.device)))
        if address in self._tensors:
            self._tensors.add(address, 0, _keep(whole))

    def _record_text(self, site: TextStates) -> None:
        if f"{site.address}:cosine_sequence" in self._numbers:
            compared = site.normed if self._text_layer_norm else site.raw
            left, right = (rows // site.repeats for rows in self._rows_on(compared.device))
            found = {"cosine_sequence": cosine(compared, left, right)}
            if site.ends is None:  # prompt_embeds came from elsewhere: where their text ends is not known
                found["cosine_eos"] = torch.full_like(found["cosine_sequence"], torch.nan)
            else:
                found["cosine_eos"] = cosine_at(compared, left, right, site.ends.to(compared.device))
            if self._shared is not None:
                found["cosine_words"] = self._shared.cosine(compared, left, right)
            for metric, values in found.items():
                self._numbers.add(f"{site.address}:{metric}", 0, values)
        if site.address in self._tensors:
            self._tensors.add(site.address, 0, _keep(site.raw))

    def _rows_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        if device not in self._pair_devices:
            self._pair_devices[device] = (self._left.to(device), self._right.to(device))
        return self._pair_devices[device]

    def _check_pairs(self, rows: int) -> None:
        for p, pair in enumerate(self._pairs):
            if max(pair) >= rows:
                raise HookError(
                    f"pairs[{p}]: expected rows below the {rows} of the batch, but got {tuple(pair)}"
                )

    def _refuse_second_call(self) -> None:
        calls = len(self._timesteps)
        planned = getattr(self._pipe, "num_timesteps", None)
        again = calls > 0 and any(reader.runs for reader in self._readers)
        if again or (planned is not None and calls >= planned):
            raise HookError(
                "Probe: expected one call of the pipeline inside the block, but its denoising (or its text "
                "encoder) began again: make a new Probe for each call"
            )

    # Results

    @torch.no_grad()
    def _finish(self) -> None:
        timesteps = timesteps_to_array(self._timesteps)
        self._similarity = self._numbers.similarities(timesteps, self._left, self._right)
        self._kept = self._tensors.tensors(timesteps)
        self._maps = self._attention.finish() if self._attention is not None else None

    def _require_done(self, name: str) -> None:
        if self._phase == "new" or self._phase == "inside":
            raise HookError(f"Probe.{name}: read before the end of the block: leave the `with` first")
        if self._phase == "failed":
            raise HookError(f"Probe.{name}: the block ended with an exception: nothing was recorded")
        if self._rows is None:
            raise HookError(f"Probe.{name}: the pipeline was not called inside the block")

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
    def maps(self) -> WordMaps:
        """Word maps of every row."""
        self._require_done("maps")
        if self._maps is None:
            raise HookError("Probe.maps: not asked for: pass word_maps=True")
        return self._maps


def _pair_rows(pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    for p, pair in enumerate(pairs):
        if len(tuple(pair)) != 2 or any(int(row) != row or row < 0 for row in pair):
            raise HookError(f"pairs[{p}]: expected two rows of the batch, counted from 0, but got {pair!r}")
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return torch.from_numpy(table[:, 0].copy()), torch.from_numpy(table[:, 1].copy())


def _keep(values: Tensor) -> Tensor:
    return values.detach().to("cpu", torch.float32, copy=True)
