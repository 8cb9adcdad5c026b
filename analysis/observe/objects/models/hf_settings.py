"""Settings of groundingdino-py and segment-anything, read from a configuration of transformers.

The libraries hold the same networks. What a configuration of transformers can vary and the packages cannot is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.observe.checkpoints import require_values

# what the packages have fixed in their classes
_DETECTOR = {
    "query_dim": 4,
    "max_text_len": 256,
    "layer_norm_eps": 1e-5,
    "two_stage": True,
    "two_stage_bbox_embed_share": False,
    "embedding_init_target": True,
    "activation_function": "relu",
}
_BACKBONE = {"hidden_act": "gelu", "qkv_bias": True, "layer_norm_eps": 1e-5, "use_absolute_embeddings": False}
_ENCODER = {"hidden_act": "gelu", "qkv_bias": True, "layer_norm_eps": 1e-6, "use_rel_pos": True}
_DECODER = {"hidden_act": "relu", "num_multimask_outputs": 3, "attention_downsample_rate": 2}


def detector(config: Any, path: Path, field: str) -> dict[str, Any]:
    """Return the settings of groundingdino-py for a `transformers.GroundingDinoConfig`."""
    swin = config.backbone_config
    heads = {"decoder_attention_heads": config.encoder_attention_heads}
    require_values(config, _DETECTOR | heads, path, field)
    require_values(swin, {**_BACKBONE, "model_type": "swin"}, path, field)
    return {
        "swin": {
            "pretrain_img_size": swin.image_size,
            "patch_size": swin.patch_size,
            "mlp_ratio": swin.mlp_ratio,
            **{name: getattr(swin, name) for name in ("embed_dim", "depths", "num_heads", "window_size")},
        },
        "return_interm_indices": [stage - 1 for stage in swin.out_indices],
        "hidden_dim": config.d_model,
        "num_queries": config.num_queries,
        "enc_layers": config.encoder_layers,
        "dec_layers": config.decoder_layers,
        "nheads": config.encoder_attention_heads,
        "dim_feedforward": config.encoder_ffn_dim,
        "num_feature_levels": config.num_feature_levels,
        "enc_n_points": config.encoder_n_points,
        "dec_n_points": config.decoder_n_points,
        "dec_pred_bbox_embed_share": config.decoder_bbox_embed_share,
        "pe_temperatureH": config.positional_embedding_temperature,
        "pe_temperatureW": config.positional_embedding_temperature,
    }


def segmenter(config: Any, path: Path, field: str) -> dict[str, Any]:
    """Return the settings of segment-anything for a `transformers.SamConfig`."""
    images, prompts, masks = config.vision_config, config.prompt_encoder_config, config.mask_decoder_config
    require_values(images, _ENCODER, path, field)
    require_values(masks, _DECODER, path, field)
    return {
        "embed_dim": images.hidden_size,
        "depth": images.num_hidden_layers,
        "num_heads": images.num_attention_heads,
        "global_attn_indexes": list(images.global_attn_indexes),
        "image_size": images.image_size,
        "patch_size": images.patch_size,
        "window_size": images.window_size,
        "prompt_embed_dim": prompts.hidden_size,
        "mask_in_chans": prompts.mask_input_channels,
        "decoder_depth": masks.num_hidden_layers,
        "decoder_heads": masks.num_attention_heads,
        "decoder_mlp_dim": masks.mlp_dim,
        "iou_head_depth": masks.iou_head_depth,
        "iou_head_hidden_dim": masks.iou_head_hidden_dim,
    }
