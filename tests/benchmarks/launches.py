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
- *allocated*: bytes of new results on the GPU; *held*: the most that live between two steps or as the decoder begins;
  *peak*: the most that live at once;
- *waits*: where the host waits for the GPU: reading a value (`item`, `bool`, `nonzero`, `equal`, a mask or a list as an
  index), `synchronize`, and copies between CPU and GPU that are not `non_blocking`.

A value that is read is right where it follows from numbers that came from the CPU (timesteps, token ids, positions);
states of text encoders have random values, which rows keep when moved; anything else is 0.
The probe's cost is the difference to the bare pipeline: at the start (until the denoiser's second call, less a step),
in a step (each after the first), and at the end (after the last step: the decoder and the end of the block).
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import weakref
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

from tests.benchmarks import architectures
from tests.benchmarks.daam_side import versions
from tests.benchmarks.gpu import GUIDANCE, SIZES
from tests.benchmarks.page import RESULTS, launches_table
from tests.benchmarks.worker import Bench

DEVICE = torch.device("cuda:0")
ARCHITECTURES = ("sd14", "sdxl", "sd3", "flux")
CASES = (("words", 1), ("words", 12), ("captures", 12))
FEW = 2**16  # numbers in tensors whose values are followed through any operation
_NO_WORK = {"empty", "empty_strided", "new_empty", "new_empty_strided", "empty_like", "_unsafe_view"}
_READS = {"_local_scalar_dense", "equal", "nonzero"}
_MOVES = {"cat", "stack", "clone", "constant_pad_nd", "repeat", "index", "index_select"}


class FusedAttention(TorchFunctionMode):
    """Runs `scaled_dot_product_attention` of fake tensors as one operation where a fused kernel would take it."""

    def __init__(self, counter: GpuCounter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return a result without values in the layout of the fused kernels, heads behind positions."""
        kwargs, counts = kwargs or {}, self._counter.counts
        tensors = [leaf for leaf in (*args, *kwargs.values()) if isinstance(leaf, Tensor)]
        if function is not F.scaled_dot_product_attention or not tensors[0].is_cuda:
            return function(*args, **kwargs)
        if any(one.shape[-1] * one.itemsize % 16 for one in tensors[:3]):
            return function(*args, **kwargs)
        dispatches, (rows, heads, positions, _) = counts["dispatches"], tensors[0].shape
        result = tensors[0].new_empty(rows, positions, heads, tensors[2].shape[-1]).transpose(1, 2)
        counts["dispatches"] = dispatches + 1
        self._counter.launch(tensors, [result])
        return result


class GpuCounter(TorchDispatchMode):
    """Counts of what was run on fake GPU tensors while this was entered, and the bytes that live and lived at most."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.live = self.peak = 0
        self.in_text = True  # until the denoiser runs
        self._storages: dict[int, list[int]] = {}  # by address, the number of tensors and the bytes

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on real or fake tensors and count it."""
        kwargs, name = dict(kwargs or {}), function.overloadpacket.__name__
        if function.namespace == "prim":  # asks a tensor for its device
            return function(*args, **kwargs)
        self.counts["dispatches"] += 1
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        fake = [isinstance(tensor, FakeTensor) for tensor in tensors]
        target = torch.device(kwargs.get("device") or (DEVICE if any(fake) else "cpu"))
        to_cpu = not fake[0] if name == "copy_" else target.type == "cpu"
        kwargs.pop("pin_memory", None)  # without a GPU nothing can be pinned
        if to_cpu and not any(fake):
            with unset_fake_temporarily():
                return function(*args, **kwargs)
        if name in ("copy_", "_to_copy") and (to_cpu or not all(fake)):
            self.counts["waits"] += not (kwargs.get("non_blocking") or args[2:3] == (True,))
        elif name in ("index", "index_put", "index_put_"):  # the operation copies a list to the GPU
            waits = sum(not one.is_cuda or one.dtype == torch.bool for one in args[1] if one is not None)
            self.counts.update(launches=waits, waits=waits)
        if to_cpu or name in _READS:
            self.counts.update(launches=1, waits=int(name in _READS))
            return self._read(function, name, tensors, args, kwargs)
        result = function(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        values = self._values(function, name, tensors, results, args, kwargs)
        for number, one in enumerate(results):
            one.known = values[number] if values else _random_rows(one) if self.in_text else None
        if function.is_view or name in _NO_WORK:
            self._hold(tensors, results)
        else:
            self.launch(tensors, results)
        return result

    def wait(self, *_: Any) -> None:
        """Count a wait."""
        self.counts["waits"] += 1

    def launch(self, tensors: list[Tensor], results: list[Tensor]) -> None:
        """Count a kernel with these inputs and results."""
        if any(result.numel() for result in results) or not results:
            on_gpu = [tensor for tensor in (*tensors, *results) if tensor.is_cuda]
            sizes = [(one.numel() * one.itemsize, one.untyped_storage().nbytes()) for one in on_gpu]
            self.counts.update(launches=1, touched=sum(map(min, sizes)))
        self._hold(tensors, results)

    def _hold(self, tensors: list[Tensor], results: list[Tensor]) -> None:
        """Follow how long the memory of results lives."""
        inputs, same = {one.untyped_storage()._cdata for one in tensors}, {id(one) for one in tensors}
        for result in results:
            storage = result.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if id(result) in same or (key in inputs and key not in self._storages):  # a view of weights
                continue
            if key not in self._storages:
                self._storages[key] = [0, size]
                self.counts["allocated"] += size
                self.live += size
                self.peak = max(self.peak, self.live)
            self._storages[key][0] += 1
            weakref.finalize(result, self._release, key)

    def _release(self, storage: int) -> None:
        """Note that a tensor of this storage is gone."""
        self._storages[storage][0] -= 1
        if not self._storages[storage][0]:
            self.live -= self._storages.pop(storage)[1]

    def _values(
        self, function: Any, name: str, tensors: list[Tensor], results: list[Tensor], args: Any, kwargs: Any
    ) -> list[Any] | None:
        """Return the results' values where those of all inputs are known and are few, moved, or become no fractions."""
        moved = function.is_view or (name in _MOVES and all(result.ndim <= 3 for result in results))
        few = sum(one.numel() for one in (*tensors, *results)) <= FEW
        known = {
            id(one): getattr(one, "known", None if isinstance(one, FakeTensor) else one) for one in tensors
        }
        followed = moved or few or not any(result.is_floating_point() for result in results)
        if (
            not followed
            or any(value is None for value in known.values())
            or not (tensors or name == "arange")
        ):
            return None
        args, kwargs = tree_map(lambda leaf: known.get(id(leaf), leaf), (args, kwargs))
        if "device" in kwargs:
            kwargs["device"] = torch.device("cpu")
        with unset_fake_temporarily():  # random rows have no strides that a view could take
            if function is torch.ops.aten.view.dtype:
                args = (args[0].contiguous(), *args[1:])
            function = torch.reshape if function is torch.ops.aten.view.default else function
            try:
                return tree_leaves(function(*args, **kwargs))
            except NotImplementedError:  # on a CPU
                return None

    def _read(self, function: Any, name: str, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Return what the host reads from the GPU: the value if it is known, else 0."""
        values = self._values(function, name, tensors, [], args, kwargs)
        source = next(tensor for tensor in tensors if isinstance(tensor, FakeTensor))
        with unset_fake_temporarily():
            shape = (1, source.ndim) if name == "nonzero" else source.shape
            value = values[0] if values else torch.zeros(shape, dtype=kwargs.get("dtype") or source.dtype)
        if name == "nonzero":
            result = torch.empty(value.shape, dtype=torch.int64, device=DEVICE)
            result.known = value.long()
            self._hold([], [result])
            return result
        if values or name == "_to_copy":
            return value
        return {"copy_": args[0], "equal": False}.get(name, 0.0 if source.is_floating_point() else 0)


def _random_rows(result: Tensor) -> Tensor | None:
    """Return random numbers of which no two rows are equal, in little memory; None for what is no text."""
    if not result.is_floating_point() or result.ndim not in (2, 3):
        return None
    with unset_fake_temporarily():
        line = torch.rand(math.prod(result.shape[:-1]) + result.shape[-1]).to(result.dtype)
        return line.as_strided(result.shape, (*([result.shape[1]] * (result.ndim - 2)), 1, 1))


def _replace_weights(module: Any, new: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
    """Replace each parameter and buffer by a new one, as `Module._apply` does, which refuses fake tensors."""
    for part in module.modules():
        for name, weight in part._parameters.items():
            part._parameters[name] = None if weight is None else torch.nn.Parameter(new(weight), False)
        for name, buffer in part._buffers.items():
            part._buffers[name] = None if buffer is None else new(buffer)
    return module


class FakeBench(Bench):
    """A pipeline at full size with fake weights on a GPU, run as the benchmarks on a GPU run it."""

    def __init__(self, architecture: str) -> None:
        self.case = {"size": SIZES[architecture], "guidance_scale": GUIDANCE.get(architecture, 7.5)}
        self.transformer = architecture in architectures.TRANSFORMERS
        dtype = torch.bfloat16 if self.transformer else torch.float16
        self.pipe = architectures.build(architecture, size=self.case["size"], device="meta", dtype=dtype)
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        for part in self.pipe.components.values():
            if isinstance(part, torch.nn.Module):
                _replace_weights(part, lambda weight: FakeTensor(self._fake, weight.data, DEVICE))

    def count(self, mode: str, images: int) -> dict[str, Any]:
        """Return the counts of one call of the pipeline in a mode of the benchmarks' worker."""
        counter, marks, live = GpuCounter(), [], []

        def mark(*_: Any) -> None:
            marks.append(Counter(counter.counts))
            live.append(counter.live)
            counter.in_text = False

        denoiser = self.pipe.transformer if self.transformer else self.pipe.unet
        hooks = [part.register_forward_pre_hook(mark) for part in (denoiser, self.pipe.vae.decoder)]
        try:
            with (
                # which reads number by number
                mock.patch.object(FakeTensor, "tolist", lambda tensor: tensor.cpu().tolist()),
                mock.patch.object(Tensor, "pin_memory", Tensor.clone),
                mock.patch.object(torch.nn.Module, "_apply", _replace_weights),
                mock.patch.object(torch.cuda, "synchronize", counter.wait),
                torch.no_grad(),
                self._fake,
                counter,
                FusedAttention(counter),
            ):
                getattr(self, mode)(3, images)
        finally:
            for hook in hooks:
                hook.remove()
        second, third, total = marks[1], marks[2], counter.counts
        step = {name: third[name] - second[name] for name in total}
        start = {name: second[name] - step[name] for name in total}
        end = {name: total[name] - third[name] - step[name] for name in total}
        return {"start": start, "step": step, "end": end, "live": live[1:], "peak": counter.peak}


def cost_rows(architecture: str, cases: Sequence[tuple[str, int]] = CASES) -> list[dict[str, Any]]:
    """Return the probe's cost on an architecture for pairs of a mode and a number of images, memory in MiB an image."""
    bench, of_bare, rows = FakeBench(architecture), dict[int, Any](), []
    for mode, images in cases:
        bare = of_bare[images] = of_bare.get(images) or bench.count("bare", images)
        counts = bench.count(mode, images)
        row = {"architecture": architecture, "mode": mode, "images": images, "bare_step": bare["step"]}
        for part in ("start", "step", "end"):
            row[part] = {name: counts[part][name] - bare[part][name] for name in bare[part]}
        held = max(more - less for more, less in zip(counts["live"], bare["live"]))
        for name, size in {"held": held, "peak": counts["peak"] - bare["peak"]}.items():
            row[f"{name}_mib"] = round(size / 2**20 / images, 2)
        rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.launches", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--architecture", choices=ARCHITECTURES, nargs="+", default=ARCHITECTURES)
    parser.add_argument("--mode", choices=("words", "captures"), nargs="+", default=("words", "captures"))
    parser.add_argument("--images", type=int, choices=(1, 12), nargs="+", default=(1, 12))
    asked = parser.parse_args(argv)
    cases = [(mode, images) for mode, images in CASES if mode in asked.mode and images in asked.images]
    rows = [row for name in asked.architecture for row in cost_rows(name, cases)]
    print(launches_table(rows), end="")
    if len(rows) == len(ARCHITECTURES) * len(CASES):  # nothing was left out
        date = datetime.datetime.now(datetime.UTC).date().isoformat()
        record = {"benchmark": "launches", "version": 1, "date": date, "versions": versions(), "cases": rows}
        (RESULTS / "launches.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
