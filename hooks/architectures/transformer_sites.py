"""Sites of diffusion transformers: their addresses, and the modules of the blocks that they name. Imports no torch.

=================================  =========================================================  ==================
address                            what is read                                               a row is
=================================  =========================================================  ==================
`text.pooled`                      the text as one vector, as the denoiser is given it        (c,)
`dit.in.image`, `dit.in.text`      embedded patches; embedded states of the text              (tokens, c)
`dit.block.<k>.image`              stream of the image after block k                          (h*w, c)
`dit.block.<k>.text`               stream of the text after it, where the text has one        (text tokens, c)
`dit.block.<k>.joint`              output of the joint attention where the image asks         (h*w, c)
`dit.block.<k>.joint.text` *       the same where the text asks                               (text tokens, c)
`dit.block.<k>.cross`              output of the cross-attention, where the text has no own   (h*w, c)
`dit.block.<k>.mod`                shifts, scales and gates of time and pooled text           (numbers,)
`dit.block.<k>.self` *             attention of the image alone; `.ff` the feed-forward       (h*w, c)
`dit.single.<k>.…`                 blocks that run both streams through the same weights      as above
=================================  =========================================================  ==================

Of attentions `.query`, `.key`, `.value` and `.heads` are there as in U-Nets, read where they are asked for; those of
the text's positions are `.joint.text.key` and so on. All other addresses are those of `hooks.sites`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.site import Site, attention_part_sites, children, has_module, module_at

PART = "transformer"


@dataclass(frozen=True)
class Stack:
    """A list of equal transformer blocks: its path in the transformer, and the attention and streams of a block.

    Attributes
    ----------
    address, path : str
        "dit.block"; the list's name in the transformer.
    attention : str
        Within a block, the attention by which the image reads the text.
    role : {"joint", "cross"}
        Whether both streams attend to both, or the image to the text alone.
    sequence : tuple of str or int
        Order of the streams in the joint attention, a number for so many positions of neither (register tokens); of
        cross-attention that of its keys, ("text",).
    streams : mapping of str to int or None
        Element of the block's output by stream; None: the output is the sequence of both.
    modules : mapping of str to str
        Other modules of a block by what their address ends in.
    single : bool
        Whether both streams run through the same weights, as one sequence.
    """

    address: str
    path: str
    attention: str
    role: str
    sequence: tuple[str | int, ...]
    streams: Mapping[str, int | None]
    modules: Mapping[str, str]
    single: bool = False

    def stream_attributes(self, stream: str, joined: bool = False) -> dict[str, Any]:
        """Keyword arguments for the `Site` of one stream in a joint sequence; empty if its module sees that alone.

        `joined`: its module sees both streams, though the block returns them apart.
        """
        if self.single or joined:
            return {"stream": stream, "sequence": self.sequence}
        rest = tuple(part for part in self.sequence if part != "image")
        if stream == "image" or rest == ("text",):
            return {}
        return {"stream": stream, "sequence": rest}


def block_sites(denoiser: Any, stacks: Sequence[Stack]) -> Iterator[Site]:
    """Sites in all blocks of a diffusion transformer, in the order in which they run."""
    for stack in stacks:
        blocks = children(denoiser, stack.path)
        for k, block in enumerate(blocks):
            address, path = f"{stack.address}.{k}", f"{PART}.{stack.path}.{k}"
            for name, module in stack.modules.items():
                if name.startswith("mod") and has_module(block, module):
                    yield Site(f"{address}.{name}", f"{path}.{module}")
            yield from _attention_sites(stack, address, path, block)
            for name, module in stack.modules.items():
                if name in ("self", "ff", "ff.text") and has_module(block, module):
                    where, inner = f"{address}.{name}", module_at(block, module)
                    if name == "self":
                        yield from attention_part_sites(where, f"{path}.{module}", inner)
                    yield Site(where, f"{path}.{module}", default=False)
            for stream, element in stack.streams.items():
                if stream == "text" and _ends_text_stream(block):
                    continue
                where, joined = f"{address}.{stream}", element is None
                more = stack.stream_attributes(stream) if joined or not stack.single else {}
                yield Site(where, path, element=0 if joined else element, **more)


def _attention_sites(stack: Stack, address: str, path: str, block: Any) -> Iterator[Site]:
    """Sites of the attention of a block, at `address` and module `path`, by which the image reads the text."""
    module, where = module_at(block, stack.attention), f"{path}.{stack.attention}"
    image = f"{address}.{stack.role}"
    if stack.role == "cross":
        yield from attention_part_sites(image, where, module)
        yield Site(image, where)
        return
    text = f"{image}.text"
    if stack.single:
        for name, stream in ((image, "image"), (text, "text")):
            more = stack.stream_attributes(stream)
            yield from attention_part_sites(name, where, module, **more)
            yield Site(name, where, default=stream == "image", **more)
        return
    more = stack.stream_attributes("text")
    if has_module(module, "add_k_proj"):
        yield from attention_part_sites(image, where, module)
        yield from attention_part_sites(text, where, module, ("add_{}_proj", "to_add_out"), **more)
    else:  # both streams go through the same projections
        for name, stream in ((image, "image"), (text, "text")):
            yield from attention_part_sites(
                name, where, module, **stack.stream_attributes(stream, joined=True)
            )
    if not _ends_text_stream(block):
        yield Site(text, where, default=False, element=1, **more)
    yield Site(image, where)


def _ends_text_stream(block: Any) -> bool:
    """Return whether a transformer block has no text output (`context_pre_only`), as the last block may."""
    return bool(getattr(block, "context_pre_only", False))
