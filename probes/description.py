"""A model's description: the files that say how its weights are read, and what of a configuration they allow.

Everything here is known before any weights are loaded and before anything is written.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from typing import Any

from hooks import sites
from hooks.errors import HookError
from probes import models
from probes.components import modules, pick_scheduler
from probes.config import Config
from probes.errors import UserError
from probes.identity import short

_FOLDERS = ("scheduler", "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2", "unet", "vae")
_FILES = ("model_index.json", "triptych.json")
_ENDINGS = (".json", ".txt", ".model")
_UNGUIDED = "noise_pred.unconditional"  # the one site that is not there without guidance


def files(source: models.Source) -> dict[str, str]:
    """A digest of every file of a model that is read beside its weights, by ``model/<path>``.

    Weights are known by their content once they are loaded (:func:`probes.components.weight_hash`), whichever of a
    folder's files held them. A single file without a description beside it gives none; see `of_pipeline`.
    """
    if source.config is None:
        return {}
    paths = [source.config / name for name in _FILES]
    for folder in _FOLDERS:
        paths += sorted((source.config / folder).glob("*"))
    read = [path for path in paths if path.suffix in _ENDINGS and not path.name.endswith(".index.json")]
    try:
        return {
            f"model/{path.relative_to(source.config).as_posix()}": short(path.read_bytes())
            for path in read
            if path.is_file()
        }
    except OSError as error:
        raise UserError(
            f"model {source.name}: {error.filename}: cannot be read ({error.strerror}): check its permissions"
        ) from None


def of_pipeline(pipe: Any) -> dict[str, str]:
    """What `files` gives, from a loaded pipeline: digests of its components' settings and its tokenizers."""
    found = {
        f"model/{name}/config.json": short(json.dumps(_plain(module.config), sort_keys=True, default=str))
        for name, module in modules(pipe).items()
    }
    for name in ("tokenizer", "tokenizer_2"):
        tokenizer = getattr(pipe, name, None)
        if tokenizer is not None:
            state = [tokenizer.backend_tokenizer.to_str(), tokenizer.model_max_length, tokenizer.pad_token]
            found[f"model/{name}/tokenizer.json"] = short(json.dumps(state))
    return found


def _plain(config: Any) -> dict[str, Any]:
    """A component's settings without what names its origin."""
    settings = config.to_dict() if hasattr(config, "to_dict") else dict(config)
    return {key: value for key, value in settings.items() if not key.startswith("_")}


def check(config: Config, source: models.Source) -> None:
    """Refuse what the model cannot do: its class, scheduler, steps, size, sites, what is kept.

    A single file without a description beside it is checked once it is loaded.

    Raises
    ------
    UserError
        Names the field, or what the description lacks.
    """
    if source.config is None:
        return
    pipe = without_weights(source)
    if config.sampler.scheduler is not None:
        pipe.scheduler = pick_scheduler(config.sampler.scheduler, pipe.scheduler)
    default = inspect.signature(type(pipe).__call__).parameters["guidance_scale"].default
    check_pipeline(pipe, config, float(models._recommended(source).get("guidance_scale", default)))


def without_weights(source: models.Source) -> Any:
    """The pipeline that a folder describes, its components without weights (torch's meta device).

    Raises
    ------
    UserError
        The description is not whole, or of another kind of pipeline.
    """
    import diffusers
    import torch
    import transformers

    parts: dict[str, Any] = {}
    index = _index(source)
    with models._readable(source), models.quiet():
        for name in ("text_encoder", "text_encoder_2", "unet", "vae"):
            library, kind = index.get(name) or (None, None)
            if kind is None:
                continue
            place = source.config / name
            with torch.device("meta"):
                if library == "transformers":
                    cls = getattr(transformers, kind)
                    parts[name] = cls(cls.config_class.from_pretrained(place, local_files_only=True))
                else:
                    parts[name] = getattr(diffusers, kind).from_config(
                        json.loads((place / "config.json").read_text())
                    )
        cls = getattr(diffusers, index["scheduler"][1])
        parts["scheduler"] = cls.from_pretrained(source.config / "scheduler", local_files_only=True)
        cls = getattr(diffusers, index["_class_name"])
        asked = inspect.signature(cls.__init__).parameters
        absent = {name: None for name in ("tokenizer", "tokenizer_2", "safety_checker", "feature_extractor")}
        switches = {"requires_safety_checker": False, "add_watermarker": False}
        chosen = {**absent, **switches, **parts}
        return cls(**{name: value for name, value in chosen.items() if name in asked})


def _index(source: models.Source) -> dict[str, Any]:
    """What ``model_index.json`` says: the class of the pipeline, and of each component."""
    with models._readable(source):
        index = json.loads((source.config / "model_index.json").read_text())
    kind = index.get("_class_name") if isinstance(index, dict) else None
    if kind not in models.PIPELINES:
        expected = " or ".join(models.PIPELINES)
        raise UserError(f"model {source.name}: expected {expected}, got {kind}: choose another")
    return index


def check_pipeline(pipe: Any, config: Config, default_guidance: float) -> None:
    """Refuse what a pipeline cannot do; it needs no weights.

    Parameters
    ----------
    default_guidance
        The guidance scale where the configuration leaves it to the model.
    """
    _check_sampler(pipe, config)
    scale = config.sampler.guidance_scale
    guided = (
        default_guidance if scale is None else scale
    ) > 1 and pipe.unet.config.time_cond_proj_dim is None
    capture = config.capture
    for field, patterns in (("sites", capture.sites), ("keep", capture.keep)):
        if patterns and patterns != "default":
            _check_sites(pipe, f"capture.{field}", patterns, guided)


def _check_sampler(pipe: Any, config: Config) -> None:
    try:
        pipe.scheduler.set_timesteps(config.sampler.steps)
    except (ValueError, IndexError) as error:
        name = type(pipe.scheduler).__name__
        raise UserError(
            f"sampler.steps: expected what {name} can do, got {config.sampler.steps} ({error}): change it"
        ) from None
    # the UNet halves its input once a level but the last; odd sizes would be cropped on the way up
    unit = pipe.vae_scale_factor * 2 ** (len(pipe.unet.config.block_out_channels) - 1)
    for name, pixels in (("height", config.sampler.height), ("width", config.sampler.width)):
        if pixels is not None and pixels % unit:
            raise UserError(
                f"sampler.{name}: expected a multiple of {unit} for this model, got {pixels}:"
                f" use {max(1, round(pixels / unit)) * unit}"
            )


def _check_sites(pipe: Any, field: str, patterns: Sequence[str], guided: bool) -> None:
    for pattern in patterns:
        try:
            chosen = {site.address for site in sites.resolve(pipe, [pattern])}
        except HookError as error:
            raise UserError(f"{field}: {str(error).removeprefix('sites: ')}") from None
        if chosen == {_UNGUIDED} and not guided:
            raise UserError(
                f"{field}: expected sites that are there without guidance, got {pattern!r}:"
                " take it out, or set sampler.guidance_scale above 1"
            )
