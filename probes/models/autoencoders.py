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
from probes.errors import UserError, parse_json
from probes.models.pretrained import read_tensors, readable

WEIGHTS, CONFIG = "sae_weights.safetensors", "cfg.json"
_SURKOV_WEIGHTS, _SURKOV_CONFIG = "state_dict.pth", "config.json"
_NAMES = ("W_enc", "b_enc", "W_dec", "b_dec")
_SURKOV_NAMES = ("encoder.weight", "latent_bias", "decoder.weight", "pre_bias")
_ARCHITECTURES = ("standard", "topk", "jumprelu")


def load_autoencoder(folder: str | Path) -> SparseAutoencoder:
    """Return the sparse autoencoder stored in a folder, in SAELens's or Surkov et al.'s layout, as float32.

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
    surkov = (folder / _SURKOV_WEIGHTS).is_file() and not (folder / WEIGHTS).is_file()
    path = folder / (_SURKOV_CONFIG if surkov else CONFIG)
    config = _read_config(path)
    if surkov:
        config = {"architecture": "topk", "k": config.get("k")}
    kind, k = _read_architecture(path, config)
    path = folder / (_SURKOV_WEIGHTS if surkov else WEIGHTS)
    names = _SURKOV_NAMES if surkov else _NAMES
    stored = _read_weights(path, (*names, "threshold") if kind == "jumprelu" else names)
    encoder, bias, decoder, subtracted = (stored[name] for name in names)
    try:
        if encoder.ndim != 2:
            raise HookError(
                f"encoder: expected a matrix, but got shape {tuple(encoder.shape)}: mend the file"
            )
        if surkov:  # as `torch.nn.Linear` holds them
            encoder, decoder = encoder.T, decoder.T
        if config.get("rescale_acts_by_decoder_norm"):  # then latents count in units of their directions
            norm = decoder.norm(dim=-1)
            encoder, bias, decoder = encoder * norm, bias * norm, decoder / norm[:, None]
        return SparseAutoencoder(
            *(tensor.float().contiguous() for tensor in (encoder, bias, decoder, subtracted)),
            k=k,
            threshold=stored["threshold"] if kind == "jumprelu" else None,
            subtracts_bias=bool(config.get("apply_b_dec_to_input", True)),
            site=str((config.get("metadata") or {}).get("hook_name") or config.get("hook_name") or ""),
        )
    except HookError as error:
        raise UserError(f"{path}: {str(error).removeprefix('SparseAutoencoder: ')}") from None


def _read_architecture(path: Path, config: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return the architecture in a sparse autoencoder's configuration and, of topk alone, its k; checks both."""
    kind, k = config.get("architecture", "standard"), config.get("k")
    function = config.get("activation_fn", config.get("activation_fn_str", "relu"))  # before version 6
    if function == "topk":
        kind, k = "topk", (config.get("activation_fn_kwargs") or {}).get("k", k)
    elif function != "relu":
        kind = f"{kind} with {function}"
    if kind not in _ARCHITECTURES:
        raise UserError(
            f"{path}: architecture: expected one of {', '.join(_ARCHITECTURES)}, got {kind!r:.60}:"
            " choose another file"
        )
    for name in ("normalize_activations", "reshape_activations", "finetuning_scaling_factor"):
        if config.get(name) not in (None, False, "none"):
            raise UserError(
                f"{path}: {name}: expected none, got {config[name]!r:.60}: fold it into the weights, or choose"
                " another file"
            )
    if kind == "topk" and not (isinstance(k, int) and k >= 1):
        raise UserError(f"{path}: k: expected a whole number of at least 1, got {k!r:.60}: mend the file")
    return kind, k if kind == "topk" else None


def _read_config(path: Path) -> dict[str, Any]:
    """Return the JSON object in an autoencoder's configuration file; a `UserError` if there is none."""
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


def _read_weights(path: Path, names: tuple[str, ...]) -> dict[str, Tensor]:
    """Return the tensors of a weights file by name; a `UserError` if one of `names` is missing or not finite."""
    if not path.is_file():
        raise UserError(
            f"{path.parent}: expected {path.name} beside its configuration, found none: name the folder that holds both"
        )
    with readable(str(path), "weights of a sparse autoencoder"):
        stored = read_tensors(path)
        stored = dict(stored.get("state_dict", stored))
        if "log_threshold" in stored:  # of training
            stored["threshold"] = stored.pop("log_threshold").exp()
    for name in names:
        if not isinstance(stored.get(name), Tensor):
            raise UserError(
                f"{path}: expected {', '.join(names)}, found no {name} among"
                f" {', '.join(sorted(map(str, stored)))!s:.120}: choose another file"
            )
        if not bool(torch.isfinite(stored[name]).all()):
            raise UserError(f"{path}: {name}: expected finite numbers, got others: download it again")
    return stored
