"""A network without weights, on torch's meta device, where a call computes nothing but shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def build_blank(kind: Any, config: Mapping[str, Any]) -> Any:
    """Build a network of a class of diffusers or transformers from its configuration.

    Returns
    -------
    torch.nn.Module
        In evaluation mode; its parameters take no memory.
    """
    with torch.device("meta"):
        if hasattr(kind, "config_class"):  # of transformers
            return kind(kind.config_class.from_dict(dict(config))).eval()
        return kind.from_config(config).eval()
