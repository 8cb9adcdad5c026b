"""Grounding DINO and Segment Anything in the classes of transformers, behind the same interface.

They take the same checkpoints as the other engine, under other names (:mod:`analysis.observe.objects.models.hf_keys`), or
folders and hub ids in transformers' own layout; images are prepared by the same code, so that the engines differ
in the network's implementation alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from analysis.observe.checkpoints import fit, read_json, read_weights
from analysis.observe.objects.engines.passes import computed_once, remember_texts
from analysis.observe.objects.models import grounding_dino, hf_keys, segment_anything
from probes.errors import UserError
from probes.models import pretrained
from probes.models.network_limits import MOST_TENSORS, limited
from probes.models.pretrained import auto, quiet, readable

_ENDS = ["[CLS]", "[SEP]", ".", "?"]


class TransformersGroundingDino:
    """The detector, with the interface of :class:`analysis.observe.objects.models.grounding_dino.GroundingDino`.

    Parameters
    ----------
    path
        A checkpoint of groundingdino-py, or a folder with ``config.json`` and safetensors.
    encoder
        Where the tokenizer is, for a checkpoint; a folder has its own.

    Raises
    ------
    UserError
        The checkpoint is damaged or does not fit, or the tokenizer is not there.
    """

    def __init__(self, path: Path, encoder: str, device: torch.device):
        from transformers import GroundingDinoForObjectDetection

        if path.is_dir():
            self.tokenizer, _ = described(path, "grounding-dino", grounding_dino.FIELD)
            model = from_folder(GroundingDinoForObjectDetection, path, grounding_dino.FIELD)
            self.sides = sides(path)
        else:
            settings = grounding_dino.description(path)
            own = settings["text_encoder"]
            self.tokenizer, text = grounding_dino.text_encoder(str(path.parent / own) if own else encoder)
            place = f"{grounding_dino.FIELD}: {path}"
            with readable(place, "settings of Grounding DINO", "mend them"), limited(MOST_TENSORS):
                model = GroundingDinoForObjectDetection(detector_config(settings, text))
            weights = hf_keys.grounding_dino(read_weights(path, grounding_dino.FIELD))
            # a norm of transformers' Swin that a backbone does not use
            weights |= {name: own for name, own in model.state_dict().items() if ".swin.layernorm." in name}
            fit(model, weights, path=path, field=grounding_dino.FIELD, what=settings["base"])
            self.sides = settings["short_side"], settings["long_side"]
        # the class knows them by their place in BERT's own vocabulary
        model.model.special_tokens = torch.tensor(self.tokenizer.convert_tokens_to_ids(_ENDS))
        self.limit = model.config.max_text_len
        self.model, self.device = model.eval().to(device), device
        remember_texts(model.model.text_backbone)

    def same_images(self) -> AbstractContextManager[None]:
        """While it lasts, all images are those of its first call: what is computed of them alone is so once."""
        return computed_once(self.model.model.backbone)

    def ground(
        self, images: Sequence[np.ndarray], captions: Sequence[str]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Look for captions in images: boxes and probabilities of tokens."""
        pixels = [grounding_dino.pixels(image, *self.sides) for image in images]
        height, width = (max(one.shape[axis] for one in pixels) for axis in (1, 2))
        batch = torch.zeros(len(pixels), 3, height, width)
        mask = torch.zeros(len(pixels), height, width, dtype=torch.long)
        for row, one in enumerate(pixels):
            batch[row, :, : one.shape[1], : one.shape[2]] = one
            mask[row, : one.shape[1], : one.shape[2]] = 1
        text = self.tokenizer(list(captions), padding="longest", return_tensors="pt").to(self.device)
        with torch.inference_mode():
            output = self.model(pixel_values=batch.to(self.device), pixel_mask=mask.to(self.device), **text)
        return output.pred_boxes.float().cpu(), output.logits.float().sigmoid().cpu()


class TransformersSegmentAnything(segment_anything.SegmentAnything):
    """The segmenter; see :class:`analysis.observe.objects.models.segment_anything.SegmentAnything`."""

    def __init__(self, path: Path, device: torch.device):
        from transformers import SamModel

        if path.is_dir():
            _, config = described(path, "sam", segment_anything.FIELD, tokenizer=False)
            model = from_folder(SamModel, path, segment_anything.FIELD)
            self.settings = {"image_size": config.vision_config.image_size}
        else:
            self.settings = segment_anything.description(path)
            place = f"{segment_anything.FIELD}: {path}"
            with readable(place, "settings of Segment Anything", "mend them"), limited(MOST_TENSORS):
                model = SamModel(segmenter_config(self.settings))
            weights = hf_keys.segment_anything(read_weights(path, segment_anything.FIELD))
            fit(model, weights, path=path, field=segment_anything.FIELD, what="Segment Anything")
        self.model, self.device = model.eval().to(device), device

    def embed(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.model.get_image_embeddings(pixels)

    def decode(self, embedding: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        output = self.model(image_embeddings=embedding, input_boxes=boxes[None], multimask_output=False)
        return output.pred_masks[0]


def detector_config(settings: Mapping[str, Any], text: Any) -> Any:
    """The configuration of transformers for settings of groundingdino-py."""
    from groundingdino.models.GroundingDINO.backbone.swin_transformer import build_swin_transformer
    from transformers import GroundingDinoConfig, SwinConfig

    swin = settings["swin"]
    if not swin:  # the package keeps the widths of the published ones to itself
        size = int(settings["backbone"].split("_")[2])
        with torch.device(
            "cpu"
        ):  # it reads numbers as it is built, which a device without memory cannot give
            built = build_swin_transformer(settings["backbone"], size)
        blocks = [layer.blocks for layer in built.layers]
        swin = {
            "pretrain_img_size": size,
            "embed_dim": built.embed_dim,
            "depths": [len(layer) for layer in blocks],
            "num_heads": [layer[0].num_heads for layer in blocks],
            "window_size": blocks[0][0].window_size,
        }
    backbone = SwinConfig(
        image_size=swin["pretrain_img_size"],
        **{name: swin[name] for name in ("embed_dim", "depths", "num_heads", "window_size")},
        out_indices=[level + 1 for level in settings["return_interm_indices"]],
    )
    heads, width = settings["nheads"], settings["dim_feedforward"]
    return GroundingDinoConfig(
        backbone_config=backbone,
        text_config=text,
        d_model=settings["hidden_dim"],
        num_queries=settings["num_queries"],
        encoder_layers=settings["enc_layers"],
        decoder_layers=settings["dec_layers"],
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=width,
        decoder_ffn_dim=width,
        num_feature_levels=settings["num_feature_levels"],
        encoder_n_points=settings["enc_n_points"],
        decoder_n_points=settings["dec_n_points"],
        positional_embedding_temperature=settings["pe_temperatureH"],
        max_text_len=settings["max_text_len"],
        disable_custom_kernels=True,
    )


def segmenter_config(settings: Mapping[str, Any]) -> Any:
    """The configuration of transformers for settings of segment-anything."""
    from transformers import SamConfig

    width, image, patch = settings["prompt_embed_dim"], settings["image_size"], settings["patch_size"]
    return SamConfig(
        vision_config={
            "hidden_size": settings["embed_dim"],
            "mlp_dim": 4 * settings["embed_dim"],
            "num_hidden_layers": settings["depth"],
            "num_attention_heads": settings["num_heads"],
            "global_attn_indexes": list(settings["global_attn_indexes"]),
            "window_size": settings["window_size"],
            "image_size": image,
            "patch_size": patch,
            "output_channels": width,
            "num_pos_feats": width // 2,
        },
        prompt_encoder_config={
            "hidden_size": width,
            "image_size": image,
            "patch_size": patch,
            "mask_input_channels": settings["mask_in_chans"],
        },
        mask_decoder_config={
            "hidden_size": width,
            "num_hidden_layers": settings["decoder_depth"],
            "num_attention_heads": settings["decoder_heads"],
            "mlp_dim": settings["decoder_mlp_dim"],
            "iou_head_depth": settings["iou_head_depth"],
            "iou_head_hidden_dim": settings["iou_head_hidden_dim"],
        },
    )


def described(path: Path, kind: str, field: str, *, tokenizer: bool = True) -> tuple[Any, Any]:
    """The tokenizer and the configuration that are in a folder of transformers' layout.

    Raises
    ------
    UserError
        There is none, or of another kind of model.
    """
    with readable(f"{field}: {path}", "a model of transformers", "mend it"), quiet("transformers"):
        config = auto("Config", path)
        tokens = auto("Tokenizer", path) if tokenizer else None
    if config.model_type != kind:
        raise UserError(f"{field}: {path}: expected a {kind}, got a {config.model_type}: choose another")
    return tokens, config


def from_folder(cls: Any, path: Path, field: str, dtype: torch.dtype = torch.float32) -> Any:
    """A model of one of transformers' classes with every weight from the folder's safetensors.

    Raises
    ------
    UserError
        Weights are missing, damaged or of another model.
    """
    with readable(f"{field}: {path}", "whole weights"), quiet("transformers"):
        model, info = pretrained.from_folder(
            cls, path, use_safetensors=True, dtype=dtype, output_loading_info=True
        )
    for fault in ("missing", "mismatched"):
        names = sorted(map(str, info[f"{fault}_keys"]))
        if names:
            raise UserError(
                f"{field}: {path}: expected the weights of {cls.__name__}, got {len(names)} {fault} ({names[0]:.80}):"
                " choose the folder that holds them"
            )
    return model


def sides(path: Path) -> tuple[int, int]:
    """The pixels to which a folder's images are resized."""
    file = path / "preprocessor_config.json"
    size = read_json(file, grounding_dino.FIELD).get("size", {}) if file.exists() else {}
    with readable(f"{grounding_dino.FIELD}: {file}", "`size` with sides in pixels", "mend it"):
        return int(size.get("shortest_edge", 800)), int(size.get("longest_edge", 1333))
