"""Small detectors and segmenters with random weights in transformers' own classes, saved in its layout."""

from pathlib import Path

import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    GroundingDinoImageProcessor,
    SamConfig,
    SamImageProcessor,
    SamModel,
    SwinConfig,
)

from tests.analysis.observe.tiny_models import save_text_encoder, stirred

SIDES = {"shortest_edge": 64, "longest_edge": 96}


def save_detector_folder(folder: Path, seed=0, **config) -> GroundingDinoForObjectDetection:
    """A `GroundingDinoForObjectDetection`, saved with its tokenizer; gives the model."""
    text = BertConfig.from_pretrained(save_text_encoder(folder))
    backbone = SwinConfig(
        image_size=64,
        embed_dim=16,
        depths=[2, 2, 2, 1],
        num_heads=[1, 2, 2, 4],
        window_size=4,
        out_indices=[2, 3, 4],
    )
    small = {
        "num_queries": 20,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "disable_custom_kernels": True,
    }
    torch.manual_seed(seed)
    options = GroundingDinoConfig(backbone_config=backbone, text_config=text, **{**small, **config})
    model = stirred(GroundingDinoForObjectDetection(options), seed).eval()
    model.save_pretrained(folder)
    GroundingDinoImageProcessor(size=SIDES).save_pretrained(folder)
    # the class knows the ends of captions by their place in BERT's own vocabulary
    ends = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids(["[CLS]", "[SEP]", ".", "?"])
    model.model.special_tokens = torch.tensor(ends)
    return model


def save_segmenter_folder(folder: Path, seed=0, **images) -> SamModel:
    """A `SamModel`, saved; gives the model."""
    sizes = {"image_size": 64, "patch_size": 8}
    config = SamConfig(
        vision_config={
            **sizes,
            "hidden_size": 32,
            "mlp_dim": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "global_attn_indexes": [1],
            "window_size": 4,
            "output_channels": 32,
            "num_pos_feats": 16,
            **images,
        },
        prompt_encoder_config={**sizes, "hidden_size": 32, "mask_input_channels": 16},
        mask_decoder_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 8,
            "mlp_dim": 64,
            "iou_head_depth": 3,
            "iou_head_hidden_dim": 32,
        },
    )
    torch.manual_seed(seed)
    model = stirred(SamModel(config), seed, by=0.2).eval()
    model.save_pretrained(folder)
    side = {"height": 64, "width": 64}
    SamImageProcessor(
        size={"longest_edge": 64}, pad_size=side, mask_size={"longest_edge": 16}
    ).save_pretrained(folder)
    return model
