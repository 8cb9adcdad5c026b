"""Count of the GPU work that a probe adds to each step, without a GPU: ``python -m tests.benchmarks.launches``.

The pipelines of `tests.benchmarks.architectures` at full size and in half precision hold fake tensors (torch's
`FakeTensorMode`), which have shapes, strides and the device "cuda:0" but no memory, so that code takes the path that it
takes on a GPU. A `TorchDispatchMode` sees every aten operation below autograd, as the pipelines run it (`no_grad`):

- *dispatches*: operations that reach the mode, on either device, views among them: what the host does;
- *launches*: dispatches that start work on the GPU: all but views, allocations without values, and operations whose
  result is empty or lies on the CPU. A convolution, a norm or a softmax counts as one, whatever kernels it takes. A copy
  between CPU and GPU counts as one. `scaled_dot_product_attention` is one dispatch and one launch, as its fused
  kernels are, in the model as in the probe, and its result lies in memory as theirs does (heads behind positions);
- *bytes touched*: of the inputs and results of every launch, where an expanded tensor counts what its memory holds;
- *allocated*: bytes of new results on the GPU; *held*: what lives as the pipeline returns; *peak*: the most at once;
- *synchronisations*: where the host waits: reading a value (`item`, `bool`, `nonzero`, `equal`), copies to the CPU, and
  copies from it unless `non_blocking`.

A value that is read is the right one where it follows from small tensors that came from the CPU (timesteps, token ids,
positions), else 0; tensors are found equal.
What the probe adds is the difference to the bare pipeline: at the start (until the denoiser is first called), in each
step (the mean of those after the first), and at the end (after the last step: the decoder, and the block's end).
"""

from __future__ import annotations

import functools
import math
import weakref
from collections import Counter
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from hooks import Probe
from tests.benchmarks import architectures
from tests.benchmarks.worker import PAIRS, PROMPT, SHARED, WORDS

DEVICE = torch.device("cuda:0")
SIZES = {"sd14": 512, "sdxl": 1024, "sd3": 1024, "flux": 1024}  # pixels
SMALL = 2**16  # numbers of a tensor whose values are followed
_NO_WORK = {"empty", "empty_strided", "new_empty", "new_empty_strided", "empty_like", "_unsafe_view", "lift_fresh"}
_READS = {"_local_scalar_dense", "equal", "nonzero", "is_nonzero"}


class FusedAttention(TorchFunctionMode):
    """Gives `scaled_dot_product_attention` on fake tensors as one operation, as the fused kernels run."""

    def __init__(self, counter: GpuCounter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return an empty tensor in the layout of the fused kernels."""
        kwargs = kwargs or {}
        if function is not F.scaled_dot_product_attention:
            return function(*args, **kwargs)
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        query, value = tensors[0], tensors[2]
        with self._counter.paused():
            rows, heads, positions, _ = query.shape
            result = query.new_empty(rows, positions, heads, value.shape[-1]).transpose(1, 2)
        self._counter.launch(tensors, [result])
        return result


class GpuCounter(TorchDispatchMode):
    """Counts of what was run on fake GPU tensors while this was entered."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.live = self.peak = 0
        self._storages: dict[int, list[int]] = {}  # by address: tensors that are alive, bytes
        self._references: set[weakref.ref[Tensor]] = set()
        self._off = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on real or fake tensors and count it."""
        kwargs = dict(kwargs or {})
        if self._off:
            return function(*args, **kwargs)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        name, device = function.overloadpacket.__name__, kwargs.get("device")
        kwargs.pop("pin_memory", None)
        to_cpu = device is not None and torch.device(device).type == "cpu"
        fake = any(isinstance(tensor, FakeTensor) for tensor in tensors)
        self.counts["dispatches"] += 1
        if not fake and (device is None or to_cpu):
            with unset_fake_temporarily():
                return function(*args, **kwargs)
        values = self._follow(function, tensors, args, kwargs)
        to_cpu = (to_cpu and name == "_to_copy") or (name == "copy_" and not isinstance(args[0], FakeTensor))
        if name in _READS or to_cpu:
            self.counts["launches"] += 1
            return self._read(name, function, args, kwargs, values)
        result = function(*args, **kwargs)
        results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if name in ("copy_", "_to_copy") and not all(isinstance(tensor, FakeTensor) for tensor in tensors):
            waits = not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
            self.counts["synchronisations"] += waits
        if values is not None:
            for one, known in zip(results, (v for v in tree_leaves(values) if isinstance(v, Tensor)), strict=True):
                one.known = known
        if function.is_view or name in _NO_WORK:
            self._hold(results, tensors)
        else:
            self.launch(tensors, results, dispatches=0)
        return result

    def paused(self) -> Any:
        """Return a context in which nothing is counted."""
        return _Paused(self)

    def launch(self, tensors: list[Tensor], results: list[Tensor], dispatches: int = 1) -> None:
        """Count a kernel with these inputs and results."""
        self.counts["dispatches"] += dispatches
        if any(result.numel() for result in results) or not results:
            self.counts["launches"] += 1
            self.counts["touched"] += sum(map(_bytes, (*tensors, *results)))
        self._hold(results, tensors)

    def _follow(self, function: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Return the result on the CPU where the values of all tensors are known and few; else None."""
        known = [getattr(tensor, "known", None) if isinstance(tensor, FakeTensor) else tensor for tensor in tensors]
        if any(value is None or value.numel() > SMALL for value in known):
            for tensor in tensors[:1]:
                if function._schema.is_mutable:
                    tensor.known = None
            return None
        by_id = {id(tensor): value for tensor, value in zip(tensors, known)}
        moved = tree_map(lambda leaf: by_id.get(id(leaf), leaf), (args, kwargs))
        if "device" in moved[1]:
            moved[1]["device"] = torch.device("cpu")
        if not tensors and any(isinstance(leaf, int) and leaf > SMALL for leaf in tree_leaves(args)):
            return None
        if not tensors and math.prod(args[0] if args and isinstance(args[0], (list, tuple)) else [1]) > SMALL:
            return None
        with unset_fake_temporarily():
            return function(*moved[0], **moved[1])

    def _read(self, name: str, function: Any, args: Any, kwargs: Any, values: Any) -> Any:
        """Return what the host reads from the GPU: the value if it is known, else zeros."""
        waits = not (kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2]))
        self.counts["synchronisations"] += waits
        source = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, FakeTensor))
        if values is not None:
            if isinstance(values, Tensor) and name == "nonzero":
                with self.paused():
                    return torch.empty(values.shape, dtype=values.dtype, device=DEVICE)
            return values
        if name == "_local_scalar_dense":
            return torch.zeros((), dtype=source.dtype).item() if False else _zero(source.dtype)
        if name == "equal":
            return True
        with unset_fake_temporarily():
            if name == "copy_":
                return args[0].zero_()
            dtype = kwargs.get("dtype") or source.dtype
            if name == "_to_copy":
                return torch.zeros((), dtype=dtype).expand(source.shape).clone()
        with self.paused():
            return torch.empty((1, source.ndim), dtype=torch.int64, device=DEVICE)

    def _hold(self, results: list[Tensor], inputs: list[Tensor]) -> None:
        """Follow how long the memory of results is in use."""
        known = {tensor.untyped_storage()._cdata for tensor in inputs}
        before = {id(tensor) for tensor in inputs}
        for result in results:
            if id(result) in before or result.device.type != "cuda":
                continue
            storage = result.untyped_storage()
            key = storage._cdata
            if key in self._storages:
                self._storages[key][0] += 1
            elif key in known:
                continue  # a view of weights
            else:
                self._storages[key] = [1, storage.nbytes()]
                self.counts["allocated"] += storage.nbytes()
                self.live += storage.nbytes()
                self.peak = max(self.peak, self.live)
            self._references.add(weakref.ref(result, functools.partial(self._release, key)))

    def _release(self, key: int, reference: weakref.ref[Tensor]) -> None:
        self._references.discard(reference)
        entry = self._storages[key]
        entry[0] -= 1
        if not entry[0]:
            self.live -= entry[1]
            del self._storages[key]


class _Paused:
    def __init__(self, counter: GpuCounter) -> None:
        self._counter = counter

    def __enter__(self) -> None:
        self._before, self._counter._off = self._counter._off, True

    def __exit__(self, *error: Any) -> None:
        self._counter._off = self._before


def _zero(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else 0.0 if dtype.is_floating_point else 0


def _bytes(tensor: Tensor) -> int:
    """Return the bytes of a GPU tensor; 0 for one on the CPU."""
    if tensor.device.type != "cuda":
        return 0
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def fake_pipeline(architecture: str, mode: FakeTensorMode) -> Any:
    """Return a pipeline at full size whose weights are fake tensors on a GPU."""
    dtype = torch.bfloat16 if architecture in architectures.TRANSFORMERS else torch.float16
    pipe = architectures.build(architecture, size=SIZES[architecture], device="meta", dtype=dtype)
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            part.requires_grad_(False)
            for module in part.modules():
                for tensors in (module._parameters, module._buffers):
                    for name, tensor in tensors.items():
                        if tensor is not None:
                            fake = FakeTensor(mode, tensor.data, DEVICE)
                            is_weight = tensors is module._parameters
                            tensors[name] = torch.nn.Parameter(fake, False) if is_weight else fake
    return pipe


def count(pipe: Any, size: int, mode: str, images: int, fake: FakeTensorMode, steps: int = 3) -> dict[str, Any]:
    """Return the counts of one call of the pipeline in a mode ("bare", "words", "captures")."""
    prompts = [PROMPT.format(WORDS[row % 3]) for row in range(images)]
    transformer = getattr(pipe, "transformer", None)
    counter, marks = GpuCounter(), []

    def mark(*_: Any) -> None:
        marks.append(Counter(counter.counts))

    hook = (transformer or pipe.unet).register_forward_pre_hook(mark)
    probe = None
    more = {"prompts": prompts} if transformer is not None else {}
    if mode == "words":
        probe = Probe(pipe, sites="latent", word_maps=True, **more)
    elif mode == "captures":
        pairs = [(s + i, s + j) for s in range(0, images, 3) for i, j in PAIRS if s + j < images]
        shared = [(SHARED, SHARED)] * len(pairs)
        if transformer is not None:  # the last encoder is T5, whose prompt has no mark at its beginning
            last = [([position - 1 for position in SHARED],) * 2] * len(pairs)
            names = ("text", "text_2", "text_3")[: 3 if hasattr(pipe, "text_encoder_3") else 2]
            shared = {**dict.fromkeys(names[:-1], shared), names[-1]: last}
        probe = Probe(pipe, pairs=pairs or [(0, 0)], shared_positions=shared or None, **more)
    try:
        with torch.no_grad(), fake, counter, FusedAttention(counter):
            if probe is not None:
                probe.__enter__()
            output = pipe(
                prompts,
                num_inference_steps=steps,
                guidance_scale=3.5 if "Flux" in type(pipe).__name__ else 7.5,
                generator=[torch.Generator().manual_seed(row // 3) for row in range(images)],
                height=size,
                width=size,
                output_type="np",
            )
            del output
            held = counter.live
            if probe is not None:
                probe.__exit__(None, None, None)
    finally:
        hook.remove()
    mark()
    step = {key: (marks[-2][key] - marks[1][key]) / (steps - 2) for key in marks[-1]}
    end = {key: marks[-1][key] - marks[-2][key] - step[key] for key in step}
    return {"start": dict(marks[0]), "step": step, "end": end, "held": held, "peak": counter.peak}


if __name__ == "__main__":
    import sys
    import time

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    for architecture in sys.argv[1].split(","):
        started = time.time()
        pipe = fake_pipeline(architecture, fake)
        print(architecture, "built", time.time() - started)
        for images in (1, 12):
            bare = None
            for mode in ("bare", "words", "captures"):
                started = time.time()
                found = count(pipe, SIZES[architecture], mode, images, fake)
                bare = bare or found
                print(images, mode, round(time.time() - started, 1), found if mode == "bare" else "")
                if mode != "bare":
                    for key in ("start", "step", "end"):
                        print("   ", key, {k: v - bare[key].get(k, 0) for k, v in found[key].items()})
                    print("   ", {k: (found[k] - bare[k]) / 2**20 / images for k in ("held", "peak")})
