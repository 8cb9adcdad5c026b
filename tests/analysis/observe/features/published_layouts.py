"""The four networks of features at their full size, with random weights in files as they are published."""

import json

import open_clip
import timm
import torch
from safetensors.torch import save_file

from analysis.observe.features.observer import FEATURES


def publish_features(folder):
    """torchvision's and DINO's own files of plain tensors, and the hub's folders of timm and open_clip, by feature."""
    torch.manual_seed(0)
    torch.save(timm.create_model("resnet50", num_classes=1000).state_dict(), folder / "resnet50-0676ba61.pth")
    small = timm.create_model(FEATURES["dino"].architecture)
    torch.save(small.state_dict(), folder / "dino_deitsmall16_pretrain.pth")
    hub = folder / "vit_base_patch8_224.dino"
    hub.mkdir()
    base = timm.create_model(FEATURES["split_product"].architecture)
    save_file(base.state_dict(), hub / "model.safetensors")
    described = {"num_classes": 0, "num_features": 768, "global_pool": "token"}
    settings = timm.get_pretrained_cfg(FEATURES["split_product"].architecture).to_dict()
    text = {"architecture": "vit_base_patch8_224", "pretrained_cfg": settings, **described}
    (hub / "config.json").write_text(json.dumps(text))
    clip = folder / "vit_base_patch32_clip_224.openai"
    clip.mkdir()
    network = open_clip.create_model(FEATURES["clip"].architecture)
    save_file(network.state_dict(), clip / "open_clip_model.safetensors")
    preprocess = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    text = {
        "model_cfg": open_clip.get_model_config(FEATURES["clip"].architecture),
        "preprocess_cfg": preprocess,
    }
    (clip / "open_clip_config.json").write_text(json.dumps(text))
    resnet = str(folder / "resnet50-0676ba61.pth")
    return {
        "resnet50": resnet,
        "resnet50_logits": resnet,
        "clip": str(clip),
        "dino": str(folder / "dino_deitsmall16_pretrain.pth"),
        "split_product": str(hub),
    }
