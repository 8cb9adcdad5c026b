"""The diffusion transformers that are read, a row each. Another one is another row here. Imports no torch.

Source of the layers of word maps: Shin et al. (ICCV 2025) name the five blocks of SD3, SD3.5 and FLUX.1 whose
attention from image to text follows objects best; of the others all cross-attentions are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hooks.architectures.layout import Layout
from hooks.architectures.transformer_sites import PART, Stack


@dataclass(frozen=True)
class TransformerRow:
    """What distinguishes one diffusion transformer (SD3, FLUX.1, …) from others: layout, blocks, arguments, guidance.

    Attributes
    ----------
    name, models : str
        As those of `Architecture`; "" for models that are called as the row is.
    layout : Layout
        Of a pipeline that draws from text alone.
    stacks : tuple of Stack
        In the order in which they run.
    entrances : mapping of str to str
        Modules that embed the image and the text, if not called as others are; where these join all rows, the modules
        behind, which are given rows.
    text_towers : tuple of int
        Numbers of the towers in the layout whose positions of the text follow one another in what the model is given;
        the last alone where none are named.
    last_text : (str, str) or None
        Where the states of the last tower are an argument of their own: that argument, and the setting that says how
        wide it is.
    pooled : (str, str) or None
        Argument that takes the pooled text, and the setting that says how wide it is.
    pooled_at : str
        The module that is given the pooled text.
    masks : tuple of str
        Arguments that say which positions of the text are read.
    patch : int or None
        Side of a patch of the latent; None: the transformer's own setting, of packed latents at least 2.
    listed : bool
        Whether pipelines pass latents (of one frame) and states as lists, a tensor for each row.
    arguments : mapping of str to str
        What the transformer calls latents, time and states, in this order, where it calls them otherwise than others.
    own_lengths : bool
        Whether the text of each row takes as many positions of the attention as its mask, the first of `masks`, leaves.
    multiple : int
        Each stream is padded to a multiple of so many positions.
    branches : {"pipeline", "text", "calls"}
        How guidance runs: its branches in one batch where the pipeline says so; the same, but the pipeline does not say
        and the texts tell; in a second call.
    prompts_first : bool
        Whether the prompts' rows come first in the batch.
    negated : bool
        Whether pipelines change the sign of what the transformer returns before the scheduler is given it.
    predicts : tuple of str
        As those of `Architecture`.
    variance : bool
        Whether the second half of the output's channels may be a variance.
    own_generator : bool
        Whether pipelines pass their generator to the scheduler.
    word_layers : tuple of ((int, bool), tuple of int)
        Numbers of the blocks whose attention a word map takes, by number of blocks and whether any has a second
        attention; all blocks of the first stack where the model has another number.
    blank : mapping of str to shape, or to mapping of str to shape
        Further arguments that are tensors, or mappings of tensors, and their shapes for one image.
    """

    name: str
    layout: Layout
    stacks: tuple[Stack, ...]
    models: str = ""
    entrances: Mapping[str, str] = field(default_factory=dict)
    text_towers: tuple[int, ...] = (-1,)
    last_text: tuple[str, str] | None = None
    pooled: tuple[str, str] | None = None
    pooled_at: str = "time_text_embed.text_embedder"
    masks: tuple[str, ...] = ()
    patch: int | None = None
    listed: bool = False
    arguments: Mapping[str, str] = field(default_factory=dict)
    own_lengths: bool = False
    multiple: int = 1
    branches: str = "pipeline"
    prompts_first: bool = False
    negated: bool = False
    predicts: tuple[str, ...] = ("flow_prediction",)
    variance: bool = False
    own_generator: bool = False
    word_layers: tuple[tuple[tuple[int, bool], tuple[int, ...]], ...] = ()
    blank: Mapping[str, tuple[int, ...] | Mapping[str, tuple[int, ...]]] = field(default_factory=dict)


# each tokenizer is a class of transformers 5; published folders name the fast class of former versions
CLIP = ("CLIPTokenizer", "CLIPTokenizerFast")
T5 = ("T5Tokenizer", "T5TokenizerFast")
BERT = ("BertTokenizer", "BertTokenizerFast")
GEMMA = ("GemmaTokenizer", "GemmaTokenizerFast")
QWEN = ("Qwen2Tokenizer", "Qwen2TokenizerFast")
GLM = ("PreTrainedTokenizerFast", "TokenizersBackend", "AutoTokenizer")
LLAMA = ("LlamaTokenizer", "LlamaTokenizerFast", *T5)  # of AuraFlow's UMT5

CLIP_POOLED = ("CLIPTextModelWithProjection",)
GEMMA_MODELS = ("Gemma2Model", "Gemma2ForCausalLM")
QWEN_VL_MODELS = ("Qwen2_5_VLForConditionalGeneration",)
QWEN3_MODELS = ("Qwen3Model", "Qwen3ForCausalLM")
_T5 = ("T5EncoderModel",)
# the published folders of PixArt name the class that diffusers replaces by its successor
_PIXART_MODELS = (PART, "PixArtTransformer2DModel", "Transformer2DModel")
_UNBINNED = {"use_resolution_binning": False}
_PLAIN = {"fixed": _UNBINNED, "template": "lower case"}
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
_FLUX2 = (PART, "Flux2Transformer2DModel")
_FLUX_LAYERS = (((19, False), (18, 17, 12, 14, 11)),)
_SINGLE = replace(
    _JOINT,
    address="dit.single",
    path="single_transformer_blocks",
    modules={"mod": "norm.linear"},
    single=True,
)
_JOINED = {"text": None, "image": None}
_REGISTERED = (8, "text", "image")
_CROSS = Stack(
    "dit.block",
    "transformer_blocks",
    attention="attn2",
    role="cross",
    sequence=("text",),
    streams={"image": 0},
    modules={"self": "attn1", "ff": "ff"},
)
_SANA = {
    "stacks": (_CROSS,),
    "entrances": {"dit.in.text": "caption_norm"},
    "masks": ("encoder_attention_mask",),
    "own_generator": True,
}
# of instruction and prompt together the denoiser is given 300: the first, and the last 299
_SANA_PARTS = ((PART, "SanaTransformer2DModel"), ((GEMMA, GEMMA_MODELS, 300),), "AutoencoderDC")
_COGVIEW = {
    "stacks": (
        replace(_JOINT, attention="attn1", streams={"image": 0, "text": 1}, modules={"mod": "norm1.linear"}),
    ),
    "entrances": {"dit.in.image": "patch_embed.proj", "dit.in.text": "patch_embed.text_proj"},
    "blank": {"original_size": (1, 2), "target_size": (1, 2), "crop_coords": (1, 2)},
}
_PIXART = {
    "stacks": (_CROSS,),
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
        layout=Layout.from_towers(
            "StableDiffusion3Pipeline",
            (PART, "SD3Transformer2DModel"),
            ((CLIP, CLIP_POOLED, 77), (CLIP, CLIP_POOLED, 77), (T5, _T5, 256)),
            pooled=True,
            pictured=True,
        ),
        stacks=(replace(_JOINT, sequence=("image", "text"), modules={**_MODULATED, "self": "attn2"}),),
        text_towers=(0, 2),  # CLIP's two side by side, then T5's
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
        layout=Layout.from_towers(
            "FluxPipeline",
            (PART, "FluxTransformer2DModel"),
            ((CLIP, ("CLIPTextModel",), 77), (T5, _T5, 512)),
            pooled=True,
            guidance="distilled",
            pictured=True,
        ),
        stacks=(_JOINT, _SINGLE),
        pooled=("pooled_projections", "pooled_projection_dim"),
        branches="calls",
        word_layers=_FLUX_LAYERS,
    ),
    TransformerRow(
        name="FLUX.2 klein",
        layout=Layout.from_towers(
            "Flux2KleinPipeline",
            _FLUX2,
            ((QWEN, QWEN3_MODELS, 512),),
            "AutoencoderKLFlux2",
            template="conversation",
        ),
        stacks=(_JOINT, replace(_SINGLE, streams=_JOINED)),
        branches="calls",
    ),
    TransformerRow(
        name="LongCat-Image",
        layout=Layout.from_towers(
            "LongCatImagePipeline",
            (PART, "LongCatImageTransformer2DModel"),
            ((QWEN, QWEN_VL_MODELS, 512),),
            each_negative=True,
            fixed={"enable_prompt_rewrite": False},  # by the text encoder, which draws words
            template="affixes",
        ),
        stacks=(_JOINT, _SINGLE),
        branches="calls",
    ),
    TransformerRow(
        name="Krea 2",
        layout=Layout.from_towers(
            "Krea2Pipeline",
            (PART, "Krea2Transformer2DModel"),
            ((QWEN, ("Qwen3VLModel",), 512),),
            "AutoencoderKLQwenImage",
            unguided=0.0,
            template="affixes",
        ),
        stacks=(replace(_SINGLE, path="transformer_blocks", streams=_JOINED, modules={}),),
        masks=("encoder_attention_mask",),
        branches="calls",
    ),
    TransformerRow(
        name="Chroma",
        layout=Layout.from_towers("ChromaPipeline", (PART, "ChromaTransformer2DModel"), ((T5, _T5, 512),)),
        stacks=(_JOINT, replace(_SINGLE, streams=_JOINED)),
        masks=("attention_mask",),
        branches="calls",
        word_layers=_FLUX_LAYERS,  # Chroma was trained from FLUX.1-schnell
    ),
    TransformerRow(
        name="PixArt-α",
        layout=Layout.from_towers("PixArtAlphaPipeline", _PIXART_MODELS, ((T5, _T5, 120),), **_PLAIN),
        **_PIXART,
    ),
    TransformerRow(
        name="PixArt-Σ",
        layout=Layout.from_towers("PixArtSigmaPipeline", _PIXART_MODELS, ((T5, _T5, 300),), **_PLAIN),
        **_PIXART,
    ),
    TransformerRow(
        name="Sana",
        layout=Layout.from_towers("SanaPipeline", *_SANA_PARTS, fixed=_UNBINNED, template="instruction"),
        **_SANA,
    ),
    TransformerRow(
        name="Sana-Sprint",
        layout=Layout.from_towers(
            "SanaSprintPipeline",
            *_SANA_PARTS,
            fixed=_UNBINNED,
            template="instruction",
        ),
        predicts=("trigflow",),
        **_SANA,
    ),
    TransformerRow(
        name="Ovis-Image",
        layout=Layout.from_towers(
            "OvisImagePipeline",
            (PART, "OvisImageTransformer2DModel"),
            ((QWEN, QWEN3_MODELS, 256),),
            template="conversation",
        ),
        stacks=(_JOINT, _SINGLE),
        branches="calls",
    ),
    TransformerRow(
        name="Qwen-Image",
        layout=Layout.from_towers(
            "QwenImagePipeline",
            (PART, "QwenImageTransformer2DModel"),
            ((QWEN, QWEN_VL_MODELS, 512),),
            "AutoencoderKLQwenImage",
            guidance="true",
            template="format",
        ),
        stacks=(
            replace(
                _JOINT,
                modules={"mod": "img_mod.1", "mod.text": "txt_mod.1", "ff": "img_mlp", "ff.text": "txt_mlp"},
            ),
        ),
        masks=("encoder_hidden_states_mask",),
        branches="calls",
    ),
    TransformerRow(
        name="Lumina-Image 2",
        layout=Layout.from_towers(
            "Lumina2Pipeline",
            (PART, "Lumina2Transformer2DModel"),
            ((GEMMA, GEMMA_MODELS, 256),),
            template="system prompt",
        ),
        stacks=(replace(_SINGLE, path="layers", streams=_JOINED, modules={"mod": "norm1.linear"}),),
        entrances={"dit.in.text": "time_caption_embed.caption_embedder"},
        masks=("encoder_attention_mask",),
        own_lengths=True,
        branches="calls",
        negated=True,
    ),
    TransformerRow(
        name="Z-Image",
        layout=Layout.from_towers(
            "ZImagePipeline",
            (PART, "ZImageTransformer2DModel"),
            ((QWEN, QWEN3_MODELS, 512),),
            unguided=0.0,  # the scale counts from the prompt's prediction, not from the one without a prompt
            template="conversation",
        ),
        stacks=(
            replace(
                _SINGLE,
                path="layers",
                attention="attention",
                sequence=("image", "text"),
                streams=_JOINED,
                modules={"mod": "adaLN_modulation.0"},
            ),
        ),
        entrances={"dit.in.image": "noise_refiner.0", "dit.in.text": "context_refiner.0"},
        patch=2,
        listed=True,
        arguments={"x": "hidden_states", "t": "timestep", "cap_feats": "encoder_hidden_states"},
        multiple=32,
        prompts_first=True,
        negated=True,
    ),
    TransformerRow(
        name="AuraFlow",
        layout=Layout.from_towers(
            "AuraFlowPipeline", (PART, "AuraFlowTransformer2DModel"), ((LLAMA, ("UMT5EncoderModel",), 256),)
        ),
        stacks=(
            replace(_JOINT, path="joint_transformer_blocks", sequence=_REGISTERED),
            replace(_SINGLE, sequence=_REGISTERED, streams=_JOINED, modules={"mod": "norm1.linear"}),
        ),
    ),
    TransformerRow(
        name="CogView3+",
        layout=Layout.from_towers(
            "CogView3PlusPipeline", (PART, "CogView3PlusTransformer2DModel"), ((T5, _T5, 224),)
        ),
        predicts=("v_prediction",),
        **_COGVIEW,
    ),
    TransformerRow(
        name="CogView4",
        layout=Layout.from_towers(
            "CogView4Pipeline",
            (PART, "CogView4Transformer2DModel"),
            ((GLM, ("GlmModel",), 1024),),
            template="padding",
        ),
        branches="calls",
        **_COGVIEW,
    ),
    TransformerRow(
        name="HunyuanDiT",
        layout=Layout.from_towers(
            "HunyuanDiTPipeline",
            (PART, "HunyuanDiT2DModel"),
            ((BERT, ("BertModel",), 77), (T5, _T5, 256)),
            fixed=_UNBINNED,
        ),
        stacks=(replace(_CROSS, path="blocks", modules={**_CROSS.modules, "mod": "norm1.linear"}),),
        text_towers=(0, 1),
        last_text=("encoder_hidden_states_t5", "cross_attention_dim_t5"),
        masks=("text_embedding_mask", "text_embedding_mask_t5"),
        arguments={"hidden_states": "hidden_states", "timestep": "timestep"},
        predicts=("v_prediction",),
        variance=True,
        own_generator=True,
        blank={"image_meta_size": (1, 6), "style": (1,)},
    ),
)
