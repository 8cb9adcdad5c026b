"""How a diffusion transformer is called, as its row says: read by common names, texts swapped, made without weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hooks.architectures.base import Architecture
from hooks.architectures.batch import Batch, Inputs, other_branches
from hooks.architectures.transformer_rows import TransformerRow
from hooks.errors import HookError

if TYPE_CHECKING:
    from torch import Tensor


class TransformerCall(Architecture):
    """The part of a diffusion transformer's architecture that knows the arguments of its call."""

    row: TransformerRow

    def inputs(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        branches: tuple[str, ...] | None = None,
    ) -> Inputs:
        """Return what the transformer is given; latents are unpacked."""
        row, given = self.row, self._named(args, kwargs)
        lengths = self._text_lengths(given)
        latent, states = stacked(given["hidden_states"]), stacked(given["encoder_hidden_states"])
        branches = branches or self._branches(pipe)
        if latent.shape[0] % len(branches):
            raise other_branches(pipe, branches, len(latent), "a number that they do not divide")
        rows = latent.shape[0] // len(branches)
        size = self._size(pipe, {**given, "hidden_states": latent})
        batch = Batch(rows, branches, *size, self.patch(pipe), states.shape[1], lengths, row.multiple)
        pooled = None if row.pooled is None else batch.conditional(given[row.pooled[0]], "text.pooled")
        return Inputs(
            batch,
            given["timestep"],
            self.unpacked(batch.conditional(latent, "latent"), batch),
            batch.conditional(states, "text.final"),
            masked=False,  # masks are read with the attention
            pooled=pooled,
        )

    def branches(
        self,
        pipe: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        of_prompts: Callable[[Tensor], bool],
        runs: int,
    ) -> tuple[str, ...] | None:
        """See `Architecture.branches`."""
        if self.row.branches != "text":
            return None
        states = self._named(args, kwargs)["encoder_hidden_states"]
        guided = len(states) % 2 == 0 and of_prompts(states[len(states) // 2 :])
        if guided and runs > 1:
            return self._order(guided=True)
        if guided or of_prompts(states):  # negative states may have been passed in
            return self._order(guided and not of_prompts(states))
        raise HookError(
            f"{type(pipe).__name__}: expected prompts, since the texts tell which rows are guided by them, but no text "
            "encoder in this block gave the denoiser its states: pass prompt, not prompt_embeds"
        )

    def _branches(self, pipe: Any) -> tuple[str, ...]:
        if self.row.branches != "pipeline":
            return self._order(guided=False)
        guided = getattr(pipe, "do_classifier_free_guidance", None)
        if guided is None:
            guided = getattr(pipe, "guidance_scale", 0.0) > self.row.layout.unguided
        return self._order(bool(guided))

    def _order(self, guided: bool) -> tuple[str, ...]:
        if not guided:
            return ("conditional",)
        both = ("unconditional", "conditional")
        return both[::-1] if self.row.prompts_first else both

    def _size(self, pipe: Any, given: Mapping[str, Any]) -> tuple[int, int]:
        """Height and width of the latent."""
        if not self.row.packed:
            return tuple(given["hidden_states"].shape[-2:])
        if "img_shapes" in given:
            return tuple(self.patch(pipe) * side for side in given["img_shapes"][0][0][-2:])
        if hasattr(pipe, "blank_size"):  # without weights, positions have no values
            return pipe.blank_size
        last = given["img_ids"].flatten(0, -2)[-1].tolist()
        return tuple(self.patch(pipe) * (int(place) + 1) for place in last[-2:])

    def patch(self, pipe: Any) -> int:
        """See `Architecture.patch`."""
        return self.row.patch or self.denoiser(pipe).config.patch_size

    def unpacked(self, values: Tensor, batch: Batch) -> Tensor:
        """Latents or predictions as a picture, shape (rows, c, h, w); a variance behind the channels is left out."""
        if self.row.packed:
            (height, width), side = batch.grid, batch.patch
            values = values.unflatten(-1, (-1, side, side)).unflatten(1, (height, width))
            values = values.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
        return values

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a call by their common names; the latents may come first."""
        given = {**dict(zip(self.row.arguments or ("hidden_states",), args)), **kwargs}
        return {self.row.arguments.get(name, name): value for name, value in given.items()}

    def _text_lengths(self, given: Mapping[str, Any]) -> tuple[int, ...]:
        """Positions that each row's text takes in the attention; empty where all rows have the same number.

        Refuses images of one prompt with masks of different prompts, as Lumina2's pipeline of diffusers gives them.
        """
        row = self.row
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

    def with_texts(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], rows: Sequence[int]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """States of the tokens, masks and pooled text of the rows named; all else stays each row's own."""
        row = self.row
        swapped = ("encoder_hidden_states", *row.masks, *(row.pooled or ())[:1])

        def of_rows(name: str, value: Any) -> Any:
            if row.arguments.get(name, name) not in swapped or value is None:
                return value
            return [value[one] for one in rows] if isinstance(value, list) else value[list(rows)]

        given = tuple(of_rows(name, value) for name, value in zip(row.arguments, args))
        return (*given, *args[len(given) :]), {name: of_rows(name, value) for name, value in kwargs.items()}

    def text_arguments(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The last encoder's last states; before them those of two encoders of CLIP, and the pooled text of CLIP's."""
        import torch

        *clip, last = outputs
        states = last[0] if hasattr(last, "last_hidden_state") else last.hidden_states[-1]
        if len(clip) > 1:
            joined = torch.cat([output.hidden_states[-2] for output in clip], -1)
            missing = states.shape[-1] - joined.shape[-1]
            states = torch.cat([torch.nn.functional.pad(joined, (0, missing)), states], 1)
        given = {"encoder_hidden_states": states}
        if self.row.pooled is not None:
            pooled = [getattr(one, "text_embeds", getattr(one, "pooler_output", None)) for one in clip]
            given[self.row.pooled[0]] = torch.cat(pooled, -1)
        return given

    def blank_text(self, pipe: Any, tokens: int) -> dict[str, Any]:
        """Arguments that say a text of so many tokens, on the meta device."""
        import torch

        row, config = self.row, self.denoiser(pipe).config
        widths = {"encoder_hidden_states": (1, tokens, config[row.text_width])}
        if row.pooled is not None:
            widths[row.pooled[0]] = (1, config[row.pooled[1]])
        return {name: torch.zeros(shape, device="meta") for name, shape in widths.items()}

    def blank_call(self, pipe: Any, size: tuple[int, int], text: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments of a call on the meta device, for one image with a latent of this size, by their own names."""
        import torch

        row, denoiser = self.row, self.denoiser(pipe)
        config, tokens = denoiser.config, text["encoder_hidden_states"].shape[1]
        shape: tuple[int, ...] = (1, config.in_channels, *size)
        given = {"timestep": torch.zeros(1, device="meta"), **text}
        for argument, shapes in row.blank.items():
            given[argument] = {key: torch.zeros(of, device="meta") for key, of in shapes.items()}
        if row.packed:
            grid = [side // self.patch(pipe) for side in size]
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

    def call_once(self, bare: Any, size: tuple[int, int], tokens: int) -> None:
        """See `Architecture.call_once`."""
        bare.blank_size = size
        super().call_once(bare, size, tokens)


def stacked(values: Tensor | list[Tensor]) -> Tensor:
    """Rows as one tensor: states with 0 behind the shorter ones, latents without their one frame."""
    if not isinstance(values, list):
        return values
    import torch

    if values[0].ndim == 2:
        return torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return torch.stack(values).squeeze(2)


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
