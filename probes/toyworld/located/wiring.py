"""Wiring of located benchmark models: where the code enters the U-Net, and the weights that put it there.

A cross-attention reads the code where its keys and values have columns for it that are not zero. Beside the columns the
rest of its attention and the feed-forward layer after it are the benchmark model's as well, so that it can make use of
what it reads; both see nothing else of the word.
"""

from torch import nn

OLD = 96  # channels of text that toyworld-null reads
TAUGHT = ("attn2", "ff", "norm2", "norm3")  # of a transformer block


def taught_names(unet: nn.Module, block: str) -> list[str]:
    """Return the names of the U-Net's parameters that a benchmark model has of its own in a transformer block."""
    return [
        f"{block}.{name}"
        for name, _ in unet.get_submodule(block).named_parameters()
        if name.split(".")[0] in TAUGHT
    ]
