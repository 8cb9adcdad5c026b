"""DETR's checkpoints as its authors' code writes them (``.pth``), in the class of transformers.

That code is what Cho et al. 2023 (DALL-Eval) train on their scenes; their checkpoint,
``j-min/PaintSkills-DETR-R101-DC5/paintskills_detr_r101_dc5.pth``, is such a file. Sizes are read off the weights. What
they do not tell is whether the last stage of the backbone is dilated: a name with ``dc5`` says that it is.

A JSON file of the checkpoint's name beside it goes before all that: ``dilation`` (true or false), ``heads`` of
attention, ``id2label`` (the class of each number; COCO's by default), ``short_side`` and ``long_side`` (pixels to
which images are resized).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import fit, read_weights, settings_beside
from analysis.observe.objects.models import hf_keys
from analysis.observe.objects.models.grounding_dino import FIELD
from probes.errors import UserError
from probes.models.pretrained import readable

# by whether a block has three convolutions or two, and how many blocks there are in the third stage
BACKBONES = {
    (False, 2): "resnet18",
    (False, 6): "resnet34",
    (True, 6): "resnet50",
    (True, 23): "resnet101",
    (True, 36): "resnet152",
}
BACKGROUND = "__background__"
_SETTINGS = ("dilation", "heads", "id2label", "short_side", "long_side")


def description(path: Path) -> dict[str, Any]:
    """Return the description of a checkpoint, from the file beside it and from its name."""
    beside = path.with_suffix(".json")
    stated = settings_beside(path, _SETTINGS, FIELD, "DETR")
    usual = {"dilation": "dc5" in path.stem.lower(), "heads": 8, "short_side": 800, "long_side": 1333}
    for name, value in usual.items():
        got = stated.get(name, value)
        if type(got) is not type(value) or (name != "dilation" and got < 1):
            wanted = "true or false" if name == "dilation" else "a whole number above 0"
            raise UserError(f"{FIELD}: {beside}: {name}: expected {wanted}, got {got!r:.60}: correct it")
    return usual | stated


def names(path: Path) -> dict[str, str]:
    """Return the class of each number, as text: COCO's 91, as its authors count them, by default."""
    if stated := description(path).get("id2label"):
        return stated
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    categories = FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta["categories"]
    return {str(number): "N/A" if name == BACKGROUND else name for number, name in enumerate(categories)}


def load(path: Path) -> Any:
    """Return `transformers.DetrForObjectDetection` with a checkpoint's weights."""
    from transformers import DetrForObjectDetection

    weights = read_weights(path, FIELD)
    config = configuration(weights, description(path), path)
    classes = len(names(path))
    if classes != config.num_labels:
        raise UserError(
            f"{FIELD}: {path}: expected {classes} classes, got {config.num_labels}: name them (`id2label`) in"
            f" {path.with_suffix('.json').name} beside it"
        )
    with readable(f"{FIELD}: {path}", "a checkpoint of DETR", "choose another"):
        model = DetrForObjectDetection(config)
    fit(model, hf_keys.detr(weights), path=path, field=FIELD, what="DETR")
    return model


def configuration(weights: Mapping[str, Any], described: Mapping[str, Any], path: Path) -> Any:
    """Return `transformers.DetrConfig` of a checkpoint, its sizes read off the weights."""
    from transformers import DetrConfig

    def blocks(start: str) -> int:
        return len({found[1] for name in weights if (found := re.match(rf"{start}\.(\d+)\.", name))})

    body = "backbone.0.body.layer3"
    backbone = BACKBONES.get((f"{body}.0.conv3.weight" in weights, blocks(re.escape(body))))
    heads = ("query_embed.weight", "class_embed.weight", "transformer.encoder.layers.0.linear1.weight")
    if missing := [name for name in heads if name not in weights]:
        raise UserError(
            f"{FIELD}: {path}: expected a checkpoint of DETR, found no {missing[0]}: choose another"
        )
    if backbone is None:
        raise UserError(
            f"{FIELD}: {path}: expected the backbone {', '.join(BACKBONES.values())}, got"
            f" {blocks(re.escape(body))} blocks in {body}: choose another"
        )
    queries, classes, inner = (weights[name].shape for name in heads)
    if len(queries) != 2 or queries[1] % described["heads"]:
        raise UserError(
            f"{FIELD}: {path}: expected a width that {described['heads']} heads of attention share, got "
            f"query_embed.weight {tuple(queries)}: say `heads` in {path.with_suffix('.json').name} beside it"
        )
    return DetrConfig(
        use_timm_backbone=True,
        use_pretrained_backbone=False,
        backbone=backbone,
        dilation=described["dilation"],
        num_queries=queries[0],
        d_model=queries[1],
        num_labels=classes[0] - 1,
        encoder_layers=blocks(r"transformer\.encoder\.layers"),
        decoder_layers=blocks(r"transformer\.decoder\.layers"),
        encoder_ffn_dim=inner[0],
        decoder_ffn_dim=inner[0],
        encoder_attention_heads=described["heads"],
        decoder_attention_heads=described["heads"],
    )
