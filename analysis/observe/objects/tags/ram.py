"""RAM, the Recognize Anything Model: a Swin Transformer and a decoder that asks the image for every tag.

The published package needs names that transformers 5 no longer has and an old timm, so the model is built here, with
timm's Swin blocks, under the parameter names of the published checkpoint (``ram_swin_large_14m.pth``).

An image of ``image_size`` pixels a side gives Swin tokens and, before them, their mean; both are projected to the width
of the tags' embeddings, of which there is one a tag, made by CLIP's text encoder and kept in the checkpoint. Each
layer of the decoder lets every tag attend to the image and to no other tag (Query2Label's decoder without its
self-attention), and one linear function gives the logit. Source: Zhang et al. 2023, Recognize Anything: A Strong Image
Tagging Model (arXiv 2306.03514), and the layout of the published checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from analysis.observe.checkpoints import check_fit, find, fit, read_weights, settings_beside
from analysis.observe.objects.tags.tags import Prompts, normal, read_lines
from probes.config.schema import Observe
from probes.errors import UserError
from probes.models.pretrained import readable
from probes.paths import expand
from probes.runs.parts import digest

FIELD = "observe.ram"
TAG_LIST, THRESHOLDS = "ram_tag_list.txt", "ram_tag_list_threshold.txt"
THRESHOLD = 0.68  # of every tag, where no file says otherwise: the published package's
PUBLISHED: Mapping[str, Any] = {
    "image_size": 384,
    "patch_size": 4,
    "embed_dim": 192,
    "depths": [2, 2, 18, 2],
    "num_heads": [6, 12, 24, 48],
    "window_size": 12,
    "label_width": 512,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "attention_heads": 4,
    "layers": 2,
    "tags": 4585,
}
_SWIN = ("patch_size", "embed_dim", "depths", "num_heads", "window_size")
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_UNUSED = re.compile(
    r"(tag_encoder|text_decoder)\."  # they write captions
    r"|visual_encoder\..*(attn_mask|relative_position_index)$"  # computed from the settings
    r"|tagging_head\.(embeddings\.|encoder\.layer\.\d+\.attention\.)"  # the decoder has no tokens, no self-attention
)


class SwinStage(nn.Module):
    """Blocks of one resolution, and the merging of their patches for the next: ``(n, h, w, c)``."""

    def __init__(self, blocks: nn.Module, downsample: nn.Module):
        super().__init__()
        self.blocks, self.downsample = blocks, downsample

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The next stage's input."""
        return self.downsample(self.blocks(hidden))


class VisualEncoder(nn.Module):
    """timm's Swin Transformer with each merging of patches at the end of a stage, where the checkpoint has it."""

    def __init__(self, settings: Mapping[str, Any]):
        super().__init__()
        from timm.models.swin_transformer import SwinTransformer

        swin = SwinTransformer(
            img_size=settings["image_size"],
            num_classes=0,
            drop_path_rate=0.0,
            **{name: settings[name] for name in _SWIN},
        )
        merges = [stage.downsample for stage in swin.layers[1:]] + [nn.Identity()]
        self.patch_embed, self.norm = swin.patch_embed, swin.norm
        self.layers = nn.Sequential(
            *(SwinStage(stage.blocks, merge) for stage, merge in zip(swin.layers, merges))
        )

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """The mean of all tokens, then the tokens row by row: ``(n, 1 + tokens, width)``."""
        tokens = self.norm(self.layers(self.patch_embed(pixels))).flatten(1, 2)
        return torch.cat([tokens.mean(1, keepdim=True), tokens], 1)


class TagLayer(nn.Module):
    """A layer of the decoder: every tag attends to the image's tokens, then a feed-forward network; BERT's names."""

    def __init__(self, settings: Mapping[str, Any]):
        super().__init__()
        width, image, inner = (settings[name] for name in ("hidden_size", "label_width", "intermediate_size"))
        self.heads = settings["attention_heads"]
        inputs = {"query": width, "key": image, "value": image}
        attention = {name: nn.Linear(size, width) for name, size in inputs.items()}
        self.crossattention = nn.ModuleDict(
            {"self": nn.ModuleDict(attention), "output": _residual(width, width)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = _residual(inner, width)

    def forward(self, tags: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """Return tags ``(n, tags, hidden)`` after attention to the image's tokens ``(n, tokens, label width)``."""
        asked = self.crossattention["self"]
        inputs = (("query", tags), ("key", image), ("value", image))
        split = (asked[name](value).unflatten(-1, (self.heads, -1)).transpose(1, 2) for name, value in inputs)
        seen = F.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        tags = _add(self.crossattention["output"], seen, tags)
        return _add(self.output, F.gelu(self.intermediate["dense"](tags)), tags)


def _residual(width: int, out: int) -> nn.ModuleDict:
    return nn.ModuleDict({"dense": nn.Linear(width, out), "LayerNorm": nn.LayerNorm(out, eps=1e-12)})


def _add(block: nn.ModuleDict, change: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    return block["LayerNorm"](block["dense"](change) + before)


class Ram(nn.Module):
    """The tagger with freshly drawn weights, for settings as in `PUBLISHED`."""

    def __init__(self, settings: Mapping[str, Any]):
        super().__init__()
        labels, width = settings["label_width"], settings["hidden_size"]
        self.visual_encoder = VisualEncoder(settings)
        self.image_proj = nn.Linear(self.visual_encoder.norm.weight.shape[0], labels)
        self.label_embed = nn.Parameter(torch.zeros(settings["tags"], labels))
        self.wordvec_proj = nn.Identity() if labels == width else nn.Linear(labels, width)
        layers = nn.ModuleList(TagLayer(settings) for _ in range(settings["layers"]))
        self.tagging_head = nn.ModuleDict({"encoder": nn.ModuleDict({"layer": layers})})
        self.fc = nn.Linear(width, 1)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Logits ``(n, tags)`` of images ``(n, 3, size, size)``, scaled by ImageNet's mean and deviation."""
        return self.fc(self.states(self.see(pixels))).squeeze(-1)

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """The mean token and the tokens of images, as wide as the tags' embeddings: ``(n, 1 + tokens, width)``."""
        return self.image_proj(self.visual_encoder(pixels))

    def states(self, image: torch.Tensor) -> torch.Tensor:
        """Return states of the tags after cross-attention to what `see` gives, ``(n, tags, hidden)``."""
        tags = F.relu(self.wordvec_proj(self.label_embed)).expand(len(image), -1, -1)
        for layer in self.tagging_head["encoder"]["layer"]:
            tags = layer(tags, image)
        return tags


@dataclass(frozen=True)
class RamFiles:
    """Settings of the tagger as `PUBLISHED`, the names of its tags, and above which probability an image has each."""

    weights: Path
    settings: Mapping[str, Any]
    tags: tuple[str, ...]
    thresholds: tuple[float, ...]

    @property
    def digest(self) -> str:
        """A digest of all but the weights, for the identity of what is seen."""
        return digest(repr((sorted(self.settings.items()), self.tags, self.thresholds)))


def require_ram(settings: Observe) -> None:
    """Refuse what RAM cannot run with before anything is generated; of a checkpoint on the hub the tags alone."""
    if "ram" not in (settings.tags or ()):
        raise UserError(
            "observe.tags: expected `ram`, since `observe.ram_tags` is named, got"
            f" {', '.join(settings.tags or ())}: add it, or take `ram_tags` out"
        )
    if not settings.ram:
        raise UserError(
            "observe.ram: expected RAM's checkpoint (ram_swin_large_14m.pth) for the source `ram`, found none: name it"
        )
    if find(settings.ram, FIELD, fetch=False):
        named_files(settings)
    elif not settings.ram_tags:
        raise UserError(
            f"observe.ram_tags: expected the list of RAM's tags ({TAG_LIST}), since the hub has the checkpoint alone,"
            " found none: name it"
        )
    else:
        read_tags(expand(settings.ram_tags, "observe.ram_tags"), PUBLISHED["tags"])


def named_files(settings: Observe) -> RamFiles:
    """The files that section ``observe`` names, checked (`ram_files`); fetches those of the hub."""
    path = find(settings.ram, FIELD)
    if path.is_dir():
        raise UserError(f"{FIELD}: {path}: expected a checkpoint file, got a folder: name the file in it")
    return ram_files(path, expand(settings.ram_tags, "observe.ram_tags") if settings.ram_tags else None)


def ram_files(weights: Path, tag_list: Path | None = None) -> RamFiles:
    """Check all that the tagger needs, without reading the tensors of a zipped checkpoint.

    A JSON file of the checkpoint's name beside it goes over the published settings (`PUBLISHED`). The names of the tags
    are in no checkpoint: they are the lines of `tag_list`, or of ``ram_tag_list.txt`` beside the checkpoint. Next to
    that list ``ram_tag_list_threshold.txt`` may give each tag a threshold; without it all have the published 0.68.
    """
    settings = {**PUBLISHED, **settings_beside(weights, PUBLISHED, FIELD, "RAM")}
    place, meta = f"{FIELD}: {weights}", torch.device("meta")
    with readable(place, "settings of RAM", "mend them"), meta:
        model = Ram(settings)
    check_fit(model, tagger_weights(weights), path=weights, field=FIELD, what="RAM's tagger")
    names, thresholds = read_tags(tag_list or weights.with_name(TAG_LIST), settings["tags"])
    return RamFiles(weights, settings, names, thresholds)


def tagger_weights(path: Path) -> dict[str, torch.Tensor]:
    """A checkpoint's weights less those that no tag needs; the decoder goes by an earlier name in early ones."""
    weights = read_weights(path, FIELD)
    renamed = {name.replace("vision_multi", "tagging_head"): value for name, value in weights.items()}
    return {name: value for name, value in renamed.items() if not _UNUSED.match(name)}


def read_tags(path: Path, count: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The names and thresholds of `count` tags: a line each, in the order of the checkpoint's embeddings."""
    if not path.is_file():
        raise UserError(
            f"observe.ram_tags: {path}: expected the list of RAM's tags ({TAG_LIST}, a tag a line), found none: take it"
            " from the package `ram` and put it there, or name it"
        )
    names = [normal(line) for line in _lines(path, count)]
    if "" in names:
        raise UserError(
            f"observe.ram_tags: {path}: line {names.index('') + 1}: expected a tag, got nothing: take the list from the"
            " package `ram`"
        )
    beside = path.with_name(THRESHOLDS)
    if not beside.is_file():
        return tuple(names), (THRESHOLD,) * count
    lines = pd.Series(_lines(beside, count))
    thresholds = pd.to_numeric(lines, errors="coerce")
    wrong = np.flatnonzero(~thresholds.between(0, 1))
    if len(wrong):
        raise UserError(
            f"observe.ram_tags: {beside}: line {wrong[0] + 1}: expected a threshold from 0 to 1, got"
            f" {lines[wrong[0]].strip()[:40]!r}: mend it"
        )
    return tuple(names), tuple(thresholds.astype(float).tolist())


def _lines(path: Path, count: int) -> list[str]:
    lines = read_lines(path, "observe.ram_tags")
    if len(lines) != count:
        raise UserError(
            f"observe.ram_tags: {path}: expected {count} lines, one for each tag of the checkpoint, got {len(lines)}:"
            " take the list that belongs to the checkpoint"
        )
    return lines


class RamTagger:
    """The tags that RAM gives each image; see :data:`analysis.observe.objects.tags.tags.Tags`."""

    def __init__(self, files: RamFiles, device: torch.device):
        self.files, self.device = files, device
        model = Ram(files.settings).eval()
        fit(model, tagger_weights(files.weights), path=files.weights, field=FIELD, what="RAM's tagger")
        self.model = model.to(device)

    def probabilities(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Probabilities ``(images, tags)`` in [0, 1]; images ``(h, w, 3)`` uint8 RGB of any size."""
        size = self.files.settings["image_size"]
        with torch.inference_mode():
            batch = torch.stack([pixels(image, size) for image in images]).to(self.device)
            return self.model(batch).float().sigmoid().cpu().numpy()

    def __call__(self, images: Sequence[np.ndarray], prompts: Prompts) -> list[dict[str, str]]:
        """The tags of each image whose probability is above the tag's threshold, in the order of the list."""
        if not len(images):
            return []
        names = np.array(self.files.tags, object)
        above = self.probabilities(images) > np.array(self.files.thresholds)
        return [dict.fromkeys(names[row], "ram") for row in above]


def pixels(image: np.ndarray, size: int) -> torch.Tensor:
    """An image as RAM takes it: a square by bilinear interpolation, scaled by ImageNet's mean and deviation."""
    from torchvision.transforms import functional

    square = functional.resize(Image.fromarray(image), [size, size])
    return functional.normalize(functional.to_tensor(square), _MEAN, _DEVIATION)
