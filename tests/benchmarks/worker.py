"""One process of a benchmark: holds a pipeline and draws with it as told, line by line.

Run as a script with the interpreter of either environment. The argument is a JSON object: where the pipeline comes
from (`folder`, or `build`: arguments of `tests.benchmarks.architectures.build`) and what to draw (`size`, `steps`,
`batch`, `guidance_scale`, `device`, `dtype`, `threads`). Each line on stdin is a JSON object with a `mode`, and
optionally `steps` and `batch` in place of the case's own; each answer is a line of JSON: seconds, on a GPU the peak
memory, and the largest difference of the images from the latest bare ones of the same process and settings.

Modes: `bare`; `words`, the probe with word maps alone; `captures`, every site compared within each triplet; `default`,
both, as a run uses the probe; `daam`, daam 0.2.0's trace and its global heat map, prompt by prompt, since it cannot do
more at once. What a mode computes after the pipeline has returned is inside its time.
"""

import json
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch

WORDS = ("person", "woman", "man")
PROMPT = "a {} holding an umbrella"
PAIRS = ((0, 1), (0, 2), (1, 2))
# positions of "a", "holding", "an", "umbrella": one token each in the tests' vocabulary
SHARED = [1, 3, 4, 5]


class Bench:
    """A pipeline and what to draw with it."""

    def __init__(self, case):
        self.case = case
        self.device, self.dtype = case["device"], getattr(torch, case["dtype"])
        if case.get("threads"):
            torch.set_num_threads(case["threads"])
        if case.get("folder"):
            from daam_side import load

            self.pipe = load(case["folder"], self.dtype, self.device)
        else:
            from tests.benchmarks.architectures import build

            self.pipe = build(**case["build"], device=self.device, dtype=self.dtype)
        self.transformer = getattr(self.pipe, "transformer", None) is not None
        self.reference = {}

    def run(self, mode, steps, batch):
        """Draw once and measure."""
        cuda = self.device.startswith("cuda")
        if cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            torch.cuda.synchronize()
        started = time.perf_counter()
        images = getattr(self, mode)(steps, batch)
        if cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - started
        if mode == "bare":
            self.reference[steps, batch] = images
        return {
            "mode": mode,
            "seconds": seconds,
            "peak_mib": torch.cuda.max_memory_allocated() / 2**20 if cuda else None,
            "image_difference": difference(images, self.reference.get((steps, batch))),
        }

    def bare(self, steps, batch):
        prompts = [PROMPT.format(WORDS[row % 3]) for row in range(batch)]
        return self._draw(prompts, [row // 3 for row in range(batch)], steps)

    def words(self, steps, batch):
        from hooks import Probe

        with Probe(self.pipe, sites="latent", word_maps=True, **self._prompts(batch)) as probe:
            images = self.bare(steps, batch)
        self._check(probe)
        return images

    def default(self, steps, batch):
        return self.captures(steps, batch, word_maps=True)

    def captures(self, steps, batch, word_maps=False):
        from hooks import Probe

        pairs = [(start + i, start + j) for start in range(0, batch, 3) for i, j in PAIRS]
        shared = [(SHARED, SHARED)] * len(pairs)
        if self.transformer:  # the last encoder is T5, whose prompt has no mark at its beginning
            last = [([position - 1 for position in SHARED],) * 2] * len(pairs)
            names = ("text", "text_2", "text_3")[: len(self._encoders())]
            shared = {**dict.fromkeys(names[:-1], shared), names[-1]: last}
        more = self._prompts(batch)
        with Probe(self.pipe, pairs=pairs, shared_positions=shared, word_maps=word_maps, **more) as probe:
            images = self.bare(steps, batch)
        assert probe.similarity
        if word_maps:
            self._check(probe)
        return images

    def _encoders(self):
        names = ("text_encoder", "text_encoder_2", "text_encoder_3")
        return [name for name in names if getattr(self.pipe, name, None) is not None]

    def _prompts(self, batch):
        """What a run tells the probe where several encoders read a prompt."""
        if not self.transformer:
            return {}
        return {"prompts": [PROMPT.format(WORDS[row % 3]) for row in range(batch)]}

    def _check(self, probe):
        assert len(probe.maps.heat(0)) >= 5  # tokens of the prompt's words

    def daam(self, steps, batch):
        from daam_side import traced

        images = []
        for row in range(batch):
            with traced(self.pipe, self.case["size"]) as tracer:
                images.append(self._draw([PROMPT.format(WORDS[row % 3])], [row // 3], steps))
                tracer.compute_global_heat_map().heat_maps.cpu()
        return np.concatenate(images)

    def _draw(self, prompts, seeds, steps):
        return self.pipe(
            prompts,
            num_inference_steps=steps,
            guidance_scale=self.case["guidance_scale"],
            generator=[torch.Generator().manual_seed(seed) for seed in seeds],
            height=self.case["size"],
            width=self.case["size"],
            output_type="np",
        ).images


def difference(images, reference):
    """Largest absolute difference of two arrays of images; None without a reference, 0 where both are NaN."""
    if reference is None:
        return None
    if np.array_equal(images, reference, equal_nan=True):
        return 0.0
    return float(np.abs(images.astype(np.float64) - reference).max())


def main(argument):
    """Answer until stdin ends."""
    bench = Bench(json.loads(argument))
    case = bench.case
    from daam_side import versions

    print(json.dumps({"ready": True, "versions": versions()}), flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            answer = bench.run(
                told["mode"], told.get("steps", case["steps"]), told.get("batch", case["batch"])
            )
        except torch.cuda.OutOfMemoryError as error:
            bench.reference.clear()
            answer = {"mode": told["mode"], "error": "out of memory", "detail": str(error)[:200]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    here = Path(__file__).resolve()
    sys.path[:0] = [str(here.parent), str(here.parents[2])]
    with torch.inference_mode():
        main(sys.argv[1])
