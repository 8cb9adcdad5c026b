"""The GPU work that a probe adds to each step, counted without a GPU: ``python -m tests.benchmarks.launches``.

The pipelines of `tests.benchmarks.architectures` at full size and in half precision hold fake tensors (torch's
`FakeTensorMode`), which have shapes, strides and the device "cuda:0" but no memory, so that code takes the path that it
takes on a GPU. A `TorchDispatchMode` sees every aten operation below autograd, as the pipelines run it (`no_grad`):

- *dispatches*: operations that reach the mode, on either device, views among them: the work of the host;
- *launches*: those that start work on the GPU: all but views, allocations without values and empty results. A
  convolution, a norm or a softmax counts as one, and so does a copy between CPU and GPU;
- `scaled_dot_product_attention` is one dispatch and one launch where a fused kernel takes it (widths of heads that are
  multiples of 16 bytes), in the model as in the probe, and its result has the strides that theirs has;
- *touched*: bytes of inputs and results of every launch, where an expanded tensor counts what its memory holds;
- *allocated*: bytes of new results on the GPU; *held*: those that live as the pipeline returns; *peak*: the most that
  live at once;
- *synchronisations*: where the host waits: reading a value (`item`, `bool`, `nonzero`, `equal`, a mask or a list as an
  index) and copies between CPU and GPU that are not `non_blocking`.

A value that is read is right where it follows from few numbers that came from the CPU (timesteps, token ids,
positions); states of text encoders have random values, which rows keep when moved; anything else is 0.
The probe's cost is the difference to the bare pipeline: at the start (until the denoiser is first called), in each
step (the mean of those after the first), and at the end (after the last step: the decoder and the end of the block).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from hooks import Probe
from tests.benchmarks import architectures
from tests.benchmarks.gpu import GUIDANCE, SIZES
from tests.benchmarks.daam_side import versions
from tests.benchmarks.worker import Bench

DEVICE = torch.device("cuda:0")
ARCHITECTURES = ("sd14", "sdxl", "sd3", "flux")
CASES = (("words", 1), ("words", 12), ("captures", 12))
SMALL = 2**16  # numbers in tensors whose values are followed through any operation
LARGE = 2**22  # the same once the denoiser has begun, where only text is followed
_NO_WORK = {"empty", "empty_strided", "new_empty", "new_empty_strided", "empty_like", "_unsafe_view"}
_READS = {"_local_scalar_dense", "equal", "nonzero"}
_MOVES = {"cat", "stack", "clone", "constant_pad_nd", "repeat", "index", "index_select"}


class AsOnGpu(TorchFunctionMode):
    """Runs functions of fake tensors as a GPU does: attention by a fused kernel where one takes it."""

    def __init__(self, counter: GpuCounter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return a result without values in the layout of the fused kernels, heads behind positions."""
        kwargs = kwargs or {}
        if function is F.scaled_dot_product_attention:
            tensors = [leaf for leaf in (*args, *kwargs.values()) if isinstance(leaf, Tensor)]
            if tensors[0].is_cuda and all(one.shape[-1] * one.itemsize % 16 == 0 for one in tensors[:3]):
                return self._counter.attend(tensors)
        return function(*args, **kwargs)


class Alive:
    """An attribute of a tensor that tells the counter when the tensor is gone."""

    def __init__(self, counter: GpuCounter, storage: int) -> None:
        self._counter, self._storage = counter, storage

    def __del__(self) -> None:
        """Release the storage."""
        self._counter.release(self._storage)


class GpuCounter(TorchDispatchMode):
    """Counts of what was run on fake GPU tensors while this was entered, and the bytes that live and lived at most."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.live = self.peak = 0
        self.in_text = True  # until the denoiser runs
        self._storages: dict[int, list[int]] = {}  # by address, the number of tensors and the bytes
        self._pinned: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on real or fake tensors and count it."""
        kwargs = dict(kwargs or {})
        if function.namespace == "prim":  # asks a tensor for its device
            return function(*args, **kwargs)
        name, self.counts["dispatches"] = function.overloadpacket.__name__, self.counts["dispatches"] + 1
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        real = [tensor for tensor in tensors if not isinstance(tensor, FakeTensor)]
        device = torch.device(kwargs.get("device") or ("cpu" if len(real) == len(tensors) else DEVICE)).type
        if len(real) == len(tensors) and device == "cpu":
            return self._run_on_cpu(function, name, args, kwargs)
        copies = name in ("copy_", "_to_copy")
        to_cpu = copies and (
            device == "cpu" or (name == "copy_" and isinstance(args[0], FakeTensor) is False)
        )
        if copies and (to_cpu or real):
            waits = not (kwargs.get("non_blocking") or args[2:3] == (True,))
            pinned = name == "_to_copy" or not to_cpu or args[0].untyped_storage().data_ptr() in self._pinned
            self.counts["synchronisations"] += waits or not pinned
        if name in _READS or to_cpu:
            self.counts["synchronisations"] += name in _READS
            self.counts["launches"] += 1
            return self._read(function, name, tensors, args, kwargs)
        result = function(*args, **kwargs)
        if name in (
            "index",
            "index_put",
            "index_put_",
        ):  # lists are copied to the GPU, masks are counted there
            waits = sum(not one.is_cuda or one.dtype == torch.bool for one in args[1] if one is not None)
            self.counts.update(launches=waits, synchronisations=waits)
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self._follow(function, name, tensors, results, args, kwargs)
        if function.is_view or name in _NO_WORK:
            self._hold(tensors, results)
        else:
            self._launch(tensors, results)
        return result

    def attend(self, tensors: list[Tensor]) -> Tensor:
        """Count a fused attention of query, key and values and return a result without values."""
        query, _, values, *_ = tensors
        before = self.counts["dispatches"]
        rows, heads, positions, _ = query.shape
        result = query.new_empty(rows, positions, heads, values.shape[-1]).transpose(1, 2)
        self.counts["dispatches"] = before + 1
        self._launch(tensors, [result])
        return result

    def release(self, storage: int) -> None:
        """Note that a tensor of this storage is gone."""
        entry = self._storages[storage]
        entry[0] -= 1
        if not entry[0]:
            self.live -= self._storages.pop(storage)[1]

    def _run_on_cpu(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Run an operation on real tensors; where nothing can be pinned, note what should be."""
        pinned = kwargs.pop("pin_memory", False)
        with unset_fake_temporarily():
            if name in ("pin_memory", "_pin_memory"):
                result, pinned = args[0].clone(), True
            else:
                result = function(*args, **kwargs)
        if pinned:
            self._pinned.add(result.untyped_storage().data_ptr())
        return result

    def _launch(self, tensors: list[Tensor], results: list[Tensor]) -> None:
        """Count a kernel with these inputs and results."""
        if any(result.numel() for result in results) or not results:
            on_gpu = [tensor for tensor in (*tensors, *results) if tensor.is_cuda]
            sizes = [(one.numel() * one.itemsize, one.untyped_storage().nbytes()) for one in on_gpu]
            self.counts.update(launches=1, touched=sum(map(min, sizes)))
        self._hold(tensors, results)

    def _hold(self, tensors: list[Tensor], results: list[Tensor]) -> None:
        """Follow how long the memory of results lives."""
        storages = {tensor.untyped_storage()._cdata for tensor in tensors}
        for result in results:
            if any(result is tensor for tensor in tensors):
                continue
            storage = result.untyped_storage()
            entry = self._storages.get(storage._cdata)
            if entry is None:
                if storage._cdata in storages:  # of weights
                    continue
                entry = self._storages[storage._cdata] = [0, storage.nbytes()]
                self.counts["allocated"] += storage.nbytes()
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
            entry[0] += 1
            result.alive = Alive(self, storage._cdata)

    def _known(self, tensors: list[Tensor], args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Return the arguments with values on the CPU in place of fake tensors; None if some have none."""
        values = {id(one): one.__dict__.get("known") for one in tensors if isinstance(one, FakeTensor)}
        if any(value is None for value in values.values()):
            return None
        args, kwargs = tree_map(lambda leaf: values.get(id(leaf), leaf), (args, kwargs))
        return args, kwargs | ({"device": torch.device("cpu")} if "device" in kwargs else {})

    def _follow(
        self, function: Any, name: str, tensors: list[Tensor], results: list[Tensor], args: Any, kwargs: Any
    ) -> None:
        """Give results their values, where the values of all inputs are known and they are few or only moved."""
        moved = function.is_view or (name in _MOVES and all(result.ndim <= 3 for result in results))
        known, values = None, [None] * len(results)
        if moved or sum(one.numel() for one in (*tensors, *results)) <= (SMALL if self.in_text else LARGE):
            known = self._known(tensors, args, kwargs)
        with unset_fake_temporarily():
            if known is not None:
                function = (
                    torch.ops.aten.reshape.default
                    if name in ("view", "_unsafe_view")
                    and len(args[1:2])
                    and not isinstance(args[1], torch.dtype)
                    else function
                )
                values = tree_leaves(function(*known[0], **known[1]))
            elif self.in_text:
                values = [_random_rows(result) for result in results]
        for result, value in zip(results, values, strict=True):
            result.known = value

    def _read(self, function: Any, name: str, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Return what the host reads from the GPU: the value if it is known, else 0."""
        known = self._known(tensors, args, kwargs)
        source = next(tensor for tensor in tensors if isinstance(tensor, FakeTensor))
        with unset_fake_temporarily():
            if name == "nonzero":
                found = (
                    torch.zeros(1, source.ndim, dtype=torch.int64) if known is None else known[0][0].nonzero()
                )
            elif known is not None:
                return function(*known[0], **known[1])
            elif name == "copy_":
                return args[0].zero_()
            elif name == "_to_copy":
                return torch.zeros(source.shape, dtype=kwargs.get("dtype") or source.dtype)
            else:
                return False if name == "equal" else torch.zeros((), dtype=source.dtype).item()
        result = torch.empty(found.shape, dtype=found.dtype, device=DEVICE)
        result.known = found
        self._hold([], [result])
        return result


def _random_rows(result: Tensor) -> Tensor | None:
    """Return random numbers of which no two rows are equal, in little memory; None for what is no text."""
    if not result.is_floating_point() or result.ndim not in (2, 3):
        return None
    rows, width = math.prod(result.shape[:-1]), result.shape[-1]
    if result.numel() <= SMALL:
        return torch.rand(result.shape).to(result.dtype)
    line = torch.rand(rows + width).to(result.dtype)
    return line.as_strided(result.shape, (*([result.shape[1]] * (result.ndim - 2)), 1, 1))


def _replace_weights(module: torch.nn.Module, new: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
    """Replace each parameter and buffer by a new one, as `Module._apply` does, which refuses fake tensors."""
    for part in module.modules():
        for weights in (part._parameters, part._buffers):
            changed = {name: new(weight) for name, weight in weights.items() if weight is not None}
            parameters = weights is part._parameters
            weights.update({n: torch.nn.Parameter(w, False) if parameters else w for n, w in changed.items()})
    return module


class FakeBench(Bench):
    """A pipeline at full size with fake weights on a GPU, run as the benchmarks on a GPU run it."""

    def __init__(self, architecture: str, fake: FakeTensorMode) -> None:
        self.case = {"size": SIZES[architecture], "guidance_scale": GUIDANCE.get(architecture, 7.5)}
        self.transformer = architecture in architectures.TRANSFORMERS
        dtype = torch.bfloat16 if self.transformer else torch.float16
        self.pipe = architectures.build(architecture, size=self.case["size"], device="meta", dtype=dtype)
        for part in self.pipe.components.values():
            if isinstance(part, torch.nn.Module):
                _replace_weights(part, lambda weight: FakeTensor(fake, weight.data, DEVICE))
        self._fake = fake

    def count(self, mode: str, images: int, steps: int = 3) -> dict[str, Any]:
        """Return the counts of one call of the pipeline in a mode of the benchmark's worker."""
        self._counter, self._held, marks = GpuCounter(), [], []

        def mark(*_: Any) -> None:
            marks.append(Counter(self._counter.counts))
            self._held.append(self._counter.live)
            self._counter.in_text = False

        denoiser = self.pipe.transformer if self.transformer else self.pipe.unet
        hooks = [
            denoiser.register_forward_pre_hook(mark),
            self.pipe.vae.decoder.register_forward_pre_hook(mark),
        ]
        tolist = Tensor.tolist

        def copied_first(tensor: Tensor) -> Any:
            """Replace `tolist`, which reads a fake tensor number by number."""
            return tolist(tensor.cpu())

        try:
            with (
                mock.patch.object(Tensor, "tolist", copied_first),
                mock.patch.object(torch.nn.Module, "_apply", _replace_weights),
                torch.no_grad(),
                self._fake,
                self._counter,
                AsOnGpu(self._counter),
            ):
                getattr(self, mode)(steps, images)
        finally:
            for hook in hooks:
                hook.remove()
        total = self._counter.counts
        step = {name: (marks[steps - 1][name] - marks[1][name]) / (steps - 2) for name in total}
        start = {name: marks[1][name] - step[name] for name in total}
        end = {name: total[name] - marks[steps - 1][name] - step[name] for name in total}
        return {"start": start, "step": step, "end": end, "held": self._held[1:], "peak": self._counter.peak}


if __name__ == "__main__":
    import time

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    for architecture in sys.argv[1].split(","):
        started = time.time()
        bench = FakeBench(architecture, fake)
        print(architecture, "built", time.time() - started)
        for images in (1, 12):
            bare = None
            for mode in ("bare", "words", "captures")[: 2 if images == 1 else 3]:
                started = time.time()
                found = bench.count(mode, images)
                bare = bare or found
                print(images, mode, round(time.time() - started, 1), found if mode == "bare" else "")
                if mode != "bare":
                    for key in ("start", "step", "end"):
                        print("   ", key, {k: v - bare[key].get(k, 0) for k, v in found[key].items()})
                    held = max(a - b for a, b in zip(found["held"], bare["held"]))
                    print("   ", [round(x / 2**20 / images, 2) for x in (held, found["peak"] - bare["peak"])])
