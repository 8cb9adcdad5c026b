"""Set prediction losses of Grounding DINO: boxes matched one to one, and token targets for what they are.

Source: Liu et al. 2023 (Grounding DINO), section 3.4 (L1 and GIoU for boxes, focal loss on the similarity of a query
to every token of the prompt, Hungarian matching with weights 2, 5, 2); Carion et al. 2020 for the matching.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch.nn import functional as F
from torchvision.ops import box_convert, generalized_box_iou, generalized_box_iou_loss

ALPHA, GAMMA = 0.25, 2.0
CLASS, BOX, GIOU = 2.0, 5.0, 2.0  # weights in the matching, and of the losses


@dataclass(frozen=True)
class Target:
    """Content of one image: boxes ``(k, 4)`` as centre, width and height, and tokens ``(k, t)`` that name each."""

    boxes: torch.Tensor
    tokens: torch.Tensor


def focal_terms(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Focal loss of every logit if its target were 1, and if it were 0."""
    chance = logits.sigmoid()
    one = -ALPHA * (1 - chance) ** GAMMA * F.logsigmoid(logits)
    zero = -(1 - ALPHA) * chance**GAMMA * F.logsigmoid(-logits)
    return one, zero


@torch.no_grad()
def match(logits: torch.Tensor, boxes: torch.Tensor, target: Target) -> tuple[torch.Tensor, torch.Tensor]:
    """Pair queries with objects, each at most once, at the least total cost; numbers of both ``(min(q, k),)``."""
    one, zero = focal_terms(logits)
    named = target.tokens / target.tokens.sum(1, keepdim=True).clamp(min=1)
    cost = CLASS * (one - zero) @ named.T + BOX * torch.cdist(boxes.float(), target.boxes, p=1)
    cost -= GIOU * generalized_box_iou(_corners(boxes.float()), _corners(target.boxes))
    queries, objects = linear_sum_assignment(
        np.nan_to_num(cost.cpu().numpy(), nan=1e4, posinf=1e4, neginf=-1e4)
    )
    return torch.as_tensor(queries, device=boxes.device), torch.as_tensor(objects, device=boxes.device)


def set_loss(
    logits: torch.Tensor,
    boxes: torch.Tensor,
    valid: torch.Tensor,
    targets: list[Target],
    pairs: list[tuple[torch.Tensor, torch.Tensor]] | None = None,
) -> torch.Tensor:
    """Loss of one layer's predictions ``(n, q, ...)``, by object; ``pairs`` are matched if not given."""
    logits = logits.float().masked_fill(~valid[:, None], 0.0)
    if pairs is None:
        pairs = [match(*row) for row in zip(logits, boxes, targets)]
    tokens = torch.zeros_like(logits)
    for row, (queries, objects) in enumerate(pairs):
        tokens[row, queries] = targets[row].tokens[objects]
    one, zero = focal_terms(logits)
    focal = torch.where(tokens > 0, one, zero).masked_fill(~valid[:, None], 0.0).sum()
    guesses = torch.cat([boxes[row, queries] for row, (queries, _) in enumerate(pairs)]).float()
    wanted = torch.cat([target.boxes[objects] for target, (_, objects) in zip(targets, pairs)])
    return (CLASS * focal + box_loss(guesses, wanted)) / max(len(wanted), 1)


def box_loss(guesses: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Weighted sum of L1 and GIoU loss of boxes ``(m, 4)``, centre form."""
    giou = generalized_box_iou_loss(_corners(guesses), _corners(wanted), reduction="sum")
    return BOX * F.l1_loss(guesses, wanted, reduction="sum") + GIOU * giou


def _corners(boxes: torch.Tensor) -> torch.Tensor:
    return box_convert(boxes, "cxcywh", "xyxy")
