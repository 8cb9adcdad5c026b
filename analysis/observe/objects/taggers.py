"""Taggers: models that say which tags an image is worth searching for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from analysis.observe.checkpoints import sha256
from analysis.observe.objects.tags import Prompts
from probes.errors import UserError
from probes.paths import expand

_TEXT = "a {}"


class ClipTagger:
    """Rank a vocabulary by CLIP: the cosine of the image's embedding and that of "a <tag>".

    Parameters
    ----------
    name
        The folder of an open_clip model (``open_clip_config.json`` and weights), or architecture and pretrained
        weights as open_clip names them: ``ViT-B-32/openai``.
    vocabulary
        The tags to rank.
    top
        How many are kept for an image, best first.

    Raises
    ------
    UserError
        There is no such model, or it cannot be fetched.
    """

    def __init__(self, name: str, vocabulary: Sequence[str], *, top: int, device: torch.device):
        self.vocabulary, self.top, self.device = list(vocabulary), top, device
        self.model, self._transform, tokenizer = _open_clip(name, device)
        with torch.inference_mode():
            tokens = tokenizer([_TEXT.format(tag) for tag in self.vocabulary]).to(device)
            encoded = [self.model.encode_text(chunk, normalize=True) for chunk in tokens.split(256)]
        self.texts = torch.cat(encoded)

    def scores(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Cosines ``(images, tags)``."""
        with torch.inference_mode():
            pixels = torch.stack([self._transform(Image.fromarray(image)) for image in images])
            embedded = self.model.encode_image(pixels.to(self.device), normalize=True)
            return (embedded @ self.texts.T).float().cpu().numpy()

    def __call__(self, images: Sequence[np.ndarray], prompts: Prompts) -> list[dict[str, str]]:
        """The best tags of each image."""
        if not len(images):
            return []
        best = np.argsort(-self.scores(images), axis=1, kind="stable")[:, : self.top]
        return [dict.fromkeys((self.vocabulary[index] for index in row), "tagger") for row in best]


def clip_files(name: str) -> dict[str, str]:
    """Checksums of the files that make a local open_clip model; the name alone for one by name."""
    folder = expand(name, "observe.tagger")
    if not folder.is_dir():
        return {}
    weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
    return {str(file.absolute()): sha256(file) for file in weights}


def _open_clip(name: str, device: torch.device) -> tuple[Any, Any, Any]:
    import open_clip

    folder = expand(name, "observe.tagger")
    architecture, _, pretrained = name.partition("/")
    if folder.is_dir():
        architecture, options = f"local-dir:{folder}", {}
    elif architecture in open_clip.list_models() and pretrained:
        options = {"pretrained": pretrained}
    else:
        raise UserError(
            f"observe.tagger: {name}: expected the folder of an open_clip model or <architecture>/<weights> such as"
            " ViT-B-32/openai, found neither: check the spelling"
        )
    try:
        # never a pickle that is not plain tensors
        model, transform = open_clip.create_model_from_pretrained(
            architecture, device=device, weights_only=True, **options
        )
        if (folder / "tokenizer.json").exists():  # else CLIP's own vocabulary, which open_clip carries
            tokenizer = open_clip.tokenizer.HFTokenizer(str(folder), context_length=model.context_length)
        else:
            tokenizer = open_clip.get_tokenizer(architecture)
        return model.eval(), transform, tokenizer
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise UserError(
            f"observe.tagger: {name}: expected an open_clip model, got `{first}`: give a folder that holds one"
        ) from error
