"""The checks of ``triptych verify`` on a loaded pipeline: images, word maps, captures, tokens, patches, cost."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, util
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from hooks.architectures.registry import architecture_of
from hooks.architectures.text_encoders import TEXT_ENCODERS, TOKENIZERS
from hooks.errors import HookError
from hooks.intervention import Intervention
from hooks.patch import Patch
from hooks.probe import Probe
from hooks.sites import attention_sites, available, module_at
from probes.models.loading import LoadedModel
from probes.models.weights import weight_hash
from probes.stages.batch_generation import call_pipeline
from triptych.installation import requirements, unmet_requirements, version_lines
from triptych.verification.softmax import EagerMaps, UntestableError, find_places, listening, replaced

Outcome = tuple[bool, str, dict[str, Any]]  # whether it passed, a sentence, and its numbers
WORDS = ("woman", "man", "person")  # one token of most tokenizers each
TEXT = "a {} holding an umbrella in the park"
KEPT = ("latent", "latent.final", "image", "noise_pred.*", "x0_pred", "text*")
ROUNDS = 3
GUIDED = 4.0  # guidance scale with two branches, where the model's own has one
ONE_GREY = 1 / 255
STATUS, CLEAR = (
    Path("/proc/self/status"),
    Path("/proc/self/clear_refs"),
)  # of Linux: peak memory, and its reset


def outcome(passed: bool, text: str, **numbers: Any) -> Outcome:
    """Return an outcome whose sentence is the text with its numbers filled in."""
    text = text.format(**numbers)
    finite = {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in numbers.items()}
    return bool(passed), text, finite


def optional(package: str) -> Any:
    """Return an optional package; UntestableError if it is not installed."""
    if util.find_spec(package) is None:
        raise UntestableError(f"{package} is not installed")
    return import_module(package)


def difference(one: Any, other: Any) -> float:
    """Return the largest absolute difference of two arrays or tensors."""
    return float(abs(one - other).max())


def digest(images: np.ndarray) -> str:
    """Return the SHA-256 of images as 8-bit pixels."""
    return hashlib.sha256((images * 255).round().astype("uint8").tobytes()).hexdigest()


@contextlib.contextmanager
def recording(pipe: Any) -> Iterator[SimpleNamespace]:
    """Record what a pipeline itself computes in one call.

    `steps`: what the scheduler was given and returned; `encoded`: what `encode_prompt` returned; `encoders`: arguments
    of each first call of a text encoder; by the callback `after_step`, `latents` as the denoiser is given them next,
    and the `final` ones.
    """
    own = SimpleNamespace(steps=[], encoded=[], encoders={}, latents=[], final=None)
    step, encode = pipe.scheduler.step, pipe.encode_prompt
    scale = getattr(pipe.scheduler, "scale_model_input", None)

    @functools.wraps(step)  # pipelines ask which arguments it takes
    def record_step(output: Any, timestep: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
        result = step(output, timestep, sample, *args, **{**kwargs, "return_dict": True})
        own.steps.append((output, result))
        return result if kwargs.get("return_dict", True) else result.to_tuple()

    def record_encoded(*args: Any, **kwargs: Any) -> Any:
        own.encoded.append(encode(*args, **kwargs))
        return own.encoded[-1]

    def after_step(index: int, tensors: dict[str, Any]) -> dict[str, Any]:
        own.final, times = tensors["latents"], pipe.scheduler.timesteps
        if index + 1 < len(times):
            own.latents.append((scale(own.final, times[index + 1]) if scale else own.final).clone())
        return {}

    own.after_step = after_step
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(pipe.scheduler, "step", record_step))
        stack.enter_context(replaced(pipe, "encode_prompt", record_encoded))
        for name, part in TEXT_ENCODERS.items():
            if getattr(pipe, part, None) is not None:
                keep = functools.partial(
                    lambda name, *call: own.encoders.setdefault(name, call[1:]) and None, name
                )
                stack.callback(getattr(pipe, part).register_forward_pre_hook(keep, with_kwargs=True).remove)
        yield own


class Checks:
    """The checks of one loaded model: public methods, each of which returns its outcome."""

    def __init__(self, loaded: LoadedModel, images: int, steps: int, size: int | None) -> None:
        self.loaded, self.pipe, self.dtype = loaded, loaded.pipe, getattr(torch, loaded.dtype)
        self.architecture, self.on_gpu = architecture_of(self.pipe), loaded.device.startswith("cuda")
        self.prompts = [TEXT.format(WORDS[row % len(WORDS)]) for row in range(images)]
        height, width = self.architecture.image_size(self.pipe, size, size)
        self.call = {"steps": steps, "guidance_scale": loaded.guidance_scale}
        self.call |= {"height": height, "width": width}
        # Sana-Sprint's scheduler works on data of this spread
        self.spread = self.pipe.scheduler.config.get("sigma_data", 1.0)
        self.images = self.generate()
        with recording(self.pipe) as self.own, self.probe(word_maps=True, keep=KEPT) as self.seen:
            self.images_seen = self.generate(after_step=self.own.after_step)

    def generate(
        self,
        prompts: Sequence[str] = (),
        seeds: Sequence[int] = (),
        after_step: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda index, tensors: {},
        **settings: Any,
    ) -> np.ndarray:
        """Return images (n, height, width, 3) from 0 to 1, by default of `prompts` from one and the same noise."""
        texts = list(prompts or self.prompts)
        seeds = list(seeds or [0] * len(texts))
        return call_pipeline(self.pipe, texts, seeds, after_step, **{**self.call, **settings})[0]

    def probe(self, prompts: Sequence[str] = (), **options: Any) -> Probe:
        """Return a probe of all sites for a generation of the prompts, as a run makes it."""
        given = list(prompts or self.prompts) if self.architecture.transformer else None
        return Probe(self.pipe, prompts=given, pairs=[(0, 1)], **options)

    # What is there

    def versions(self) -> Outcome:
        """Versions of the packages; fails if a required one is missing or too old."""
        unmet = unmet_requirements(requirements())
        return outcome(not unmet, "; ".join([*version_lines(), *(f"expected {one}" for one in unmet)]))

    def device(self) -> Outcome:
        """Device and number format; fails if images are not finite."""
        name = torch.cuda.get_device_name(self.loaded.device) if self.on_gpu else self.loaded.device
        finite = np.isfinite(self.images).all()
        return outcome(
            finite, f"{name}, {self.loaded.dtype}; images are {'' if finite else 'not '}finite", name=name
        )

    def weights(self) -> Outcome:
        """Hash of all weights; fails if it is another after the checks."""
        before, now = self.loaded.record["weight_hash"], weight_hash(self.pipe)
        return outcome(before == now, "SHA-256 {before} before the checks, {now} now", before=before, now=now)

    # Images

    def image(self) -> Outcome:
        """Images with and without the probe, bit for bit; all sites read, word maps summed."""
        if not np.array_equal(self.images, self.generate()):
            raise UntestableError("two generations without the probe differ on this device")
        same = np.array_equal(self.images, self.images_seen)
        text = f"{len(self.images)} images {'bit-identical' if same else 'different'} without and with the "
        text += "probe; SHA-256 {without} and {seen}"
        return outcome(same, text, without=digest(self.images), seen=digest(self.images_seen))

    def altered(self, *, maps: bool) -> Outcome:
        """Images with and without the probe and, if asked, the word maps of the pipeline as it was altered."""
        plain = self.generate()
        with self.probe(word_maps=True) as self.seen:
            same = np.array_equal(plain, self.generate())
        right, text, numbers = self.maps() if maps else (True, "not compared", {})
        changed = difference(plain, self.images)
        text = f"{changed:.2g} from those before; maps: {text}"
        text = f"images {'bit-identical' if same else 'different'} with the probe, {text}"
        return same and right and (changed > 0 or not maps), text, {**numbers, "changed": changed}

    # Word maps

    @functools.cached_property
    def places(self) -> Any:
        """Where prompts, image and text stand in the attention, found by experiment."""
        return find_places(self.pipe, next(iter(self.modules.values())), self.generate, len(self.prompts))

    @property
    def modules(self) -> dict[str, Any]:
        """Modules of the attentions that enter the word maps, by address."""
        sites = {site.address: site.module for site in attention_sites(self.pipe, "cross")}
        return {address: module_at(self.pipe, sites[address]) for address in self.seen.maps.layers}

    def maps(self) -> Outcome:
        """Word maps of the probe and an eager softmax in float32 of all queries and keys."""
        maps, columns = self.seen.maps, self.seen.maps.columns
        eager = EagerMaps(self.places, columns)
        with listening(self.modules, eager.receive):
            self.generate()
        expected = eager.maps(maps.values.shape[2:]).numpy()
        largest, found = float(expected.max()), difference(maps.values[:, : expected.shape[1]], expected)
        bound = eager.relative_bound(self.dtype) * largest
        text = "max |difference| {difference:.2g}, at most {bound:.2g} by rounding, of {largest:.3g} at most"
        text += f"; {maps.definition}, {len(maps.layers)} layers, {sum(map(len, columns))} tokens"
        return outcome(found <= bound and largest > 0, text, difference=found, bound=bound, largest=largest)

    def daam(self) -> Outcome:
        """Word maps of the probe and of the package daam, of one image; U-Nets alone."""
        if self.architecture.transformer:
            raise UntestableError("daam reads U-Nets alone")
        with optional("daam").trace(self.pipe) as tracer:
            self.generate(self.prompts[:1])
            heat = tracer.compute_global_heat_map(self.prompts[0]).heat_maps.float().cpu().numpy()
        with Probe(self.pipe, word_maps="daam") as probe:
            self.generate(self.prompts[:1])
        found = difference(probe.maps.heat(0), heat[list(probe.maps.columns[0])])
        text = "max |difference| {difference:.2g}, at most 1 % of the largest value {largest:.3g}"
        return outcome(found <= 0.01 * heat.max(), text, difference=found, largest=float(heat.max()))

    # Captures

    def latents(self) -> Outcome:
        """Latents and guided predictions that the probe kept, and those of callback and scheduler; exact."""
        if self.spread != 1:
            raise UntestableError(
                "between scheduler and denoiser the pipeline scales latents and predictions itself"
            )
        kept = {name: self.seen.kept[name].values for name in ("latent", "noise_pred.guided")}
        pairs = [
            *zip(kept["latent"][1:], self.own.latents),
            *zip(kept["noise_pred.guided"], (one for one, _ in self.own.steps)),
        ]
        found = max((self._difference(*pair) for pair in pairs), default=np.inf)
        text = "{pairs} latents of the pipeline's callback and predictions that its scheduler was given: "
        text += "max |difference| {difference:.2g}, expected 0"
        return outcome(found == 0, text, pairs=len(pairs), difference=found)

    def x0(self) -> Outcome:
        """x₀ predicted at the last step, and the scheduler's own, or the latent at sigma 0."""
        scheduler, result = self.pipe.scheduler, self.own.steps[-1][1]
        if "x0_pred" not in self.seen.kept:
            raise UntestableError(
                self.architecture.why_unavailable(self.pipe, "x0_pred") or "no site x0_pred"
            )
        own, ends = getattr(result, "pred_original_sample", None), getattr(scheduler, "sigmas", None)
        if own is None and (ends is None or float(ends[-1]) != 0):
            raise UntestableError(f"{type(scheduler).__name__} returns no x₀ of its own")
        if scheduler.config.get("clip_sample") or scheduler.config.get("thresholding"):
            raise UntestableError(f"{type(scheduler).__name__} clips its x₀")
        own = result.prev_sample if own is None else own / self.spread
        return self._near(self.seen.kept["x0_pred"].values[-1], own)

    def decoded(self) -> Outcome:
        """Final latent and decoded image, and the last callback's latents and the pipeline's images."""
        if self.own.final is None:
            raise UntestableError("the pipeline calls no callback")
        latent, image = (self.seen.kept[name].values[0] for name in ("latent.final", "image"))
        last = self.own.steps[-1][1]  # Sana-Sprint decodes its x₀
        pairs = [
            (latent, self.own.final if self.spread == 1 else last.pred_original_sample / self.spread),
            ((image / 2 + 0.5).clamp(0, 1), torch.from_numpy(self.images_seen).movedim(-1, 1)),
        ]
        outcomes = [self._near(*pair) for pair in pairs]
        return max(outcomes, key=lambda one: (not one[0], one[2]["difference"]))

    def text(self) -> Outcome:
        """States of the text: those that `encode_prompt` returned, and each layer of each encoder called once more."""
        final, kept, same = self.seen.kept["text.final"].values[0], self.seen.kept, list[bool]()
        for states in (value for call in self.own.encoded for value in call):
            if isinstance(states, list) and states and isinstance(states[0], Tensor) and states[0].ndim == 2:
                states = pad_sequence(states, batch_first=True)
            if isinstance(states, Tensor) and states.shape == final.shape:
                same.append(torch.equal(states.float().cpu(), final))
        if not same:
            raise UntestableError("encode_prompt returns no states of the shape that the denoiser is given")
        layers = {  # the last may have been normalised
            f"{name}.layers.{layer}": states
            for name in self.own.encoders
            for layer, states in enumerate(self.hidden_states(name)[1:-2])
        }
        wrong = [name for name, states in layers.items() if not torch.equal(kept[name].values[0], states)]
        text = f"text.final is {'' if any(same) else 'not '}what encode_prompt returned; {{layers}} layers of encoders "
        text += f"compared with their own hidden states, {{wrong}} differ {' '.join(wrong[:4])}"
        passed = any(same) and layers and not wrong
        return outcome(passed, text.rstrip(), layers=len(layers), wrong=len(wrong))

    @torch.no_grad()
    def hidden_states(self, name: str) -> list[Tensor]:
        """Hidden states of a text encoder, those that it returns last, called again as the pipeline did first."""
        args, kwargs = self.own.encoders[name]
        output = getattr(self.pipe, TEXT_ENCODERS[name])(*args, **{**kwargs, "output_hidden_states": True})
        hidden = output.hidden_states
        all_states = (*hidden, getattr(output, "last_hidden_state", hidden[-1]))
        return [self.from_start(name, one.float().cpu()) for one in all_states]

    def token_ids(self, name: str) -> Tensor:
        """Ids (rows, tokens) that a text encoder was given first."""
        args, kwargs = self.own.encoders[name]
        return (kwargs["input_ids"] if "input_ids" in kwargs else args[0]).cpu()

    def from_start(self, name: str, values: Tensor) -> Tensor:
        """Values (rows, tokens, ...) from the start of each text on, where an encoder has padding before it."""
        tokenizer, ids = getattr(self.pipe, TOKENIZERS[name]), self.token_ids(name)
        if tokenizer.padding_side != "left":
            return values
        starts = (ids != tokenizer.pad_token_id).int().argmax(dim=1).tolist()
        return torch.stack([row.roll(-start, 0) for row, start in zip(values, starts)])

    def guidance(self) -> Outcome:
        """Rows of the batch: with prompts in reverse order their predictions are reversed, and the others stay."""
        scale, config = self.call["guidance_scale"], dict(self.architecture.denoiser(self.pipe).config)
        if not self.architecture.is_guided(config, scale) and self.architecture.is_guided(config, GUIDED):
            scale = GUIDED  # else there is one row an image, which no order mixes up
        first: dict[str, list[Tensor]] = {"conditional": [], "unconditional": []}
        for prompts in (self.prompts, self.prompts[::-1]):
            with self.probe(prompts, keep="noise_pred.*") as probe:
                self.generate(prompts, guidance_scale=scale)
            for name, values in first.items():
                values.append(probe.kept[f"noise_pred.{name}"].values[:1])
        (one, other), (empty, still) = first.values()
        numbers = {"shift": difference(one, other), "back": difference(one.flip(1), other), "still": 0.0}
        text = "one branch"
        if len(empty):
            numbers["still"], text = difference(empty, still), "those without prompts differ by {still:.2g}"
        bound = 64 * torch.finfo(self.dtype).eps * float(one.abs().max())
        passed = max(numbers["back"], numbers["still"]) <= bound < numbers["shift"]
        text = f"with prompts exchanged predictions differ by {{shift:.2g}}, exchanged back by {{back:.2g}}; {text}"
        return outcome(passed, text, scale=scale, bound=bound, **numbers)

    def tokens(self) -> Outcome:
        """Tokens of each prompt word: the ids that the text encoder was given at its positions spell it."""
        wrong, count, traced, width = list[str](), 0, 0, 0
        for name in self.own.encoders:
            ids, tokenizer = self.from_start(name, self.token_ids(name)), getattr(self.pipe, TOKENIZERS[name])
            words = [(row, word) for row in range(len(self.prompts)) for word in self.seen.words(row)]
            words = [(row, word) for row, word in words if word.encoder == name and not word.cut_off]
            spelled = [tokenizer.decode(ids[row][list(word.positions)].tolist()) for row, word in words]
            count += len(words)
            wrong += [
                text
                for text, (_, word) in zip(spelled, words)
                if re.sub(r"\W", "", text).lower() != word.lower
            ]
            layers = self.hidden_states(name)
            traced += len(words) * self._traced(words, layers, width)
            width += layers[0].shape[-1]
        text = f"{{words}} words in {', '.join(self.own.encoders)}, {{wrong}} misspelled {' '.join(wrong[:4])}".rstrip()
        text += "; of {traced}, the columns of the denoiser's text hold the encoder's states"
        return outcome(count and not wrong, text, words=count, wrong=len(wrong), traced=traced)

    def _traced(self, words: Sequence[tuple[int, Any]], layers: Sequence[Tensor], before: int) -> bool:
        """Return whether the columns of the words' maps hold their states of one layer, beside `before` channels."""
        final = self.seen.kept["text.final"].values[0]
        try:
            columns = [[*self.seen.word_map(word, row).positions] for row, word in words]
        except HookError:  # an encoder whose tokens the denoiser is not given
            return False
        return any(
            all(
                torch.equal(part[row, own], states[row, [*word.positions]])
                for own, (row, word) in zip(columns, words)
            )
            for states in (states.to(self.dtype).float() for states in layers)
            for part in (final[..., start : start + states.shape[-1]] for start in (0, before))
        )

    # Patches

    def patch_own(self) -> Outcome:
        """A row's own states written into it at every default site leave the images bit-identical."""
        sites = [
            one for one in available(self.pipe) if one.default and one.read_only is None and not one.decoded
        ]
        with Intervention(self.pipe, [Patch(site.address, source=1, into=1) for site in sites]):
            images = self.generate()
        text = "row 1 into row 1 at {sites} sites: images differ by {difference:.2g}, expected 0"
        found = difference(images, self.images)
        return outcome(found == 0, text, sites=len(sites), difference=found)

    def patch_other(self) -> Outcome:
        """All text states of row 0 in row 1, from the same noise, give the image of row 0."""
        addresses = [f"{name}.embeddings" for name in TEXT_ENCODERS if f"{name}.embeddings" in self.seen.kept]
        with Intervention(self.pipe, [Patch(address, source=0, into=1) for address in addresses]):
            image = self.generate()[1]
        found, before = (difference(one, self.images[0]) for one in (image, self.images[1]))
        text = f"{', '.join(addresses)} of row 0 into row 1: images of the rows differ by {{difference:.2g}}, before by"
        text += " {before:.2g}; expected at most one grey level"
        return outcome(found <= ONE_GREY < before, text, difference=found, before=before)

    # Cost

    def cost(self) -> Outcome:
        """Time and peak memory with the probe over those without, medians of three rounds; images stay the same."""
        rounds, same = [], True
        for _ in range(ROUNDS):
            images, *plain = self._measured(contextlib.nullcontext())
            images_seen, *probed = self._measured(self.probe(word_maps=True))
            same &= np.array_equal(images, self.images) and np.array_equal(images_seen, self.images)
            rounds.append([one / other if other else np.nan for one, other in zip(probed, plain)])
        ratio, memory = (round(median(values), 3) for values in zip(*rounds))
        text = f"with the probe {{time}} times the time, {{memory}} times the peak memory; without it {plain[0]:.2f} s,"
        text += f" {plain[1] / 1e6:.0f} MB; images {'the same' if same else 'different'} in {ROUNDS} rounds"
        return outcome(same, text, time=ratio, memory=memory if memory == memory else None)

    def _measured(self, block: contextlib.AbstractContextManager[Any]) -> tuple[np.ndarray, float, float]:
        """Return images generated in a block, seconds, and peak memory in bytes (0 where it cannot be measured)."""
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats(self.loaded.device)
        with contextlib.suppress(OSError):
            CLEAR.write_text("5")
        began = time.perf_counter()
        with block:
            images = self.generate()
        seconds = time.perf_counter() - began
        if self.on_gpu:
            return images, seconds, torch.cuda.max_memory_allocated(self.loaded.device)
        peak = re.search(r"VmHWM:\s+(\d+) kB", STATUS.read_text()) if CLEAR.exists() else None
        return images, seconds, 1024 * int(peak[1]) if peak else 0

    def _difference(self, kept: Tensor, own: Tensor) -> float:
        """Return the largest difference of kept and own values; packed ones are unpacked by the pipeline, or sorted."""
        kept, own = kept.float().cpu(), own.float().cpu()
        if kept.shape != own.shape and own.ndim == 3 and hasattr(self.pipe, "_unpack_latents"):
            with contextlib.suppress(TypeError):
                own = self.pipe._unpack_latents(
                    own, self.call["height"], self.call["width"], self.pipe.vae_scale_factor
                )
        own = own.squeeze(2) if own.ndim == 5 else own
        if kept.shape != own.shape:
            kept, own = (values.flatten(1).sort(dim=1).values for values in (kept, own))
        return difference(kept, own) if kept.shape == own.shape else np.inf

    def _near(self, kept: Tensor, own: Tensor) -> Outcome:
        """The outcome of comparing values that are rounded in two ways, within 16 units of the largest one."""
        found, bound = (
            self._difference(kept, own),
            16 * torch.finfo(self.dtype).eps * max(1.0, float(own.abs().max())),
        )
        text = "max |difference| {difference:.2g}, at most {bound:.2g} by rounding"
        return outcome(found <= bound, text, difference=found, bound=bound)
