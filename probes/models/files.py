"""Which files of a model are read beside its weights, and a digest of each: they are part of what a run is."""

from __future__ import annotations

from probes.errors import UserError
from probes.models import loading
from probes.models.description import INDEX
from probes.models.source import CARD
from probes.runs.identity import short

_FOLDERS = ("scheduler", "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2", "unet", "vae")
_ENDINGS = (".json", ".txt", ".model")


def files(source: loading.Source) -> dict[str, str]:
    """A digest of every file of a model that is read beside its weights, by ``model/<path>``.

    Weights are known by their content once they are loaded (:func:`probes.models.components.weight_hash`), whichever of a
    folder's files held them.
    """
    paths = {INDEX: source.described(INDEX), CARD: source.card}
    for folder in _FOLDERS:
        for place in (*reversed(source.bases), source.config):  # what stands in first, then the model's
            paths |= {f"{folder}/{path.name}": path for path in sorted((place / folder).glob("*"))}
    try:
        return {
            f"model/{name}": short(path.read_bytes())
            for name, path in paths.items()
            if path.suffix in _ENDINGS and ".index." not in path.name and path.is_file()
        }
    except OSError as error:
        raise UserError(
            f"model {source.name}: {error.filename}: cannot be read ({error.strerror}): check its permissions"
        ) from None
