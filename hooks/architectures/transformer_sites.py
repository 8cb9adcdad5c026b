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

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks.architectures.places import DENOISING, GROUPS, Place, shared_place
from hooks.architectures.site import Site, children, has_module, module_at

PART = "transformer"
_ADDRESS = re.compile(r"^dit\.(block|single)\.(\d+)\.(.+)$")
_ATTENTION_PARTS = ("query", "key", "value", "heads")
_INNER = (
    "mod",
    "mod.text",
    *(
        f"{one}{part}"
        for one in ("joint", "joint.text", "self", "cross")
        for part in (*(f".{name}" for name in _ATTENTION_PARTS), "")
    ),
    "ff",
    "ff.text",
    "text",
    "image",
)
_IN = ("dit.in.image", "dit.in.text")


@dataclass(frozen=True)
class Stack:
    """Blocks of one kind, in a list.

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

    def beside(self, stream: str) -> dict[str, Any]:
        """What a site says of its stream, where one module runs over both or other positions stand before the text."""
        if self.single:
            return {"stream": stream, "sequence": self.sequence}
        own = tuple(one for one in self.sequence if one != "image")
        if stream == "image" or own == ("text",):
            return {}
        return {"stream": stream, "sequence": own}


def block_sites(denoiser: Any, stacks: Sequence[Stack]) -> Iterator[Site]:
    """Sites of all blocks of a transformer, in the order in which they run."""
    for stack in stacks:
        blocks = children(denoiser, stack.path)
        for k, block in enumerate(blocks):
            address, path = f"{stack.address}.{k}", f"{PART}.{stack.path}.{k}"
            for name, module in stack.modules.items():
                if name.startswith("mod") and has_module(block, module):
                    yield Site(f"{address}.{name}", f"{path}.{module}", place(f"{address}.{name}"))
            yield from _attention_sites(stack, address, path, block)
            for name, module in stack.modules.items():
                if name in ("self", "ff", "ff.text") and has_module(block, module):
                    where, inner = f"{address}.{name}", module_at(block, module)
                    if name == "self":
                        yield from _projections(where, f"{path}.{module}", inner, {})
                    yield Site(where, f"{path}.{module}", place(where), default=False)
            for stream, element in stack.streams.items():
                if stream == "text" and _is_last_of_text(block):
                    continue
                where, whole = f"{address}.{stream}", element is None
                more = stack.beside(stream) if whole or not stack.single else {}
                yield Site(where, path, place(where), element=0 if whole else element, **more)


def _attention_sites(stack: Stack, address: str, path: str, block: Any) -> Iterator[Site]:
    """Sites of the attention by which the image reads the text."""
    module, where = module_at(block, stack.attention), f"{path}.{stack.attention}"
    image = f"{address}.{stack.role}"
    if stack.role == "cross":
        yield from _projections(image, where, module, {})
        yield Site(image, where, place(image))
        return
    text = f"{image}.text"
    if stack.single:
        for name, stream in ((image, "image"), (text, "text")):
            more = stack.beside(stream)
            yield from _projections(name, where, module, more)
            yield Site(name, where, place(name), default=stream == "image", **more)
        return
    more = stack.beside("text")
    yield from _projections(image, where, module, {})
    yield from _projections(text, where, module, more, ("add_{}_proj", "to_add_out"))
    if not _is_last_of_text(block):
        yield Site(text, where, place(text), default=False, element=1, **more)
    yield Site(image, where, place(image))


def _projections(
    address: str,
    path: str,
    module: Any,
    more: Mapping[str, Any],
    names: tuple[str, str] = ("to_{}", "to_out.0"),
) -> Iterator[Site]:
    for part in _ATTENTION_PARTS[:3]:
        name = names[0].format(part[0])
        if has_module(module, name):
            yield Site(
                f"{address}.{part}", f"{path}.{name}", place(f"{address}.{part}"), default=False, **more
            )
    if has_module(module, names[1]):
        where = f"{address}.heads"
        heads = int(module.heads)
        end = f"{path}.{names[1]}"
        yield Site(where, end, place(where), default=False, read="input", heads=heads, **more)


def _is_last_of_text(block: Any) -> bool:
    """Return whether the stream of the text ends in this block."""
    return bool(getattr(block, "context_pre_only", False))


def place(address: str) -> Place | None:
    """Return what an address says of a site of a transformer, of what stands before and behind it; None of any other.

    Examples
    --------
    >>> place("dit.single.7.joint").label, place("dit.block.3.image").space
    ('single 7 · joint', 'denoising')
    >>> sorted(["dit.block.10.mod", "dit.block.2.image", "dit.block.2.joint", "dit.in.text"], key=place)
    ['dit.in.text', 'dit.block.2.joint', 'dit.block.2.image', 'dit.block.10.mod']
    >>> place("unet.mid") is None
    True
    """
    if address in _IN:
        rank = (GROUPS.index("in"), 1, _IN.index(address))
        stream = address.rpartition(".")[2]
        return Place(rank, "in", f"{stream} in", "denoising", DENOISING, between_blocks=stream == "image")
    match = _ADDRESS.match(address)
    if match is None or match[3] not in _INNER:
        return shared_place(address)
    rank = (GROUPS.index(match[1]), int(match[2]), _INNER.index(match[3]))
    label = f"{match[1]} {match[2]} · {match[3].replace('.', ' ')}"
    return Place(rank, match[1], label, "denoising", DENOISING, between_blocks=match[3] == "image")
