"""The diffusion transformers that are read, a row each. Another one is another row here. Imports no torch.

Source of the layers of word maps: Shin et al. (ICCV 2025) name the five blocks of SD3, SD3.5 and FLUX.1 whose
attention from image to text follows objects best; of the others all cross-attentions are taken.
"""

from __future__ import annotations

from hooks.architectures import transformer_layouts as layouts
from hooks.architectures.transformer import Stack, TransformerRow

_MODULATED = {"mod": "norm1.linear", "mod.text": "norm1_context.linear", "ff": "ff", "ff.text": "ff_context"}
_CROSS = Stack(
    "dit.block",
    "transformer_blocks",
    attention="attn2",
    role="cross",
    sequence=("text",),
    streams={"image": 0},
    modules={"self": "attn1", "ff": "ff"},
)
_PIXART = {
    "stacks": (_CROSS,),
    "entrances": {"dit.in.image": "pos_embed", "dit.in.text": "caption_projection"},
    "text_width": "caption_channels",
    "masks": ("encoder_attention_mask",),
    "branches": "text",
    "predicts": ("epsilon",),
    "variance": True,
    "own_generator": True,
    "blank": {"added_cond_kwargs": {"resolution": (1, 2), "aspect_ratio": (1, 1)}},
}

ROWS = (
    TransformerRow(
        name="Stable Diffusion 3",
        models="Stable Diffusion 3 or 3.5",
        layout=layouts.SD3,
        stacks=(
            Stack(
                "dit.block",
                "transformer_blocks",
                attention="attn",
                role="joint",
                sequence=("image", "text"),
                streams={"text": 0, "image": 1},
                modules={**_MODULATED, "self": "attn2"},
            ),
        ),
        entrances={"dit.in.image": "pos_embed", "dit.in.text": "context_embedder"},
        text_tokens=layouts.SD3.lengths[0] + layouts.SD3.lengths[2],  # CLIP's two side by side, then T5's
        text_width="joint_attention_dim",
        pooled=("pooled_projections", "pooled_projection_dim"),
        word_layers=(
            ((24, False), (7, 8, 5, 4, 9)),
            ((24, True), (7, 9, 8, 5, 10)),
            ((38, False), (18, 21, 20, 24, 16)),
        ),
    ),
    TransformerRow(
        name="FLUX",
        models="FLUX.1",
        layout=layouts.FLUX,
        stacks=(
            Stack(
                "dit.block",
                "transformer_blocks",
                attention="attn",
                role="joint",
                sequence=("text", "image"),
                streams={"text": 0, "image": 1},
                modules=_MODULATED,
            ),
            Stack(
                "dit.single",
                "single_transformer_blocks",
                attention="attn",
                role="joint",
                sequence=("text", "image"),
                streams={"text": 0, "image": 1},
                modules={"mod": "norm.linear"},
                single=True,
            ),
        ),
        entrances={"dit.in.image": "x_embedder", "dit.in.text": "context_embedder"},
        text_tokens=layouts.FLUX.lengths[1],
        text_width="joint_attention_dim",
        pooled=("pooled_projections", "pooled_projection_dim"),
        patch=2,
        packed=True,
        branches="calls",
        word_layers=(((19, False), (18, 17, 12, 14, 11)),),
    ),
    TransformerRow(
        name="PixArt-α",
        models="PixArt-α",
        layout=layouts.PIXART_ALPHA,
        text_tokens=layouts.PIXART_ALPHA.lengths[0],
        **_PIXART,
    ),
    TransformerRow(
        name="PixArt-Σ",
        models="PixArt-Σ",
        layout=layouts.PIXART_SIGMA,
        text_tokens=layouts.PIXART_SIGMA.lengths[0],
        **_PIXART,
    ),
    TransformerRow(
        name="Sana",
        models="Sana",
        layout=layouts.SANA,
        stacks=(_CROSS,),
        entrances={"dit.in.image": "patch_embed", "dit.in.text": "caption_norm"},
        text_tokens=layouts.SANA.lengths[0],
        text_width="caption_channels",
        masks=("encoder_attention_mask",),
        own_generator=True,
    ),
)
