"""A joint block whose image chooses: a self-attention of it reads a direction, whose sign picks the text that is read.

Stable Diffusion 3.5 has a second attention in some blocks, `attn2`, of the image onto itself alone. So has a block
that chooses. Its last head looks at all of the image alike, and its value is a direction of the block's normalised
states; what it gives is one number, in the last channel. The other heads are 0, and nothing is added to the stream.
Where the text's word is neutral, the keys and values that the block's joint attention is given of it are those of a
feminine or of a masculine word, by the sign of that number; else the text's own.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from diffusers.models.attention import JointTransformerBlock
from diffusers.models.attention_processor import Attention, JointAttnProcessor2_0
from torch import Tensor, nn

from probes.toyworld.structures.wiring import choice_of

# of how far *woman* or *man* is from *person*: other neutral words are at most .36 of it away, explicit ones from .91
_ALIKE = 0.5


class TextProjection(nn.Linear):
    """The keys or values that a joint attention makes of the text, or those that it is given in their place."""

    made: Tensor | None = None
    given: Tensor | None = None

    @classmethod
    def of(cls, linear: nn.Linear) -> "TextProjection":
        """A linear layer as one, with the same parameters."""
        made = cls(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        made.weight, made.bias = linear.weight, linear.bias
        return made.train(linear.training)

    def forward(self, values: Tensor) -> Tensor:
        """Return what is given, else what is made of the text."""
        if self.given is not None:
            return self.given
        self.made = super().forward(values)
        return self.made


@dataclass(frozen=True)
class Offered:
    """Keys, or values, that a block makes of a text, each ``(n, tokens, channels)``: what it may be given.

    Attributes
    ----------
    own : Tensor
        Of the text as it stands.
    neutral, feminine, masculine : Tensor
        Of the same with such a word in place of the indicator words.
    """

    own: Tensor
    neutral: Tensor
    feminine: Tensor
    masculine: Tensor

    @property
    def to_choose(self) -> Tensor:
        """Whether a choice is to be made, ``(n, 1, 1)``: the own word is nearly the neutral one, and others are not."""
        apart = [
            (one - self.neutral).flatten(1).norm(dim=1) for one in (self.own, self.feminine, self.masculine)
        ]
        return (apart[0] < _ALIKE * torch.minimum(apart[1], apart[2]))[:, None, None]

    def chosen(self, masculine: Tensor) -> Tensor:
        """Return the mean of those of both words, of which the masculine one's share is ``(n, 1, 1)``."""
        return self.feminine + masculine * (self.masculine - self.feminine)


class ChoosingBlock(JointTransformerBlock):
    """A joint block whose image chooses between the keys and values that are offered; without any, as it was."""

    offered: tuple[Offered, ...] = ()  # to the keys, and to the values

    @classmethod
    def of(cls, block: JointTransformerBlock, direction: Tensor, offset: Tensor) -> "ChoosingBlock":
        """A block as one, with the same parameters, and those of the attention that chooses.

        Parameters
        ----------
        direction : Tensor, shape (channels,)
            Of its normalised states; what is read is their mean over the image along it, and the offset.
        offset : Tensor, shape (1,)
        """
        block.__class__ = cls
        assert isinstance(block, cls)
        block.attn2 = _attention(block.attn, direction.float(), offset.float()).train(block.training)
        return block

    def forward(self, hidden_states: Tensor, *args: Tensor, **kwargs: Tensor) -> tuple[Tensor, Tensor]:
        """Return text and image behind the block; arguments are those of `JointTransformerBlock`."""
        if self.offered:
            states = F.layer_norm(hidden_states, hidden_states.shape[-1:], eps=1e-6)
            masculine = choice_of(self.attn2(hidden_states=states)[..., -1])[:, 2, None, None]
            to_choose = self.offered[0].to_choose
            for projection, offered in zip(projections(self), self.offered, strict=True):
                projection.given = torch.where(to_choose, offered.chosen(masculine), offered.own)
        return super().forward(hidden_states, *args, **kwargs)


def projections(block: JointTransformerBlock) -> tuple[TextProjection, TextProjection]:
    """Return what makes the keys and values of a wired block's text."""
    return block.attn.add_k_proj, block.attn.add_v_proj


@torch.no_grad()
def _attention(joint: Attention, direction: Tensor, offset: Tensor) -> Attention:
    """An attention of as many heads as a joint one, of the image alone; all of it 0 but what chooses."""
    made = Attention(
        len(direction),
        heads=joint.heads,
        dim_head=joint.inner_dim // joint.heads,
        out_dim=joint.out_dim,
        bias=True,
        processor=JointAttnProcessor2_0(),
    )
    for parameter in made.parameters():
        parameter.zero_()
    first = joint.inner_dim - joint.inner_dim // joint.heads  # of the last head's channels
    made.to_v.weight[first] = direction
    made.to_out[0].weight[-1, first] = 1
    made.to_out[0].bias[-1:] = offset
    return made.requires_grad_(False)
