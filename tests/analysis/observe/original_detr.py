"""DETR under the names of its authors' checkpoints, written anew from Carion et al. 2020: a reference for ours."""

import math

import torch
import torchvision
from torch import nn


class Layer(nn.Module):
    """A layer of the encoder, or of the decoder: positions are added to queries and keys alone."""

    def __init__(self, width, heads, inner, decodes):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads)
        if decodes:
            self.multihead_attn = nn.MultiheadAttention(width, heads)
            self.norm3 = nn.LayerNorm(width)
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, places, memory=None, at=None):
        x = self.norm1(x + self.self_attn(x + places, x + places, x)[0])
        last = self.norm2
        if memory is not None:
            x = self.norm2(x + self.multihead_attn(x + places, memory + at, memory)[0])
            last = self.norm3
        return last(x + self.linear2(self.linear1(x).relu()))


class OriginalDetr(nn.Module):
    """All of it, with random weights; a forward pass gives logits and boxes."""

    def __init__(self, backbone, dilation, classes, queries=7, width=32, heads=8, inner=24, layers=(2, 3)):
        super().__init__()
        built = getattr(torchvision.models, backbone)(
            replace_stride_with_dilation=[False, False, dilation],
            norm_layer=torchvision.ops.FrozenBatchNorm2d,
        )
        last = built.layer4[-1]
        channels = (last.conv3 if hasattr(last, "conv3") else last.conv2).out_channels
        del built.fc
        self.backbone = nn.ModuleList([nn.ModuleDict({"body": built})])
        encoder, decoder = (
            nn.ModuleDict(
                {"layers": nn.ModuleList(Layer(width, heads, inner, decodes) for _ in range(count))}
            )
            for decodes, count in zip((False, True), layers)
        )
        decoder["norm"] = nn.LayerNorm(width)
        self.transformer = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
        self.query_embed = nn.Embedding(queries, width)
        self.input_proj = nn.Conv2d(channels, width, 1)
        self.class_embed = nn.Linear(width, classes + 1)
        self.bbox_embed = nn.ModuleDict(
            {"layers": nn.ModuleList(nn.Linear(width, out) for out in (width, width, 4))}
        )

    def forward(self, images):
        body = self.backbone[0]["body"]
        x = body.maxpool(body.relu(body.bn1(body.conv1(images))))
        x = self.input_proj(body.layer4(body.layer3(body.layer2(body.layer1(x)))))
        at = sine(*x.shape[1:]).flatten(1).T[:, None]
        x = x.flatten(2).permute(2, 0, 1)
        for layer in self.transformer["encoder"]["layers"]:
            x = layer(x, at)
        places = self.query_embed.weight[:, None].repeat(1, len(images), 1)
        y = torch.zeros_like(places)
        for layer in self.transformer["decoder"]["layers"]:
            y = layer(y, places, x, at)
        y = self.transformer["decoder"]["norm"](y).transpose(0, 1)
        first, second, third = self.bbox_embed["layers"]
        return self.class_embed(y), third(second(first(y).relu()).relu()).sigmoid()


def sine(width, height, across):
    """Sines and cosines of both coordinates, each from 0 to two pi, `width` channels."""
    half = width // 2
    period = 10000 ** (2 * torch.div(torch.arange(half), 2, rounding_mode="floor") / half)
    planes = []
    for count, axis in ((height, 0), (across, 1)):
        at = torch.arange(1, count + 1) / (count + 1e-6) * 2 * math.pi
        angle = at[:, None] / period
        plane = torch.stack((angle[:, ::2].sin(), angle[:, 1::2].cos()), 2).flatten(1).T
        planes.append(
            plane[:, :, None].expand(-1, -1, across) if axis == 0 else plane[:, None].expand(-1, height, -1)
        )
    return torch.cat(planes)


def save_original(path, backbone="resnet18", dilation=False, classes=91, **sizes):
    """Write such a checkpoint, as training writes it; returns the model."""
    torch.manual_seed(0)
    model = OriginalDetr(backbone, dilation, classes, **sizes).eval()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith(("weight", "bias", "running_mean", "running_var")):
                buffer.copy_(torch.rand_like(buffer) + 0.5)
        model.class_embed.weight.mul_(30)
    torch.save({"model": model.state_dict(), "epoch": 3}, path)
    return model
