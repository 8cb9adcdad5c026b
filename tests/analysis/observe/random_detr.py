"""DETR with random weights, in the files of ``facebook/detr-resnet-101-dc5``: a timm backbone with dilation."""

import json

import torch


def save_detr(path, labels, *, backbone="resnet10t", shortest=64, longest=106, **sizes):
    """Write the files of such a folder, of labels by number, small unless told; returns it."""
    from transformers import DetrConfig, DetrForObjectDetection

    torch.manual_seed(0)
    config = DetrConfig(
        use_timm_backbone=True,
        backbone=backbone,
        dilation=True,
        id2label=labels,
        label2id={name: number for number, name in labels.items()},
        **sizes,
    )
    model = DetrForObjectDetection(config)
    with torch.no_grad():  # random weights would see one class alone
        model.class_labels_classifier.weight.mul_(30)
    model.save_pretrained(path)
    described = json.loads((path / "config.json").read_text())
    del described["backbone_config"]  # which the published file says in four keys
    described |= {"backbone": backbone, "dilation": True, "use_timm_backbone": True}
    (path / "config.json").write_text(json.dumps(described | {"use_pretrained_backbone": True}))
    size = {"size": {"shortest_edge": shortest, "longest_edge": longest}}
    (path / "preprocessor_config.json").write_text(json.dumps(size))
    return path


TINY = {
    "num_queries": 7,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
