"""Grounding DINO: that project's checkpoints in the classes of groundingdino-py, folders in that of transformers.

The package is written for transformers 4: its text encoder calls methods of BERT that transformers 5 no longer has.
While a model is built, a text encoder of our own with the same parameter names stands in its place; the modules of
the package are as they were afterwards. Source: Liu et al. 2023, Grounding DINO.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from PIL import Image
from torch import nn

from analysis.observe.checkpoints import fit, from_folder, read_weights, require_kind, settings_beside
from analysis.observe.objects.passes import TEXTS, computed_once, remember_texts
from analysis.observe.objects.tags.tag_captions import BERT_LIMIT
from probes.errors import UserError
from probes.models.pretrained import from_auto_class, quiet, readable
from probes.paths import expand_model

# the package's own configurations, by the name of the published checkpoint
USUAL = "GroundingDINO_SwinT_OGC"
CONFIGURATIONS = {
    "groundingdino_swint_ogc": USUAL,
    "groundingdino_swinb_cogcoor": "GroundingDINO_SwinB_cfg",
}
FIELD = "observe.detector"
SPARE = ("label_enc.weight", "bert.embeddings.position_ids")  # of training, and of an earlier transformers
_OURS = {"base": None, "swin": None, "text_encoder": None, "short_side": 800, "long_side": 1333}
_MASKS = "generate_masks_with_special_tokens_and_transfer_map"
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def description(path: Path) -> dict[str, Any]:
    """Settings of the model that a checkpoint is for.

    A JSON file of the checkpoint's name beside it goes over the package's configuration: any of its settings and
    ``base`` (the configuration), ``swin`` (arguments of the Swin backbone's class), ``text_encoder`` (a folder beside
    it), ``short_side`` and ``long_side`` (pixels to which images are resized).
    """
    stated = settings_beside(path, _package_settings(USUAL), FIELD, "Grounding DINO")
    base = stated.get("base") or CONFIGURATIONS.get(path.stem, USUAL if stated else "")
    if base not in CONFIGURATIONS.values():
        raise UserError(
            f"{FIELD}: {path}: expected {' or '.join(f'{name}.pth' for name in CONFIGURATIONS)}, or a description in"
            f" {path.with_suffix('.json').name} with a `base` of theirs, found {base or 'neither'}: rename it or"
            " describe it"
        )
    return {**_package_settings(base), **stated}


def _package_settings(base: str) -> dict[str, Any]:
    """Settings of one of the package's own configurations, and those that a description has beside them."""
    own = vars(importlib.import_module(f"groundingdino.config.{base}"))
    own = {name: value for name, value in own.items() if not name.startswith("__")}
    # checkpointing of activations is for training
    return {**own, **_OURS, "base": base, "use_checkpoint": False, "use_transformer_ckpt": False}


class TextEncoder(nn.Module):
    """BERT whose tokens attend within a phrase, under the parameter names of groundingdino-py."""

    def __init__(self, bert_model: Any):
        super().__init__()
        self.config = bert_model.config
        self.embeddings, self.encoder = bert_model.embeddings, bert_model.encoder
        self.pooler = bert_model.pooler

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode tokens; `attention_mask` ``(batch, tokens, tokens)`` is true where one may attend to another."""
        hidden = self.embeddings(
            input_ids=input_ids, token_type_ids=token_type_ids, position_ids=position_ids
        )
        forbidden = ~attention_mask.bool()[:, None]
        added = torch.zeros_like(forbidden, dtype=hidden.dtype)
        added = added.masked_fill(forbidden, torch.finfo(hidden.dtype).min)
        return {"last_hidden_state": self.encoder(hidden, attention_mask=added).last_hidden_state}


def text_encoder(name: str) -> tuple[Any, Any]:
    """Return the tokenizer and the configuration of a text encoder; its weights are in the detector's checkpoint."""
    expand_model(name, "observe.text_encoder")  # refuses what no end is read of
    expected = "a folder with a tokenizer and config.json, or a name for which the hub gives them"
    with readable(f"observe.text_encoder: {name}", expected, "give a local folder"), quiet():
        tokenizer, config = (from_auto_class(kind, name, fetch=True) for kind in ("Tokenizer", "Config"))
    if config.model_type != "bert" or not tokenizer.is_fast:
        raise UserError(
            f"observe.text_encoder: {name}: expected a BERT, got {config.model_type}: choose another"
        )
    return tokenizer, config


def build(settings: Mapping[str, Any], tokenizer: Any, text_config: Any) -> Any:
    """Build `GroundingDINO` with random weights from its settings, without a download."""
    from transformers import BertModel

    module = _package()
    encoder = SimpleNamespace(
        get_tokenlizer=lambda name: tokenizer,
        get_pretrained_language_model=lambda name: BertModel(text_config),
    )
    names: dict[str, Any] = {"BertModelWarper": TextEncoder, "get_tokenlizer": encoder}
    if settings["swin"]:
        names["build_backbone"] = _narrow_backbone
    with patch.multiple(module, **names), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = module.build_groundingdino(SimpleNamespace(**settings)).eval()
    for layer in model.transformer.encoder.text_layers:
        layer.register_forward_pre_hook(_own_mask, with_kwargs=True)
    return model


def _package() -> Any:
    """Return the module of the package that has the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it imports timm by a name that has moved
        return importlib.import_module("groundingdino.models.GroundingDINO.groundingdino")


def _own_mask(layer: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Give each image's heads that image's mask.

    The package repeats the masks of a batch head by head where torch's attention counts image by image, so images
    with different captions would attend by one another's phrases.
    """
    return args, {**kwargs, "src_mask": kwargs["src_mask"].repeat_interleave(layer.nhead, dim=0)}


def _narrow_backbone(settings: Any) -> Any:
    """A Swin backbone of any width; the package itself builds the published ones only."""
    from groundingdino.models.GroundingDINO.backbone.backbone import Joiner, build_position_encoding
    from groundingdino.models.GroundingDINO.backbone.swin_transformer import SwinTransformer

    levels = settings.return_interm_indices
    swin = SwinTransformer(**settings.swin, out_indices=tuple(levels), use_checkpoint=False)
    joined = Joiner(swin, build_position_encoding(settings))
    joined.num_channels = [swin.num_features[level] for level in levels]
    return joined


class GroundingDinoFolder:
    """The detector in a folder of transformers' layout, such as that of ``IDEA-Research/grounding-dino-tiny``."""

    def __init__(self, path: Path, device: torch.device):
        from transformers import GroundingDinoForObjectDetection

        require_kind(path, ("grounding-dino",), FIELD)
        with readable(f"{FIELD}: {path}", "a model of transformers with tokenizer and transform"), quiet():
            self.processor = from_auto_class("Processor", path)
        self.tokenizer, self.device = self.processor.tokenizer, device
        self.model = from_folder(GroundingDinoForObjectDetection, path, FIELD).eval().to(device)
        self.limit = self.model.config.max_text_len
        ends = self.tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]", ".", "?"])
        self.model.model.special_tokens = torch.tensor(ends, device=device)
        remember_texts(self.model.model.text_backbone)

    def same_images(self) -> contextlib.AbstractContextManager[None]:
        """As `GroundingDino.same_images`."""
        return computed_once(self.model.model.backbone)

    @torch.inference_mode()
    def ground(
        self, images: Sequence[np.ndarray], captions: Sequence[str]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """As `GroundingDino.ground`."""
        inputs = self.processor(
            images=[*map(Image.fromarray, images)], text=list(captions), padding=True, return_tensors="pt"
        )
        output = self.model(**inputs.to(self.device))
        return output.pred_boxes.float().cpu(), output.logits.float().sigmoid().cpu()


class GroundingDino:
    """The detector of a checkpoint such as ``groundingdino_swint_ogc.pth``: boxes and probabilities of tokens.

    `encoder` is a folder in the layout of bert-base-uncased, or that name.
    """

    limit = BERT_LIMIT  # fixed in the package's classes

    def __init__(self, path: Path, encoder: str, device: torch.device):
        self.settings = description(path)
        beside = self.settings["text_encoder"]
        self.tokenizer, text = text_encoder(str(path.parent / beside) if beside else encoder)
        with readable(f"{FIELD}: {path}", "settings of Grounding DINO", "mend them"):
            model = build(self.settings, self.tokenizer, text)
        weights = read_weights(path, FIELD)
        fit(model, weights, path=path, field=FIELD, what=self.settings["base"], spare=SPARE)
        self.model, self.device = model.to(device), device
        remember_texts(model.bert)
        self._masks = lru_cache(TEXTS)(partial(self._caption_masks, getattr(_package(), _MASKS)))

    def same_images(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, all images are those of its first call: what is computed of them alone is so once."""
        return computed_once(self.model.backbone)

    def ground(
        self, images: Sequence[np.ndarray], captions: Sequence[str]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Detect captions in images.

        Boxes ``(images, queries, 4)`` as centre and size in shares of the image, and probabilities ``(images, queries,
        256)`` of the tokens.
        """
        from groundingdino.util.misc import nested_tensor_from_tensor_list

        short, long = self.settings["short_side"], self.settings["long_side"]
        batch = nested_tensor_from_tensor_list(
            [pixels(image, short, long).to(self.device) for image in images]
        )
        masks = {_MASKS: lambda tokens, *_: self._masks(tuple(map(tuple, tokens["input_ids"].tolist())))}
        with torch.inference_mode(), warnings.catch_warnings(), patch.multiple(_package(), **masks):
            warnings.simplefilter("ignore")  # calls that torch has renamed since
            output = self.model(batch, captions=list(captions))
        return output["pred_boxes"].float().cpu(), output["pred_logits"].float().sigmoid().cpu()

    def _caption_masks(self, compute: Any, ids: tuple[tuple[int, ...], ...]) -> Any:
        """Return what the package computes token by token of captions."""
        tokens = {"input_ids": torch.tensor(ids, device=self.device)}
        return compute(tokens, self.model.specical_tokens, self.tokenizer)


def pixels(image: np.ndarray, short_side: int, long_side: int) -> torch.Tensor:
    """Return an image as the detector takes it: resized, scaled by ImageNet's mean and deviation; ``(3, h, w)``."""
    from groundingdino.datasets import transforms

    steps = [
        transforms.RandomResize([short_side], max_size=long_side),
        transforms.ToTensor(),
        transforms.Normalize(_MEAN, _DEVIATION),
    ]
    return transforms.Compose(steps)(Image.fromarray(image), None)[0]
