"""The one training loop: AdamW, learning-rate schedule, moving average, time limit, log, checkpoints."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

# what learns of a model, what is stored of it, and the loss of each step, which is the one named ``loss``
Lessons = tuple[torch.nn.Module, torch.nn.Module, Callable[[int], dict[str, torch.Tensor]]]
CPU_HAS_BFLOAT16 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")


@contextmanager
def mixed_precision(device: str | torch.device) -> Iterator[None]:
    """Work in bfloat16 where that is safe and not slower: without AVX-512 it takes 8 times as long as float32.

    On a CPU attention is computed step by step: torch's fused kernel needs instructions in bfloat16 that a processor,
    or ``ATEN_CPU_CAPABILITY``, may leave out.
    """
    kind = torch.device(device).type
    with ExitStack() as stack:
        if kind != "cpu" or CPU_HAS_BFLOAT16:
            stack.enter_context(torch.autocast(kind, torch.bfloat16))
        if kind == "cpu" and CPU_HAS_BFLOAT16:
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield


@dataclass
class Budget:
    """Limits of a training run: ``steps`` at most, and ``minutes`` at most (0: no limit).

    The learning rate falls with the larger of both fractions, so a run cut short by the clock still ends annealed.
    """

    steps: int
    minutes: float = 0.0
    warmup: int = 100
    started: float = field(default_factory=time.monotonic)

    def fraction(self, step: int) -> float:
        """Part of the budget that is used, 0 to 1."""
        clock = (time.monotonic() - self.started) / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(step / self.steps, clock))

    def rate(self, step: int, fraction: float, floor: float = 0.02) -> float:
        """Factor on the learning rate: linear warm-up, then a cosine down to ``floor``."""
        cosine = 0.5 * (1 + math.cos(math.pi * fraction))
        return min(1.0, (step + 1) / self.warmup) * (floor + (1 - floor) * cosine)


class MovingAverage:
    """Exponential moving average of a module's parameters with the usual warm-up."""

    def __init__(self, module: torch.nn.Module, decay: float):
        self.decay, self.updates = decay, 0
        self.values = {name: value.detach().clone() for name, value in module.named_parameters()}

    @torch.no_grad()
    def update(self, module: torch.nn.Module) -> None:
        """Take one step towards the module's parameters."""
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        averages = list(self.values.values())
        torch._foreach_lerp_(averages, [value.detach() for value in module.parameters()], 1 - decay)

    @torch.no_grad()
    def copy_to(self, module: torch.nn.Module) -> None:
        """Overwrite the module's parameters with the average."""
        for name, value in module.named_parameters():
            value.copy_(self.values[name])


class Log:
    """One JSON line at the first and every ``every`` steps, to a file and the screen."""

    def __init__(self, path: Path, every: int = 50):
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.every, self.started = path.open("a"), every, time.monotonic()
        self.sums: dict[str, float | torch.Tensor] = {}
        self.count = 0

    def add(self, step: int, **values: float | torch.Tensor) -> None:
        """Add a step's values; the mean since the last line is written."""
        self.count += 1
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value  # a tensor is read when it is written
        if step != 1 and step % self.every:
            return
        row = {"step": step, "minutes": round((time.monotonic() - self.started) / 60, 2)}
        row |= {name: round(float(total) / self.count, 5) for name, total in self.sums.items()}
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()
        print(self.file.name.rsplit("/", 1)[-1], row, flush=True)
        self.sums, self.count = {}, 0


def train_loop(
    module: torch.nn.Module,
    loss_of: Callable[[int], dict[str, torch.Tensor]],
    budget: Budget,
    log: Log,
    learning_rate: float,
    weight_decay: float = 0.01,
    *,
    decay: float = 0.0,
    clip: float = 1.0,
    weights: Path | None = None,
    stored: torch.nn.Module | None = None,
    checkpoint: Path | None = None,
    further: bool = False,
    save_minutes: float = 5.0,
) -> int:
    """Run AdamW until the budget is used and return the number of steps taken, those of former sittings included.

    ``loss_of(step)`` gives a dict whose ``loss`` is minimised. With a ``decay`` the moving average of the parameters is
    what remains. Every ``save_minutes`` and at the end the weights of ``stored`` (as a rule the module) are written to
    ``weights``, and the state of training to ``checkpoint``, from which it goes on: with what is left of the budget or,
    if ``further``, with the whole of it once more.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(
        parameters, lr=learning_rate, weight_decay=weight_decay, betas=(0.9, 0.99), fused=True
    )
    average = MovingAverage(module, decay)
    step = _resume(checkpoint, module, optimiser, average) if checkpoint and checkpoint.exists() else 0
    before = step if further else 0
    saved, used = time.monotonic(), budget.fraction(step - before)
    while used < 1.0:
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * budget.rate(step - before, used)
        losses = loss_of(step)
        losses["loss"].backward()
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        used = budget.fraction(step - before)
        if decay:
            average.update(module)
        log.add(step, **{name: value.detach() for name, value in losses.items()})
        late = time.monotonic() - saved > 60 * save_minutes
        if weights and late:
            save_weights(stored or module, weights, overwrite=average.values if decay else {})
        if checkpoint and (late or used >= 1.0):
            _keep(checkpoint, step, module, optimiser, average)
        saved = time.monotonic() if late else saved
    if decay:
        average.copy_to(module)
    if weights:
        save_weights(stored or module, weights)
    return step


def batches(count: int, size: int, seed: int) -> Iterator[NDArray[np.intp]]:
    """Rows of ``count`` in random order, ``size`` at a time, for ever."""
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def save_weights(
    module: torch.nn.Module,
    path: Path,
    dtype: torch.dtype = torch.float32,
    overwrite: Mapping[str, torch.Tensor] | None = None,
) -> None:
    """Write a module's weights, those in ``overwrite`` instead of its own.

    A tensor that stands under several names, as heads do that layers share, is written once.
    """
    state, written, replaced = {}, set(), overwrite or {}
    for name, value in module.state_dict().items():
        if value.numel() and value.data_ptr() in written:
            continue
        written.add(value.data_ptr())
        value = replaced.get(name, value).detach()
        state[name] = value.to("cpu", dtype if value.is_floating_point() else value.dtype).contiguous()
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(state, path)


def _keep(
    path: Path, step: int, module: torch.nn.Module, optimiser: torch.optim.Optimizer, average: MovingAverage
) -> None:
    state = {"step": step, "weights": module.state_dict(), "optimiser": optimiser.state_dict()}
    partial = path.with_suffix(".part")
    torch.save(state | {"average": average.values, "updates": average.updates}, partial)
    partial.replace(path)


def _resume(
    path: Path, module: torch.nn.Module, optimiser: torch.optim.Optimizer, average: MovingAverage
) -> int:
    """Read a checkpoint into what is trained, and return its step."""
    state = torch.load(path, weights_only=True, map_location=next(module.parameters()).device)
    module.load_state_dict(state["weights"])
    optimiser.load_state_dict(state["optimiser"])
    average.values, average.updates = state["average"], state["updates"]
    return state["step"]
