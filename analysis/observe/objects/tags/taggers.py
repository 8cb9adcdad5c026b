"""Taggers: models that say which tags an image is worth searching for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from analysis.observe.checkpoints import sha256
from analysis.observe.features.weights import file_in
from analysis.observe.objects.tags.tags import Prompts
from probes.errors import UserError
from probes.models import pretrained
from probes.models.pretrained import readable
from probes.paths import expand_model

FIELD = "observe.tagger"
EXPECTED, REMEDY = "an open_clip model", "give a folder that holds one"
_TEXT = "a {}"


class ClipTagger:
    """Rank a vocabulary by CLIP: the cosine of the image's embedding and that of "a <tag>"; the `top` best are kept.

    `name` is the folder of an open_clip model (``open_clip_config.json`` and weights), or architecture and pretrained
    weights as open_clip names them: ``ViT-B-32/openai``.
    """

    def __init__(self, name: str, vocabulary: Sequence[str], *, top: int, device: torch.device):
        self.vocabulary, self.top, self.device = list(vocabulary), top, device
        self.model, self._transform, tokenizer = _open_clip(name, device)
        with readable(f"{FIELD}: {name}", EXPECTED, REMEDY), torch.inference_mode():
            tokens = tokenizer([_TEXT.format(tag) for tag in self.vocabulary]).to(device)
            encoded = [self.model.encode_text(chunk, normalize=True) for chunk in tokens.split(256)]
            self.texts = torch.cat(encoded)
            # a network of another kind is said before any image is read
            if not np.isfinite(self.scores([np.zeros((64, 64, 3), np.uint8)])).all():
                raise ValueError("similarities that are no numbers")

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
    folder = expand_model(name, FIELD)
    if not folder.is_dir():
        return {}
    file = file_in(folder, "open_clip", FIELD)
    return {str(file.absolute()): sha256(file)}


def _open_clip(name: str, device: torch.device) -> tuple[Any, Any, Any]:
    import open_clip

    folder = expand_model(name, FIELD)
    architecture, _, tag = name.partition("/")
    known = architecture in open_clip.list_models() and tag
    if not folder.is_dir() and not known:
        raise UserError(
            f"observe.tagger: {name}: expected the folder of an open_clip model or <architecture>/<weights> such as"
            " ViT-B-32/openai, found neither: check the spelling"
        )
    weights = file_in(folder, "open_clip", FIELD) if folder.is_dir() else None
    with readable(f"{FIELD}: {name}", EXPECTED, REMEDY):
        if weights is not None:
            model, transform = pretrained.open_clip_model(folder, weights)
            tokenizer = pretrained.open_clip_tokenizer(model, folder)
        else:
            model, transform = pretrained.open_clip_by_name(architecture, tag, fetch=True)
            tokenizer = pretrained.open_clip_tokenizer_by_name(architecture)
        return model.eval().to(device), transform, tokenizer
