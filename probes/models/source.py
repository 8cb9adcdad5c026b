"""A model as its files describe it, without its weights: each file is read once, checked, and kept with the source.

The networks are built by the libraries from their configurations on torch's meta device and run once, so that a size
that does not fit another is reported in one line, naming the file, before an image is generated or a file is written.
"""

from __future__ import annotations

import copy
import importlib
import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hooks.architectures import latents
from hooks.architectures.base import Architecture, build_on_meta
from hooks.architectures.layout import Layout, MisfitError
from hooks.architectures.registry import generating_pipeline, why_unread
from hooks.architectures.text_encoders import longest_text, text_config
from hooks.errors import HookError
from hooks.prompt.given import prompt_tokenizers
from probes.config.generation import Quantization
from probes.errors import UserError, first_line, parse_json
from probes.models import pretrained

INDEX = "model_index.json"
CARD = "triptych.json"  # what a model was made for
SCHEDULER = "scheduler/scheduler_config.json"
# they read images or judge them; drawing from text needs none
IMAGE_READERS = ("safety_checker", "feature_extractor", "image_encoder")
_DESCRIBING = (".json", ".txt", ".model")
_SENTENCEPIECE = ("spiece.model", "tokenizer.model")
VOCABULARIES = ("tokenizer.json", "vocab.json", *_SENTENCEPIECE)  # a tokenizer has one of them

# the remedy for a model that cannot be drawn with
SUPPORTED = "choose a text-to-image model of a pipeline that `triptych models` lists"
UNQUANTIZED = "give the folder or hub id of the model that it was quantized from"
# by the method that a configuration names: the module that reads weights of it
QUANTIZERS = {
    "bitsandbytes": "bitsandbytes",
    "torchao": "torchao",
    "quanto": "optimum.quanto",
    "gguf": "gguf",
}
_AGAIN = "mend or download it again"


@dataclass(frozen=True)
class Added:
    """What a configuration puts into a model: files of LoRAs with their scale and of new words, decoder, quantization.

    `gguf` is the file of the denoiser's weights, `vae` the folder of another decoder.
    """

    loras: tuple[tuple[Path, float], ...] = ()
    words: tuple[tuple[Path, str | None], ...] = ()
    vae: Path | None = None
    gguf: Path | None = None
    quantization: Quantization | None = None

    @property
    def files(self) -> dict[str, tuple[Path, str]]:
        """Each file that is read whole, and how it acts, by a name for it."""
        loras = {f"lora[{i}]": (path, f" at scale {scale:g}") for i, (path, scale) in enumerate(self.loras)}
        words = {
            f"textual_inversion[{i}]": (path, f" as {token}" if token else "")
            for i, (path, token) in enumerate(self.words)
        }
        return loras | words | ({"quantization.file": (self.gguf, "")} if self.gguf else {})


@dataclass(frozen=True)
class Source:
    """A model before its weights are loaded: where its files are, and what its description says (each file read once).

    `kind` is ``bundled``, ``hub``, ``folder`` or ``file``; `config` is the folder that describes the pipeline;
    `revision` the commit of a model of the hub; `variant` the weights that are asked for, None for full precision;
    `bases` other models' folders, whose files stand in, in this order, for those that this one lacks; `from_pictures`
    whether its pipeline is that for image to image; `added` what a configuration puts into it.
    """

    name: str
    kind: str
    path: Path
    config: Path
    revision: str | None = None
    variant: str | None = None
    bases: tuple[Path, ...] = ()
    from_pictures: bool = False
    added: Added = Added()
    _contents: dict[Path, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields without the cached contents of files: another process reads them itself."""
        return Source, tuple(getattr(self, one.name) for one in fields(self) if one.init)

    def locate(self, name: str) -> Path:
        """Return the path of a file or folder of the model, by its name in it; where it lacks one, of a base model's.

        The card of a single file is beside it.
        """
        if self.added.vae and name.partition("/")[0] == "vae":
            return self.added.vae / name.partition("/")[2]
        beside = [self.path.parent] if self.kind == "file" and name == CARD else []
        for place in (*beside, self.config, *self.bases):
            if (place / name).exists():
                return place / name
        return self.config / name

    # Errors

    def file_error(self, file: str, expected: str, got: str, remedy: str) -> UserError:
        """Return the `UserError` on a faulty file of the model: ``model NAME: FILE: expected ..., got ...: REMEDY``."""
        return UserError(f"model {self.name}: {file}: expected {expected}, got {got}: {remedy}")

    def readable(self, file: str, expected: str, remedy: str = _AGAIN) -> AbstractContextManager[None]:
        """Context manager: turn any error of a library on a file of the model into a one-line `UserError`."""
        return pretrained.readable(f"model {self.name}: {file}", expected, remedy)

    # Files

    def _read_bytes(self, path: Path) -> bytes:
        """Return the bytes of a file, which is read once and then cached."""
        if path not in self._contents:
            self._contents[path] = path.read_bytes()
        return self._contents[path]

    def read_json(self, file: str) -> dict[str, Any]:
        """Return the JSON object in a file of the model, by its name in it; a `UserError` if there is none."""
        try:
            data = parse_json(self._read_bytes(self.locate(file)))
        except FileNotFoundError:
            raise self.file_error(file, "a description", "no such file", "add or download it") from None
        except (OSError, ValueError) as error:
            raise self.file_error(file, "a description as JSON", f"`{first_line(error)}`", _AGAIN) from None
        if not isinstance(data, dict):
            kind = "null" if data is None else f"a {type(data).__name__}"
            raise self.file_error(file, "a description `{...}`", kind, _AGAIN)
        return data

    @cached_property
    def card(self) -> dict[str, Any]:
        """Contents of ``triptych.json`` beside the weights, such as the guidance scale; empty if there is none."""
        file = self.locate(CARD)
        if not file.exists():
            return {}
        try:
            card = parse_json(self._read_bytes(file))
            if not math.isfinite(card.get("guidance_scale", 0.0)):
                raise ValueError("its guidance_scale is not finite")
        except (OSError, ValueError, AttributeError, TypeError) as error:
            expected = 'expected {"guidance_scale": number, ...}'
            raise UserError(f"{file}: {expected}, got `{first_line(error)}`: mend or remove it") from None
        return card

    @cached_property
    def index(self) -> dict[str, Any]:
        """Contents of ``model_index.json``; a `UserError` unless the classes of pipeline and parts are supported."""
        index = self.read_json(INDEX)
        kind = index.get("_class_name")
        if (known := generating_pipeline(str(kind))) is None:
            got = f"{kind!s:.60}" if kind is not None else "no `_class_name`"
            missing = why_unread(str(kind))
            remedy = f"{missing}; {SUPPORTED}" if missing else SUPPORTED
            raise self.file_error(INDEX, "a pipeline that can be read", got, remedy)
        layout = known[1]
        for component in layout.components:
            entry, remedy = index.get(component.name), "mend it or choose another model"
            known = isinstance(entry, list) and len(entry) == 2
            if known and entry[0] == component.library and entry[1] in component.classes:
                continue
            if len(layout.text_encoders) > 1 and entry in (None, [None, None]):
                remedy = f"{kind} would generate from less of the text; download the whole model"
            elif known and entry[0] not in (None, "diffusers", "transformers"):
                remedy = "code of a model's author is not run, choose another"
            expected = f"`{component.name}: [{component.library}, {' or '.join(component.classes)}]`"
            raise self.file_error(INDEX, expected, f"{entry!r:.80}", remedy)
        entry = index.get("scheduler")
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] != "diffusers":
            raise self.file_error(INDEX, "`scheduler: [diffusers, NAME]`", f"{entry!r:.80}", "mend it")
        return index

    @property
    def architecture(self) -> Architecture:
        """The adapter of `hooks` for the model's family, by the pipeline class in ``model_index.json``."""
        return generating_pipeline(self.index["_class_name"])[0]

    @property
    def layout(self) -> Layout:
        """The project's entry for the model's pipeline class: components, classes of each, how it is called."""
        return generating_pipeline(self.index["_class_name"])[1]

    @cached_property
    def denoiser_config(self) -> dict[str, Any]:
        """The configuration of the denoiser (U-Net or transformer), its ``config.json``."""
        return self.read_json(f"{self.layout.denoiser.name}/config.json")

    @cached_property
    def file_digests(self) -> dict[str, str]:
        """The SHA-256 (16 digits) of each file read beside the weights, by ``model/<path>``; part of a run's identity.

        Weights are known by their content once they are loaded (`probes.models.weights.weight_hash`), whichever of a
        folder's files held them.
        """
        paths = {name: self.locate(name) for name in (INDEX, CARD)}
        for folder in sorted({"scheduler", *(component.name for component in self.layout.components)}):
            for place in (*reversed(self.bases), self.config):  # what stands in first, then the model's
                place = self.added.vae if self.added.vae and folder == "vae" else place / folder
                paths |= {f"{folder}/{path.name}": path for path in sorted(place.glob("*"))}
        try:
            return self.added_digests | {
                f"model/{name}": sha256(self._read_bytes(path)).hexdigest()[:16]
                for name, path in paths.items()
                if path.suffix in _DESCRIBING and ".index." not in path.name and path.is_file()
            }
        except OSError as error:
            raise UserError(
                f"model {self.name}: {error.filename}: cannot be read ({error.strerror}): check its permissions"
            ) from None

    @cached_property
    def added_digests(self) -> dict[str, str]:
        """The SHA-256 (16 digits) of each file that is put into the model, with scale or word, by ``model/NAME``."""
        digests = {}
        for name, (path, how) in self.added.files.items():
            with path.open("rb") as file:
                digests[f"model/{name}"] = f"{file_digest(file, 'sha256').hexdigest()[:16]}{how}"
        return digests

    # Tokenizers

    @cached_property
    def loaded_tokenizers(self) -> dict[str, Any]:
        """The tokenizers by component name, loaded from their files; a `UserError` if one has no vocabulary."""
        import transformers

        loaded = {}
        for name in (one.name for one in self.layout.tokenizers):
            folder, file, kind = self.locate(name), f"{name}/tokenizer_config.json", self.index[name][1]
            if not folder.is_dir():
                raise self.file_error(name, "a folder", "none", "add or download it")
            settings = self.read_json(file) if self.locate(file).exists() else {}
            # transformers 5 has one class of each tokenizer, under the name of the slow one
            cls = getattr(transformers, kind.removesuffix("Fast"))
            if settings.get("vocabulary") == "clip":  # of a shipped description
                loaded[name] = pretrained.clip_tokenizer(cls, settings)
                continue
            file = next((one for one in VOCABULARIES if (folder / one).is_file()), None)
            if file is None:  # transformers would put a vocabulary of a few signs in its place
                raise self.file_error(name, f"one of {', '.join(VOCABULARIES)}", "none", "add or download it")
            if file in _SENTENCEPIECE and find_spec("sentencepiece") is None:
                remedy = "pip install sentencepiece, which reads it, or add tokenizer.json"
                raise self.file_error(name, "tokenizer.json", f"{file} alone", remedy)
            with self.readable(name, f"a {kind.partition('Tokenizer')[0]} tokenizer"), pretrained.quiet():
                loaded[name] = pretrained.from_folder(cls, folder)
        return loaded

    @cached_property
    def tokenizers(self) -> list[Any]:
        """The tokenizers as the pipeline uses them: with its template around prompts, maximum length, words added."""
        loaded = list(self.loaded_tokenizers.values())
        if self.added.words:
            loaded = copy.deepcopy(loaded)
        for index, (path, token) in enumerate(self.added.words):
            with pretrained.readable(f"textual_inversion[{index}]: {path.name}", pretrained.VECTORS):
                token, vectors = pretrained.read_vectors(path, token)
                names = [token, *(f"{token}_{number}" for number in range(1, len(vectors[0])))]
                for tokenizer in loaded:
                    tokenizer.add_tokens(names)
        return self._with_template(loaded)

    def _with_template(self, tokenizers: list[Any]) -> list[Any]:
        """Return tokenizers as the pipeline uses them; a `UserError` if they do not fit each other or its template."""
        try:
            return prompt_tokenizers(self.layout, tokenizers)
        except HookError as error:
            raise UserError(f"model {self.name}: {error}") from None

    @cached_property
    def token_limit(self) -> int:
        """The maximum number of tokens of a prompt that the text encoders take, start and end included."""
        if (
            self.layout.lengths
        ):  # each of several towers is given as much of a text as its tokenizer's own limit
            return max(one.model_max_length for one in self.tokenizers)
        # T5's positions are relative, without a limit
        return min(longest_text(self.networks[one.name]) or 77 for one in self.layout.text_encoders)

    # Networks

    @cached_property
    def quantized(self) -> dict[str, str]:
        """The method by which weights are quantized, such as torchao, by component; a `UserError` for one not read."""
        methods, chosen = {}, self.added.quantization
        for one in self.layout.networks:
            config = self.read_json(f"{one.name}/config.json").get("quantization_config")
            method = config.get("quant_method") if isinstance(config, dict) else None
            if config and method not in QUANTIZERS:
                got = f"`quantization_config` ({method or 'of no method'!s:.40})"
                expected = f"weights in float32, float16 or bfloat16, or quantized by {', '.join(QUANTIZERS)}"
                raise self.file_error(f"{one.name}/config.json", expected, got, UNQUANTIZED)
            if chosen is not None:
                named = chosen.components_to_quantize or [
                    self.layout.denoiser.name if self.added.gguf else one.name
                ]
                method = chosen.quant_backend.partition("_")[0] if one.name in named else method
            if method:
                methods[one.name] = method
        return methods

    @cached_property
    def networks(self) -> dict[str, Any]:
        """The networks by component name, on torch's meta device; a `UserError` if they or tokenizers do not fit."""
        networks: dict[str, Any] = {}
        _ = self.quantized  # refused here, before what it would be quantized by is asked for
        plain = self._with_template(
            list(self.loaded_tokenizers.values())
        )  # without words that are added later
        with pretrained.quiet():
            for one in self.layout.networks:
                file, kind = f"{one.name}/config.json", self.index[one.name][1]
                config = {
                    name: value
                    for name, value in self.read_json(file).items()
                    if name != "quantization_config"
                }
                with self.readable(file, f"a description of a {kind}"):
                    networks[one.name] = build_on_meta(
                        getattr(importlib.import_module(one.library), kind), config
                    )
            for named, tokenizer, encoder in zip(
                self.layout.tokenizers, plain, self.layout.text_encoders, strict=True
            ):
                self._check_tokenizer(named.name, tokenizer, networks[encoder.name])
            try:
                self.architecture.check_configuration(SimpleNamespace(**networks))
            except MisfitError as error:
                file = f"{error.component}/config.json"
                raise self.file_error(file, error.expected, error.got, error.remedy) from None
            self._check_sizes_fit(networks)
        return networks

    def _check_tokenizer(self, name: str, tokenizer: Any, encoder: Any) -> None:
        """Raise a `UserError` if a tokenizer's length, vocabulary or special tokens do not fit its text encoder."""
        file, length = f"{name}/tokenizer_config.json", tokenizer.model_max_length
        size, longest = text_config(encoder).vocab_size, longest_text(encoder)
        if not isinstance(length, int) or length < 3 or (longest is not None and length > longest):
            # where positions are relative, the pipeline's own length is the limit
            expected = f"`model_max_length` of 3 to {longest}, the text encoder's positions"
            raise self.file_error(file, expected, f"{length!r:.40}", f"set it to {longest}")
        with self.readable(name, "a tokenizer"):
            token, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
        if largest >= size:
            told_by = f"{name.replace('tokenizer', 'text_encoder')}/config.json"
            remedy = "give the tokenizer that belongs to the text encoder"
            expected = f"tokens below {size}, as {told_by} says"
            raise self.file_error(name, expected, f"{largest} for {token!r:.40}", remedy)
        separated = getattr(tokenizer, "sep_token_id", None) is not None  # BERT's text ends with [SEP]
        for missing in ("pad_token", *(() if separated else ("eos_token",))):
            if getattr(tokenizer, f"{missing}_id") is None:
                raise self.file_error(file, f"a `{missing}`", "none", "add it")

    def _check_sizes_fit(self, networks: dict[str, Any]) -> None:
        """Run text encoders, denoiser and decoder once without weights; a `UserError` where a size does not fit."""
        import torch

        architecture, layout, pipe = self.architecture, self.layout, SimpleNamespace(**networks)
        limits = [tokenizer.model_max_length for tokenizer in self.tokenizers]
        lengths = [min(pair) for pair in zip(layout.lengths or limits, limits, strict=True)]
        encoders = " and ".join(f"{encoder.name}/config.json" for encoder in layout.text_encoders)
        with torch.no_grad(), torch.device("meta"):
            with self.readable(encoders, "a text encoder with the layers that the pipeline reads"):
                texts = [
                    networks[encoder.name](
                        torch.zeros(1, length, dtype=torch.long), output_hidden_states=True
                    )
                    for encoder, length in zip(layout.text_encoders, lengths, strict=True)
                ]
                text = architecture.text_arguments(texts)
                widths = " + ".join(str(output.hidden_states[-1].shape[-1]) for output in texts)
            expected = f"a {architecture.denoiser_name} that runs with the text encoder's width of {widths}"
            remedy = "mend it, or give the text encoder that belongs to it"
            with self.readable(f"{layout.denoiser.name}/config.json", expected, remedy):
                predicted = architecture.meta_prediction(pipe, architecture.latent_size(pipe), text)
            file = f"{layout.decoder.name}/config.json"
            with self.readable(file, "a decoder that runs"):
                image = latents.decode(pipe.vae, predicted)
        shape = (3, *architecture.image_size(pipe))
        if image.shape != (1, *shape):
            raise self.file_error(file, f"images of shape {shape}", f"{tuple(image.shape[1:])}", "mend it")
