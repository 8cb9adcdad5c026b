"""Read models that somebody else made: the one module that calls the loaders of the libraries.

The files of a model can name code of its author's (``auto_map``, ``custom_pipeline``, arguments of a tokenizer), other
models of the hub, addresses, and pickles. None of that is followed: code that comes with a model never runs and nobody
is asked whether it may, what lies in a local folder fetches nothing, and a pickle is read as plain tensors alone. A
test refuses these calls everywhere else.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import patch

from probes.errors import UserError, first_line, parse_json

if TYPE_CHECKING:
    from numpy.lib.npyio import NpzFile
    from torch.nn import Module

_PICKLE = "a damaged file, or a pickle of more than plain tensors, which is not run"
VECTORS = "vectors of a textual inversion"
_CLEANING = ("clean", "strip_sep_token")  # arguments of a tokenizer that say how a text is cleaned
_FETCHED = ("pretrained", "checkpoint_path", "cache_dir", "features_only", "kwargs_filter")


class ForeignCodeError(RuntimeError):
    """A model's files ask to run code of their own, or to download what they name; neither is done."""


@contextlib.contextmanager
def block_foreign_code(*, fetch: bool = False) -> Iterator[None]:
    """Context manager: block code that comes with a model and, unless `fetch`, downloads by the libraries."""
    from transformers import dynamic_module_utils

    with contextlib.ExitStack() as stack:
        importers = [dynamic_module_utils, sys.modules.get("diffusers.utils.dynamic_modules_utils")]
        for module in filter(None, importers):
            for name in ("get_class_in_module", "get_cached_module_file"):
                stack.enter_context(patch.object(module, name, _refuse))
        # the switch by which the library's own tests keep it from asking
        stack.enter_context(patch.object(dynamic_module_utils, "TIME_OUT_REMOTE_CODE", 0))
        if not fetch:
            import torch
            from huggingface_hub import constants

            stack.enter_context(patch.object(constants, "HF_HUB_OFFLINE", True))
            stack.enter_context(patch.object(torch.hub, "download_url_to_file", _refuse))
        yield


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise a `ForeignCodeError`; replaces functions of the libraries that run a model's code or download."""
    raise ForeignCodeError("it asks to run code or to fetch what its files name, which is never done")


@contextlib.contextmanager
def readable(place: str, expected: str, remedy: str = "download it again") -> Iterator[None]:
    """Context manager: turn any error, as damaged files cause, into ``PLACE: expected EXPECTED, got ...: REMEDY``.

    Only calls into the libraries stand inside; a fault of our own would be taken for one of the file. `place` is the
    field of the configuration and the file.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the libraries say, the error alone is for users
            yield
    except UserError:
        raise
    except BaseException as error:
        # the Rust of `tokenizers` panics with an error that is no Exception; others of that kind end the program
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        # what torch says of a pickle is how to run it all the same
        got = _PICKLE if isinstance(error, pickle.UnpicklingError) else f"`{first_line(error)}`"
        raise UserError(f"{place}: expected {expected}, got {got}: {remedy}") from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Context manager: turn off logging and progress bars of the libraries."""
    names = ("transformers.utils.logging", "diffusers.utils.logging")
    switches = [sys.modules[name] for name in names if name in sys.modules]
    shown = [switch for switch in switches if switch.is_progress_bar_enabled()]
    before = logging.root.manager.disable
    try:
        logging.disable(logging.CRITICAL)
        for switch in shown:
            switch.disable_progress_bar()
        yield
    finally:
        logging.disable(before)
        for switch in shown:
            switch.enable_progress_bar()


def from_folder(cls: Any, folder: str | Path, *, fetch: bool = False, **options: Any) -> Any:
    """Return ``cls.from_pretrained`` of a local folder or, if `fetch`, of a hub id; runs no code of the model."""
    fetch = fetch and not Path(folder).is_dir()
    # models and schedulers of diffusers take no such argument, and have no such code
    if cls.__module__.startswith("transformers.") or "Pipeline" in cls.__name__:
        options["trust_remote_code"] = False
    with block_foreign_code(fetch=fetch):
        return cls.from_pretrained(folder, local_files_only=not fetch, **options)


def from_auto_class(kind: str, folder: str | Path, *, fetch: bool = False, **options: Any) -> Any:
    """Return the ``Config``, ``Tokenizer`` or ``Processor`` (`kind`) in a folder, by transformers' ``Auto`` classes."""
    import transformers

    return from_folder(getattr(transformers, f"Auto{kind}"), folder, fetch=fetch, **options)


def from_single_file(cls: Any, path: str | Path, **options: Any) -> Any:
    """Return a pipeline of a diffusers class from one file of weights and a local ``config`` folder, offline."""
    with block_foreign_code():
        return cls.from_single_file(str(path), local_files_only=True, **options)


def from_gguf(cls: Any, path: Path, config: Path, dtype: Any) -> Any:
    """Return a denoiser of a diffusers class from a .gguf file and the folder of its ``config.json``, offline."""
    from diffusers import GGUFQuantizationConfig

    quantization = GGUFQuantizationConfig(compute_dtype=dtype)
    options = {"config": str(config.parent), "subfolder": config.name, "torch_dtype": dtype}
    return from_single_file(cls, path, quantization_config=quantization, **options)


def quantization_config(library: str, backend: str, options: Mapping[str, Any], dtype: Any) -> Any:
    """Return the configuration by which diffusers or transformers (`library`) quantizes weights as it loads them.

    A `ValueError` or `TypeError` for options that the backend does not take.
    """
    classes = importlib.import_module(library)
    if backend != "torchao":
        bits = backend.removeprefix("bitsandbytes_")
        compute = {"bnb_4bit_compute_dtype": dtype} if bits == "4bit" else {}
        return classes.BitsAndBytesConfig(**{f"load_in_{bits}": True, **compute, **options})
    import torchao.quantization

    options = dict(options)
    kept = {name: options.pop(name) for name in ("modules_to_not_convert",) if name in options}
    name = str(options.pop("quant_type", "none"))
    kind = getattr(torchao.quantization, name, None) if name.endswith("Config") else None
    if kind is None:
        known = [one for one in dir(torchao.quantization) if one.endswith("WeightOnlyConfig")]
        raise ValueError(f"quant_type is {name:.60}, no configuration of torchao such as {', '.join(known)}")
    return classes.TorchAoConfig(kind(**options), **kept)


def load_lora(pipe: Any, path: Path, name: str) -> None:
    """Load a LoRA from a local file into a pipeline, unfused, by the name `name`.

    A `ValueError` where it has layers that the pipeline lacks, which diffusers would leave out.
    """
    import torch

    options = {"weight_name": path.name, "local_files_only": True}
    with block_foreign_code():
        pipe.load_lora_weights(str(path.parent), adapter_name=name, **options)
        stored = pipe.lora_state_dict(str(path.parent), **options)
    networks = [part for part in pipe.components.values() if isinstance(part, torch.nn.Module)]
    layers = (key for network in networks for key, _ in network.named_parameters())
    fitting = sum(key.endswith(f"lora_A.{name}.weight") for key in layers)
    tensors = stored[0] if isinstance(stored, tuple) else stored
    number = sum(key.endswith(("lora_A.weight", "down.weight")) for key in tensors)
    if not fitting or fitting < number:
        raise ValueError(f"{fitting} of its {number} layers fit")


def read_vectors(path: Path, token: str | None) -> tuple[str, list[Any]]:
    """Return the word and the vectors (n, width), one tensor per text encoder, in a file of a textual inversion.

    Of diffusers' format, kohya's and that of AUTOMATIC1111. `token` replaces the word; a `ValueError` if there is none.
    """
    stored = read_tensors(path)
    if "string_to_param" in stored:
        name, vectors = stored.get("name"), list(stored["string_to_param"].values())[:1]
    elif {*stored} <= {"clip_l", "clip_g", "emb_params"}:
        name, vectors = None, [stored[key] for key in ("emb_params", "clip_l", "clip_g") if key in stored]
    else:
        (name,) = stored
        vectors = [stored[name]]
    if not (token or name):
        raise ValueError("the file names no word: write it in `token`")
    return token or name, [one.detach().reshape(-1, one.shape[-1]) for one in vectors]


def load_vectors(pipe: Any, path: Path, token: str | None) -> None:
    """Load a file of a textual inversion into the tokenizers and text encoders of a U-Net's pipeline.

    Without weights (on torch's meta device) it is only checked; a `ValueError` for one that does not fit.
    """
    token, vectors = read_vectors(path, token)
    towers = [name for name in ("text_encoder", "text_encoder_2") if getattr(pipe, name, None) is not None]
    if len(towers) != len(vectors):
        raise ValueError(f"vectors for {len(vectors)} of the model's {len(towers)} text encoders")
    for name, one in zip(towers, vectors, strict=True):
        tokenizer = getattr(pipe, name.replace("text_encoder", "tokenizer"))
        parts = {"text_encoder": getattr(pipe, name), "tokenizer": tokenizer}
        width = parts["text_encoder"].config.hidden_size
        if one.shape[-1] != width or token in tokenizer.get_vocab():
            fault = (
                f"{token:.40}, which the model knows"
                if one.shape[-1] == width
                else f"{one.shape[-1]} channels"
            )
            raise ValueError(f"{fault}; {name} takes a new word of {width} channels")
        if parts["text_encoder"].device.type == "meta":
            continue
        pipe.load_textual_inversion({token: one.squeeze(0) if len(one) == 1 else one}, token=token, **parts)


def download_pipeline(identifier: str, **options: Any) -> None:
    """Download the files of a hub pipeline into the hub's cache, without code that comes with it."""
    from diffusers import DiffusionPipeline

    with block_foreign_code(fetch=True):
        DiffusionPipeline.download(identifier, trust_remote_code=False, **options)


def read_tensors(path: Path, **options: Any) -> dict[str, Any]:
    """Return the tensors by name (perhaps nested) in a weights file: safetensors, or a pickle of plain tensors."""
    import torch

    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, weights_only=True, **{"map_location": "cpu", **options})


@contextlib.contextmanager
def open_npz(path: Path) -> Iterator[NpzFile]:
    """Context manager: a NumPy ``.npz`` file, which gives arrays by name; a `ValueError` for a pickled one."""
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        yield file


def timm_model(architecture: Any, arguments: Mapping[str, Any]) -> Module:
    """Return a timm network with random weights, by timm's name for it and the arguments in a ``config.json``.

    A `ValueError` where there is no such architecture, or an argument names other weights.
    """
    import timm

    if not isinstance(architecture, str) or not timm.is_model(architecture.partition(".")[0]):
        raise ValueError(f"timm has no architecture {architecture!r:.80}")
    if not isinstance(arguments, Mapping):
        raise ValueError(f"model_args should be an object, not {arguments!r:.60}")
    forbidden = [name for name in arguments if str(name).startswith(_FETCHED)]
    if forbidden:
        raise ValueError(f"`{forbidden[0]:.60}` is no argument that a file may set")
    with block_foreign_code():
        return timm.create_model(architecture, pretrained=False, **arguments)


def open_clip_model(folder: Path, weights: Path) -> tuple[Module, Callable[..., Any]]:
    """Return an open_clip model and its image transform, from a folder's configuration and a weights file.

    A `ValueError` where ``open_clip_config.json`` names a network of the hub and does not describe it.
    """
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    if _open_clip_text_config(folder / "open_clip_config.json").get("hf_model_name"):
        raise ValueError("its text encoder is another model (`hf_model_name`), which is not fetched")
    options: dict[str, Any] = {"load_weights": False, "pretrained_text": False}
    with block_foreign_code(), quiet():
        model = open_clip.create_model(f"local-dir:{folder}", **options)
        open_clip.load_checkpoint(model, str(weights), strict=True, weights_only=True)
        transform = PreprocessCfg(**model.visual.preprocess_cfg)
        return model, image_transform_v2(transform, is_train=False)


def _open_clip_text_config(file: Path) -> Mapping[str, Any]:
    """Return the settings of the text encoder from an ``open_clip_config.json``."""
    return parse_json(file.read_text(encoding="utf-8"))["model_cfg"]["text_cfg"]


def open_clip_by_name(
    architecture: str, pretrained: str, *, fetch: bool = False
) -> tuple[Module, Callable[..., Any]]:
    """Return an open_clip model and its image transform; `pretrained` is a weights file or, if `fetch`, a tag."""
    import open_clip

    with block_foreign_code(fetch=fetch), quiet():
        return open_clip.create_model_from_pretrained(architecture, pretrained=pretrained, weights_only=True)


def open_clip_tokenizer(model: Any, folder: Path | None) -> Callable[..., Any]:
    """Return the tokenizer in an open_clip model's folder, or CLIP's, which open_clip ships, if that has none.

    Of the arguments that the folder states only those on how a text is cleaned are taken; others are a `ValueError`.
    """
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer

    config = folder / "open_clip_config.json" if folder is not None else None
    text = _open_clip_text_config(config) if config is not None and config.is_file() else {}
    stored = folder is not None and (text.get("hf_tokenizer_name") or (folder / "tokenizer.json").is_file())
    if not stored:
        return SimpleTokenizer(context_length=model.context_length)
    stated = text.get("tokenizer_kwargs") or {}
    unknown = [name for name in stated if name not in _CLEANING]
    if unknown:
        raise ValueError(f"`tokenizer_kwargs` sets `{unknown[0]:.60}`, which a file may not set")
    with block_foreign_code(), quiet():
        fixed = {"trust_remote_code": False, "local_files_only": True}
        return HFTokenizer(str(folder), context_length=model.context_length, **stated, **fixed)


def clip_tokenizer(cls: Any, settings: Mapping[str, Any]) -> Any:
    """Return CLIP's tokenizer as transformers' class `cls`, with open_clip's vocabulary and a folder's `settings`."""
    from open_clip.tokenizer import SimpleTokenizer

    clip = SimpleTokenizer()
    symbols = [*[*clip.encoder][:-2], "<|startoftext|>", "<|endoftext|>"]
    names = ("bos_token", "eos_token", "unk_token", "pad_token", "model_max_length")
    vocabulary = {symbol: number for number, symbol in enumerate(symbols)}
    return cls(vocab=vocabulary, merges=[*clip.bpe_ranks], **{name: settings[name] for name in names})
