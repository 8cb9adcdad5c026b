"""Arguments of a diffusion transformer's call, as a row says: read by common names, swapped, made without weights."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hooks.architectures.transformer_rows import TransformerRow
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor


def named(row: TransformerRow, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call by their common names; the latents may come first."""
    given = {**dict(zip(row.arguments or ("hidden_states",), args)), **kwargs}
    return {row.arguments.get(name, name): value for name, value in given.items()}


def text_lengths(row: TransformerRow, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Positions that each row's text takes in the attention; empty where all rows have the same number.

    Refuses images of one prompt with masks of different prompts, as Lumina2's pipeline of diffusers gives them.
    """
    if row.listed:
        return tuple(map(len, given["encoder_hidden_states"]))
    if row.own_lengths:
        lengths, states = given[row.masks[0]].sum(dim=1).tolist(), given["encoder_hidden_states"]
        for one in range(1, len(lengths)):
            if lengths[one] != lengths[one - 1] and bool((states[one] == states[one - 1]).all()):
                raise HookError(
                    "transformer: expected one mask for all images of a prompt, but the pipeline gives image"
                    f" {one} that of another prompt: repeat the prompts instead of num_images_per_prompt"
                )
        return tuple(lengths)
    return ()


def stacked(values: Tensor | list[Tensor]) -> Tensor:
    """Rows as one tensor: states with 0 behind the shorter ones, latents without their one frame."""
    if not isinstance(values, list):
        return values
    import torch

    if values[0].ndim == 2:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return torch.stack(values).squeeze(2)


def with_texts(
    row: TransformerRow, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """States of the tokens, masks and pooled text of the rows named; all else stays each row's own."""
    swapped = ("encoder_hidden_states", *row.masks, *(row.pooled or ())[:1])

    def of_rows(name: str, value: Any) -> Any:
        if row.arguments.get(name, name) not in swapped or value is None:
            return value
        return [value[one] for one in rows] if isinstance(value, list) else value[list(rows)]

    given = tuple(of_rows(name, value) for name, value in zip(row.arguments, args))
    return (*given, *args[len(given) :]), {name: of_rows(name, value) for name, value in kwargs.items()}


def text_arguments(row: TransformerRow, outputs: Sequence[Any]) -> dict[str, Any]:
    """The last encoder's last states; before them those of two encoders of CLIP, and the pooled text of CLIP's."""
    import torch

    *clip, last = outputs
    states = last[0] if hasattr(last, "last_hidden_state") else last.hidden_states[-1]
    if len(clip) > 1:
        joined = torch.cat([output.hidden_states[-2] for output in clip], -1)
        missing = states.shape[-1] - joined.shape[-1]
        states = torch.cat([torch.nn.functional.pad(joined, (0, missing)), states], 1)
    given = {"encoder_hidden_states": states}
    if row.pooled is not None:
        pooled = [getattr(one, "text_embeds", getattr(one, "pooler_output", None)) for one in clip]
        given[row.pooled[0]] = torch.cat(pooled, -1)
    return given


def blank_text(row: TransformerRow, config: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    """What `text_arguments` gives of a text of so many tokens, on the meta device."""
    import torch

    widths = {"encoder_hidden_states": (1, tokens, config[row.text_width])}
    if row.pooled is not None:
        widths[row.pooled[0]] = (1, config[row.pooled[1]])
    return {name: torch.zeros(shape, device="meta") for name, shape in widths.items()}


def blank_call(
    row: TransformerRow, denoiser: Any, size: tuple[int, int], patch: int, text: Mapping[str, Any]
) -> dict[str, Any]:
    """All arguments of a call on the meta device, for one image with a latent of this size, by their own names."""
    import torch

    config, tokens = denoiser.config, text["encoder_hidden_states"].shape[1]
    shape: tuple[int, ...] = (1, config.in_channels, *size)
    given = {"timestep": torch.zeros(1, device="meta"), **text}
    for argument, shapes in row.blank.items():
        given[argument] = {key: torch.zeros(of, device="meta") for key, of in shapes.items()}
    if row.packed:
        grid = [side // patch for side in size]
        shape = (1, grid[0] * grid[1], config.in_channels)
        if "img_shapes" in inspect.signature(type(denoiser).forward).parameters:
            given["img_shapes"] = [[(1, *grid)]]
        else:
            given["img_ids"] = torch.zeros(shape[1], 3, device="meta")
            given["txt_ids"] = torch.zeros(tokens, 3, device="meta")
    if row.own_lengths:
        given[row.masks[0]] = _known_ones(tokens)
    if config.get("guidance_embeds"):
        given["guidance"] = torch.zeros(1, device="meta")
    given["hidden_states"] = torch.zeros(shape, device="meta")
    own = {name: given.pop(common) for name, common in row.arguments.items()}
    if row.listed:
        latent, _, states = own
        own[latent] = [one.unsqueeze(1) for one in own[latent]]
        own[states] = list(own[states])
    return {**own, **given}


def _known_ones(tokens: int) -> Tensor:
    """A mask of ones on the meta device whose sum is known, which models ask for that cut texts to their length."""
    import torch

    class Ones(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.sum:
                return torch.tensor([tokens], device="cpu")
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

    return torch.ones(1, tokens, dtype=torch.int64, device="meta").as_subclass(Ones)
