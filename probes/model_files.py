"""Which files of a model are read beside its weights, and a digest of each: they are part of what a run is."""

from __future__ import annotations

import json
from typing import Any

from probes import models
from probes.components import modules
from probes.errors import UserError
from probes.identity import short

_FOLDERS = ("scheduler", "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2", "unet", "vae")
_FILES = ("model_index.json", "triptych.json")
_ENDINGS = (".json", ".txt", ".model")


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
    hashes = {
        f"model/{name}/config.json": short(json.dumps(_plain(module.config), sort_keys=True, default=str))
        for name, module in modules(pipe).items()
    }
    for name in ("tokenizer", "tokenizer_2"):
        tokenizer = getattr(pipe, name, None)
        if tokenizer is not None:
            state = [tokenizer.backend_tokenizer.to_str(), tokenizer.model_max_length, tokenizer.pad_token]
            hashes[f"model/{name}/tokenizer.json"] = short(json.dumps(state))
    return hashes


def _plain(config: Any) -> dict[str, Any]:
    """A component's settings without what names its origin."""
    settings = config.to_dict() if hasattr(config, "to_dict") else dict(config)
    return {key: value for key, value in settings.items() if not key.startswith("_")}
