"""How long SSIM and Diff. Pix. take: ``python -m tests.benchmarks.pixels [--size 512] [--triplets 20]``.

Pictures of triplets, compared two by two: here (`analysis.metrics.pixels`), and beside it by scikit-image's
`structural_similarity` with its map and OpenCV's Otsu threshold, outer contours and their areas, pair by pair. Both
start from the same decoded pictures in colour, turn each to grey once, and run in turn on one thread; of so many
repetitions of a triplet each side's fastest counts, by processor time, since other work on the machine takes the caches
away. The ratio is that of these, triplet by triplet: its median and quartiles. The pictures are textures of three
kinds, of which the members of a triplet share most: noise of several scales, flat areas with hard edges and extreme
contrasts, and smooth ramps. Prints one JSON line, with the largest difference between both.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from itertools import combinations

import cv2
import numpy as np
from PIL import Image
from scipy import ndimage
from skimage.metrics import structural_similarity

from analysis.metrics.pixels import Picture, PicturePair, diff_pix_score, ssim_score
from analysis.metrics.ssim import grey

BAR_RATIO, BAR_SIZE, TOLERANCE = 8, 512, 1e-4
Scores = list[tuple[float, float]]


def texture(kind: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """A colour picture, shape (size, size, 3), uint8."""
    if kind == 0:  # noise of several scales
        values = sum(
            scale * ndimage.gaussian_filter(rng.normal(size=(size, size, 3)), (scale, scale, 0))
            for scale in (1, 3, 12)
        )
        values = 128 + 50 * values / np.std(values)
    elif kind == 1:  # flat areas, of which some are black and white
        values = np.full((size, size, 3), float(rng.integers(256)))
        for _ in range(25):
            (top, left), (height, width) = rng.integers(0, size, 2), rng.integers(size // 16, size // 3, 2)
            values[top : top + height, left : left + width] = rng.choice([0, 255, *rng.integers(0, 256, 3)])
    else:  # ramps
        y, x = np.mgrid[:size, :size] / size
        slopes = rng.uniform(-255, 255, (2, 3))
        values = rng.uniform(0, 255, 3) + y[..., None] * slopes[0] + x[..., None] * slopes[1]
    return np.clip(values, 0, 255).astype(np.uint8)


def triplet(number: int, size: int) -> list[Image.Image]:
    """Three pictures that share most: each has an area of another texture, and a little noise."""
    rng = np.random.default_rng(number)
    first, other = (texture(kind % 3, size, rng) for kind in (number, number + 1))
    pictures = []
    for _ in range(3):
        member = first.astype(int)
        for _ in range(3):
            (top, left), side = rng.integers(0, size // 2, 2), int(rng.integers(size // 16, size // 2))
            member[top : top + side, left : left + side] = other[top : top + side, left : left + side]
        member = np.clip(member + rng.integers(-3, 4, member.shape), 0, 255).astype(np.uint8)
        pictures.append(Image.fromarray(member))
    return pictures


def here(pictures: list[Image.Image]) -> Scores:
    """SSIM and Diff. Pix. of every pair, as the measure stage computes them."""
    members = list(map(Picture, pictures))
    pairs = [PicturePair(first, second) for first, second in combinations(members, 2)]
    return [(ssim_score(pair).value, diff_pix_score(pair).value) for pair in pairs]


def libraries(pictures: list[Image.Image]) -> Scores:
    """The same by scikit-image and OpenCV."""
    scores = []
    for first, second in combinations(list(map(grey, pictures)), 2):
        score, full = structural_similarity(first, second, data_range=255, win_size=7, full=True)
        difference = np.rint(255 * np.clip(1 - full, 0, 1)).astype(np.uint8)
        _, mask = cv2.threshold(difference, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        kept = [contour for contour in contours if cv2.contourArea(contour) > 40]
        filled = cv2.drawContours(np.zeros_like(mask), kept, -1, 1, cv2.FILLED)
        scores.append((float(score), 100 * cv2.countNonZero(filled) / filled.size))
    return scores


def timed(
    function: Callable[[list[Image.Image]], Scores], pictures: list[Image.Image]
) -> tuple[float, Scores]:
    """Processor seconds, and what is returned."""
    start = time.process_time()
    scores = function(pictures)
    return time.process_time() - start, scores


def run(size: int, triplets: int, repetitions: int) -> dict[str, float]:
    """Pairs per second of both, their ratio, and by how much they differ."""
    seconds = np.full((triplets, 2), np.inf)
    differences = []
    for fastest in seconds:
        pictures = triplet(len(differences), size)
        for _ in range(repetitions):
            (ours, scores), (theirs, expected) = timed(here, pictures), timed(libraries, pictures)
            np.minimum(fastest, (ours, theirs), out=fastest)
        differences.append(np.abs(np.array(scores) - expected).max(axis=0))
    ours, theirs = seconds.T
    low, ratio, high = np.quantile(theirs / ours, [0.25, 0.5, 0.75])
    ssim_differs, area_differs = np.max(differences, axis=0)
    return {
        "pairs_per_second": round(3 / np.median(ours), 1),
        "pairs_per_second_libraries": round(3 / np.median(theirs), 1),
        "ratio": round(ratio, 2),
        "ratio_low": round(low, 2),
        "ratio_high": round(high, 2),
        "ratio_of_sums": round(theirs.sum() / ours.sum(), 2),
        "ssim_differs": float(ssim_differs),
        "diff_pix_differs": float(area_differs),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--size", type=int, default=BAR_SIZE, help="side of the pictures in pixels")
    parser.add_argument("--triplets", type=int, default=21)
    parser.add_argument("--repetitions", type=int, default=9, help="of each triplet")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    figures = run(options.size, options.triplets, options.repetitions)
    machine = {
        "load": round(os.getloadavg()[0], 1),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "opencv": cv2.__version__,
    }
    bar = {"bar_ratio": BAR_RATIO, "bar_size": BAR_SIZE, "tolerance": TOLERANCE}
    print(json.dumps({"benchmark": "pixels"} | vars(options) | machine | figures | bar))


if __name__ == "__main__":
    main()
