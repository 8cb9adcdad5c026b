"""Names of weights in transformers and in groundingdino-py, segment-anything and the code of DETR's authors.

The libraries hold the same networks. What differs is names, and that attention's query, key and value are one
matrix in one library and three in the other. A name of the other libraries is rewritten to that of transformers, piece
by piece, by the rules of the part it is in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

Rules = Sequence[tuple[str, str]]

_SWIN = "model.backbone.conv_encoder.model"
_DECODER_NORMS = {
    "norm1": "encoder_attn_layer_norm",
    "catext_norm": "encoder_attn_text_layer_norm",
    "norm2": "self_attn_layer_norm",
    "norm3": "final_layer_norm",
}
# Each name is rewritten by every rule that its start fits, in this order; the first of a group moves it to where
# transformers keeps that part, the others rename what is inside.
_GROUNDING_DINO: Rules = (
    (r"^backbone\.0\.norm1", f"{_SWIN}.hidden_states_norms.stage2"),
    (r"^backbone\.0\.norm2", f"{_SWIN}.hidden_states_norms.stage3"),
    (r"^backbone\.0\.norm3", f"{_SWIN}.hidden_states_norms.stage4"),
    (r"^backbone\.0\.patch_embed\.proj", f"{_SWIN}.swin.embeddings.patch_embeddings.projection"),
    (r"^backbone\.0\.patch_embed\.norm", f"{_SWIN}.swin.embeddings.norm"),
    (r"^backbone\.0\.layers", f"{_SWIN}.swin.encoder.layers"),
    (r"(swin\..*blocks\.\d+)\.norm1", r"\1.layernorm_before"),
    (r"(swin\..*blocks\.\d+)\.norm2", r"\1.layernorm_after"),
    (
        r"(swin\..*)attn\.relative_position_bias_table",
        r"\1attention.relative_position_bias.relative_position_bias_table",
    ),
    (r"(swin\..*)attn\.proj", r"\1attention.o_proj"),
    (r"(swin\..*)attn\.qkv", r"\1attention.{q_proj|k_proj|v_proj}"),
    (r"^bert", "model.text_backbone"),
    (r"^feat_map", "model.text_projection"),
    (r"^input_proj", "model.input_proj_vision"),
    (r"^transformer\.tgt_embed", "model.query_position_embeddings"),
    (r"^transformer\.enc_out_bbox_embed", "model.encoder_output_bbox_embed"),
    (r"^transformer\.encoder\.layers\.(\d+)", r"model.encoder.layers.\1.deformable_layer"),
    (r"(deformable_layer)\.norm1", r"\1.self_attn_layer_norm"),
    (r"(deformable_layer)\.norm2", r"\1.final_layer_norm"),
    (r"^transformer\.encoder\.text_layers\.(\d+)", r"model.encoder.layers.\1.text_enhancer_layer"),
    (r"(text_enhancer_layer)\.norm1", r"\1.layer_norm_before"),
    (r"(text_enhancer_layer)\.norm2", r"\1.layer_norm_after"),
    (r"^transformer\.encoder\.fusion_layers\.(\d+)", r"model.encoder.layers.\1.fusion_layer"),
    (r"(fusion_layer\.)gamma_v", r"\1vision_param"),
    (r"(fusion_layer\.)gamma_l", r"\1text_param"),
    (r"(fusion_layer\.layer_norm)_v", r"\1_vision"),
    (r"(fusion_layer\.layer_norm)_l", r"\1_text"),
    (r"(fusion_layer\.attn\..*?)v_proj", r"\1vision_proj"),
    (r"(fusion_layer\.attn\..*?)l_proj", r"\1text_proj"),
    (r"^transformer\.decoder\.norm", "model.decoder.layer_norm"),
    (r"^transformer\.decoder\.ref_point_head", "model.decoder.reference_points_head"),
    *(
        (rf"^transformer\.decoder\.layers\.(\d+)\.{old}\.", rf"model.decoder.layers.\1.{new}.")
        for old, new in _DECODER_NORMS.items()
    ),
    (r"^transformer\.decoder\.layers\.(\d+)\.cross_attn", r"model.decoder.layers.\1.encoder_attn"),
    (r"^transformer\.decoder\.layers\.(\d+)\.ca_text", r"model.decoder.layers.\1.encoder_attn_text"),
    (r"^transformer", "model"),
    (r"(layers\.\d+\..*)linear(\d)", r"\1fc\2"),
    (r"(attn\w*)\.in_proj_", r"\1.{query|key|value}."),
)
_NOT_IN_TRANSFORMERS = r"bert\.pooler|.*relative_position_index"

_SAM: Rules = (
    (r"^image_encoder\.neck\.0", "vision_encoder.neck.conv1"),
    (r"^image_encoder\.neck\.1", "vision_encoder.neck.layer_norm1"),
    (r"^image_encoder\.neck\.2", "vision_encoder.neck.conv2"),
    (r"^image_encoder\.neck\.3", "vision_encoder.neck.layer_norm2"),
    (r"^image_encoder\.blocks", "vision_encoder.layers"),
    (r"^image_encoder\.patch_embed\.proj", "vision_encoder.patch_embed.projection"),
    (r"^image_encoder", "vision_encoder"),
    (r"\.norm(\d)", r".layer_norm\1"),
    (r"\.norm_final_attn", ".layer_norm_final_attn"),
    (
        r"^prompt_encoder\.pe_layer\.positional_encoding_gaussian_matrix",
        "shared_image_embedding.positional_embedding",
    ),
    (r"^prompt_encoder\.point_embeddings", "prompt_encoder.point_embed"),
    (r"^prompt_encoder\.mask_downscaling\.0", "prompt_encoder.mask_embed.conv1"),
    (r"^prompt_encoder\.mask_downscaling\.1", "prompt_encoder.mask_embed.layer_norm1"),
    (r"^prompt_encoder\.mask_downscaling\.3", "prompt_encoder.mask_embed.conv2"),
    (r"^prompt_encoder\.mask_downscaling\.4", "prompt_encoder.mask_embed.layer_norm2"),
    (r"^prompt_encoder\.mask_downscaling\.6", "prompt_encoder.mask_embed.conv3"),
    (r"^mask_decoder\.output_upscaling\.0", "mask_decoder.upscale_conv1"),
    (r"^mask_decoder\.output_upscaling\.1", "mask_decoder.upscale_layer_norm"),
    (r"^mask_decoder\.output_upscaling\.3", "mask_decoder.upscale_conv2"),
)

_DETR: Rules = (
    (r"^backbone\.0\.body", "model.backbone.model"),
    (r"^query_embed", "model.query_position_embeddings"),
    (r"^input_proj", "model.input_projection"),
    (r"^class_embed", "class_labels_classifier"),
    (r"^bbox_embed", "bbox_predictor"),
    (r"^transformer\.decoder\.norm", "model.decoder.layernorm"),
    (r"^(transformer\.\w+\.layers\.\d+)\.norm1", r"\1.self_attn_layer_norm"),
    (r"^(transformer\.encoder\.layers\.\d+)\.norm2", r"\1.final_layer_norm"),
    (r"^(transformer\.decoder\.layers\.\d+)\.norm2", r"\1.encoder_attn_layer_norm"),
    (r"^(transformer\.decoder\.layers\.\d+)\.norm3", r"\1.final_layer_norm"),
    (r"^(transformer\.decoder\.layers\.\d+)\.multihead_attn", r"\1.encoder_attn"),
    (r"^transformer", "model"),
    (r"(layers\.\d+)\.linear(\d)", r"\1.mlp.fc\2"),
    (r"(attn)\.in_proj_", r"\1.{q_proj|k_proj|v_proj}."),
    (r"(attn)\.out_proj", r"\1.o_proj"),
)


def grounding_dino(weights: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return weights of transformers' `GroundingDinoForObjectDetection` under the names of groundingdino-py.

    Of `own`, the state of the model they are for, that is taken which transformers has no use for: BERT's pooler, and
    the indices of relative positions, which follow from the window's size.
    """
    spare = {name: value for name, value in own.items() if re.match(_NOT_IN_TRANSFORMERS, name)}
    used = {
        name: value for name, value in weights.items() if ".swin.layernorm." not in name
    }  # a backbone has none
    return spare | _gathered(
        used, {name: _places(name, _GROUNDING_DINO) for name in own if name not in spare}
    )


def segment_anything(weights: Mapping[str, Any], own: Iterable[str]) -> dict[str, Any]:
    """Return weights of transformers' `SamModel` under the names of segment-anything, all of which `own` holds."""
    places = {name: _places(name, _SAM) for name in own}
    named = {place for several in places.values() for place in several}
    perceptrons = {name: [_perceptron(place, named) for place in several] for name, several in places.items()}
    twice = "prompt_encoder.shared_embedding.positional_embedding"
    return _gathered({name: value for name, value in weights.items() if name != twice}, perceptrons)


def detr(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return weights of DETR's authors' code for transformers' `DetrForObjectDetection`."""
    renamed: dict[str, Any] = {}
    for name, value in weights.items():
        places = _places(name, _DETR)
        renamed |= zip(places, value.chunk(len(places)) if len(places) > 1 else [value])
    return renamed


def _places(name: str, rules: Rules) -> list[str]:
    """Return the names that transformers gives a weight: one, or three where it keeps thirds apart."""
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    several = re.search(r"\{(.+)\}", name)
    return [name.replace(several[0], option) for option in several[1].split("|")] if several else [name]


def _gathered(weights: Mapping[str, Any], places: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return weights by the names whose places hold them, thirds joined; what has no such name keeps its own."""
    taken = {place for several in places.values() for place in several}
    found = {
        name: torch.cat([weights[place] for place in several]) if len(several) > 1 else weights[several[0]]
        for name, several in places.items()
        if all(place in weights for place in several)
    }
    return found | {name: value for name, value in weights.items() if name not in taken}


def _perceptron(name: str, names: Collection[str]) -> str:
    """Transformers calls the first and last layer of a perceptron `proj_in` and `proj_out` and counts between."""
    match = re.fullmatch(
        r"(mask_decoder\.(?:output_hypernetworks_mlps\.\d+|iou_prediction_head))\.layers\.(\d+)\.(\w+)", name
    )
    if not match:
        return name
    place = int(match[2])
    last = f"{match[1]}.layers.{place + 1}.{match[3]}" not in names
    return (
        f"{match[1]}.{'proj_in' if place == 0 else 'proj_out' if last else f'layers.{place - 1}'}.{match[3]}"
    )
