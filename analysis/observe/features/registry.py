"""The features there are: one row per network and what is read of it.

A new one (another CLIP, say) is a row here; where its cosine is to be a metric, a row of
`analysis.metrics.registry` of the same name as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Feature:
    """A network and what is read of it.

    Attributes
    ----------
    name : str
        As in ``observe.features``; its parts lie in ``features/<name>``.
    library, architecture : str
        Whose network and transform it is, and that library's name for it, by which a bare file of weights is read.
    weights : str
        On the Hugging Face hub.
    readout : {"pooled", "logits", "class_token", "patch_tokens", "embedding", "pool3"}
        What is read: the mean over the last feature map; the last layer; the class token, or the others, after the
        last norm; CLIP's image embedding; the 2048 features of FID.
    toyworld : str
        The small one that comes with the package: its folder in `probes.toyworld.WEIGHTS`; empty where there is none.
    usual : bool
        Whether ``observe.features: auto`` takes it: what the columns of the paper's Table 5 need.
    field : str
        Of the configuration, that names its weights; empty: ``observe.feature_weights.NAME``.
    """

    name: str
    library: Literal["timm", "open_clip", "torch_fidelity"]
    architecture: str
    weights: str
    readout: Literal["pooled", "logits", "class_token", "patch_tokens", "embedding", "pool3"]
    toyworld: str = ""
    usual: bool = True
    field: str = ""


# Wu et al. 2025 name ResNet-50 (He et al. 2016) and no weights: those of torchvision from ImageNet, version 1.
_RESNET = Feature(
    name="resnet50",
    library="timm",
    architecture="resnet50.tv_in1k",
    weights="timm/resnet50.tv_in1k",
    readout="pooled",
    toyworld="features/resnet50",
)
_ROWS = (
    _RESNET,
    replace(_RESNET, name="resnet50_logits", readout="logits", usual=False),
    Feature(
        name="clip",
        library="open_clip",
        architecture="ViT-B-32-quickgelu",
        weights="timm/vit_base_patch32_clip_224.openai",
        readout="embedding",
        toyworld="clip",
    ),
    # the one of Zhang et al. 2023 (GEP)
    Feature(
        name="clip_vit_l_14",
        library="open_clip",
        architecture="ViT-L-14-quickgelu",
        weights="timm/vit_large_patch14_clip_224.openai",
        readout="embedding",
        usual=False,
    ),
    Feature(
        name="dino",
        library="timm",
        architecture="vit_small_patch16_224.dino",
        weights="timm/vit_small_patch16_224.dino",
        readout="class_token",
        toyworld="features/dino",
    ),
    Feature(
        name="split_product",
        library="timm",
        architecture="vit_base_patch8_224.dino",
        weights="timm/vit_base_patch8_224.dino",
        readout="patch_tokens",
        toyworld="features/dino",
    ),
    # what FID and KID are published with: TensorFlow's network of 2015-12-05, converted
    Feature(
        name="inception",
        library="torch_fidelity",
        architecture="inception-v3-2015-12-05",
        weights="weights-inception-2015-12-05-6726825d.pth",
        readout="pool3",
        usual=False,
    ),
)
FEATURES: Mapping[str, Feature] = {row.name: row for row in _ROWS}
