"""The diffusion transformers that are read, a row each. Another one is another row here. Imports no torch.

Source of the layers of word maps: Shin et al. (ICCV 2025) name the five blocks of SD3, SD3.5 and FLUX.1 whose
attention from image to text follows objects best; of the others all cross-attentions are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hooks.architectures import transformer_layouts as layouts
from hooks.architectures.layout import Layout
from hooks.architectures.transformer_sites import Stack


@dataclass(frozen=True)
class TransformerRow:
    """What tells one kind of diffusion transformer from another.

    Attributes
    ----------
    name, models : str
        As those of `Architecture`.
    layout : Layout
        Of a pipeline that draws from text alone.
    stacks : tuple of Stack
        In the order in which they run.
    entrances : mapping of str to str
        Modules that embed the image and the text.
    text_towers : tuple of int
        Numbers of the towers in the layout whose positions of the text follow one another in what the model is given.
    text_width : str
        Setting of the transformer that says how wide the states are.
    pooled : (str, str) or None
        Argument that takes the pooled text, and the setting that says how wide it is.
    pooled_at : str
        The module that is given the pooled text.
    masks : tuple of str
        Arguments that say which positions of the text are read.
    patch : int or None
        Side of a patch of the latent; None: the transformer's own setting.
    packed : bool
        Whether pipelines pass latents as a sequence of patches.
    branches : {"pipeline", "text", "calls"}
        How guidance runs: its branches in one batch where the pipeline says so; the same, but the pipeline does not say
        and the texts tell; in a second call.
    prompts_first : bool
        Whether the prompts' rows come first in the batch.
    predicts : tuple of str
        As those of `Architecture`.
    variance : bool
        Whether the second half of the output's channels may be a variance.
    own_generator : bool
        Whether pipelines pass their generator to the scheduler.
    word_layers : tuple of ((int, bool), tuple of int)
        Numbers of the blocks whose attention a word map takes, by number of blocks and whether any has a second
        attention; all blocks of the first stack where the model has another number.
    blank : mapping of str to mapping of str to shape
        Arguments that are mappings of tensors, and their shapes for one image.
    """

    name: str
    models: str
    layout: Layout
    stacks: tuple[Stack, ...]
    entrances: Mapping[str, str]
    text_towers: tuple[int, ...]
    text_width: str
    pooled: tuple[str, str] | None = None
    pooled_at: str = "time_text_embed.text_embedder"
    masks: tuple[str, ...] = ()
    patch: int | None = None
    packed: bool = False
    branches: str = "pipeline"
    prompts_first: bool = False
    predicts: tuple[str, ...] = ("flow_prediction",)
    variance: bool = False
    own_generator: bool = False
    word_layers: tuple[tuple[tuple[int, bool], tuple[int, ...]], ...] = ()
    blank: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)


_MODULATED = {"mod": "norm1.linear", "mod.text": "norm1_context.linear", "ff": "ff", "ff.text": "ff_context"}
_JOINT = Stack(
    "dit.block",
    "transformer_blocks",
    attention="attn",
    role="joint",
    sequence=("text", "image"),
    streams={"text": 0, "image": 1},
    modules=_MODULATED,
)
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
        stacks=(replace(_JOINT, sequence=("image", "text"), modules={**_MODULATED, "self": "attn2"}),),
        entrances={"dit.in.image": "pos_embed", "dit.in.text": "context_embedder"},
        text_towers=(0, 2),  # CLIP's two side by side, then T5's
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
            _JOINT,
            replace(
                _JOINT,
                address="dit.single",
                path="single_transformer_blocks",
                modules={"mod": "norm.linear"},
                single=True,
            ),
        ),
        entrances={"dit.in.image": "x_embedder", "dit.in.text": "context_embedder"},
        text_towers=(1,),
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
        text_towers=(0,),
        **_PIXART,
    ),
    TransformerRow(
        name="PixArt-Σ",
        models="PixArt-Σ",
        layout=layouts.PIXART_SIGMA,
        text_towers=(0,),
        **_PIXART,
    ),
    TransformerRow(
        name="Sana",
        models="Sana",
        layout=layouts.SANA,
        stacks=(_CROSS,),
        entrances={"dit.in.image": "patch_embed", "dit.in.text": "caption_norm"},
        text_towers=(0,),
        text_width="caption_channels",
        masks=("encoder_attention_mask",),
        own_generator=True,
    ),
)
