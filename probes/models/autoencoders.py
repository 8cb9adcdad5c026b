"""Files of sparse autoencoders, in the layouts in which they are published.

- SAELens (https://github.com/decoderesearch/SAELens): ``sae_weights.safetensors`` and ``cfg.json``, of which the
  architectures ``standard``, ``topk`` and ``jumprelu`` are read, also as versions before 6 wrote them;
- Surkov et al. 2024, *Unpacking SDXL Turbo* (https://github.com/surkovv/sdxl-unbox): ``state_dict.pth`` and
  ``config.json``. These were trained on what a transformer adds: their sites end with ``.update``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hooks.autoencoder import SparseAutoencoder
from hooks.errors import HookError
from probes.errors import UserError
from probes.json_text import parse_json
from probes.models.pretrained import readable, tensors

WEIGHTS, CONFIG = "sae_weights.safetensors", "cfg.json"
_SURKOV_WEIGHTS, _SURKOV_CONFIG = "state_dict.pth", "config.json"
_ARCHITECTURES = ("standard", "topk", "jumprelu")


def load_autoencoder(folder: str | Path) -> SparseAutoencoder:
    """Read a sparse autoencoder.

    Parameters
    ----------
    folder : str or Path
        That holds its weights and configuration.

    Raises
    ------
    UserError
        A file is missing or damaged, or the autoencoder is of a kind that is not read.
    """
    folder = Path(folder)
    if (folder / _SURKOV_WEIGHTS).is_file() and not (folder / WEIGHTS).is_file():
        return _of_surkov(folder)
    config, weights = _config(folder / CONFIG), _weights(folder / WEIGHTS)
    kind, k = _architecture(folder / CONFIG, config)
    needed = ("W_enc", "b_enc", "W_dec", "b_dec", *(("threshold",) if kind == "jumprelu" else ()))
    if "log_threshold" in weights:  # of training
        weights["threshold"] = weights.pop("log_threshold").exp()
    _require(folder / WEIGHTS, weights, needed)
    encoder, bias, decoder = weights["W_enc"], weights["b_enc"], weights["W_dec"]
    if config.get("rescale_acts_by_decoder_norm"):  # then latents count in units of their directions
        norm = decoder.norm(dim=-1)
        encoder, bias, decoder = encoder * norm, bias * norm, decoder / norm[:, None]
    metadata = config.get("metadata") or {}
    return _made(
        folder / WEIGHTS,
        encoder,
        bias,
        decoder,
        weights["b_dec"],
        k=k,
        threshold=weights["threshold"] if kind == "jumprelu" else None,
        subtracts_bias=bool(config.get("apply_b_dec_to_input", True)),
        site=str(metadata.get("hook_name") or config.get("hook_name") or ""),
    )


def _architecture(place: Path, config: Mapping[str, Any]) -> tuple[str, int | None]:
    """The architecture that a configuration of SAELens describes, and of TopK its k."""
    kind = config.get("architecture", "standard")
    function = config.get("activation_fn", config.get("activation_fn_str", "relu"))  # before version 6
    k = config.get("k")
    if function == "topk":
        kind, k = "topk", (config.get("activation_fn_kwargs") or {}).get("k", k)
    elif function != "relu":
        kind = f"{kind} with {function}"
    if kind not in _ARCHITECTURES:
        raise UserError(
            f"{place}: architecture: expected one of {', '.join(_ARCHITECTURES)}, got {kind!r:.60}:"
            " choose another file"
        )
    for name in ("normalize_activations", "reshape_activations"):
        if config.get(name) not in (None, False, "none"):
            raise UserError(
                f"{place}: {name}: expected none, got {config[name]!r:.60}: fold it into the weights, or choose"
                " another file"
            )
    if config.get("finetuning_scaling_factor"):
        raise UserError(f"{place}: finetuning_scaling_factor: expected false, got true: choose another file")
    if kind == "topk" and not (isinstance(k, int) and k >= 1):
        raise UserError(f"{place}: k: expected a whole number of at least 1, got {k!r:.60}: mend the file")
    return kind, k if kind == "topk" else None


def _of_surkov(folder: Path) -> SparseAutoencoder:
    config, place = _config(folder / _SURKOV_CONFIG), folder / _SURKOV_WEIGHTS
    weights = _weights(place, "state_dict")
    _require(place, weights, ("encoder.weight", "latent_bias", "decoder.weight", "pre_bias"))
    k = config.get("k")
    if not (isinstance(k, int) and k >= 1):
        raise UserError(
            f"{folder / _SURKOV_CONFIG}: k: expected a whole number of at least 1, got {k!r:.60}: mend the file"
        )
    encoder, decoder = weights["encoder.weight"].T, weights["decoder.weight"].T
    return _made(place, encoder, weights["latent_bias"], decoder, weights["pre_bias"], k=k)


def _made(place: Path, *weights: Tensor, **more: Any) -> SparseAutoencoder:
    """A sparse autoencoder of the weights of a file."""
    try:
        if weights[0].ndim != 2:
            raise HookError(
                f"encoder: expected a matrix, but got shape {tuple(weights[0].shape)}: mend the file"
            )
        return SparseAutoencoder(*(one.float().contiguous() for one in weights), **more)
    except HookError as error:
        raise UserError(f"{place}: {str(error).removeprefix('SparseAutoencoder: ')}") from None


def _config(path: Path) -> dict[str, Any]:
    try:
        config = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(
            f"{path.parent}: expected a sparse autoencoder ({WEIGHTS} and {CONFIG}, or {_SURKOV_WEIGHTS} and"
            f" {_SURKOV_CONFIG}), found no {path.name}: name the folder that holds both"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: expected JSON, got `{str(error)!s:.100}`: download it again") from None
    if not isinstance(config, dict):
        raise UserError(f"{path}: expected fields by their names, got {config!r:.60}: download it again")
    return config


def _weights(path: Path, key: str = "") -> dict[str, Any]:
    """The tensors of a file by name, those under a key where there is one."""
    if not path.is_file():
        raise UserError(
            f"{path.parent}: expected {path.name} beside its configuration, found none: name the folder that holds both"
        )
    with readable(str(path), "weights of a sparse autoencoder"):
        found = tensors(path)
    found = found.get(key, found) if key and isinstance(found, Mapping) else found
    if not isinstance(found, Mapping):
        raise UserError(
            f"{path}: expected tensors by their names, got {type(found).__name__}: download it again"
        )
    return dict(found)


def _require(path: Path, weights: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(weights.get(name), Tensor):
            raise UserError(
                f"{path}: expected {', '.join(names)}, found no {name} among"
                f" {', '.join(sorted(map(str, weights)))!s:.120}: choose another file"
            )
        if not bool(torch.isfinite(weights[name]).all()):
            raise UserError(f"{path}: {name}: expected finite numbers, got others: download it again")
