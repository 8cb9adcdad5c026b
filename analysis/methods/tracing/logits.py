"""Logits of networks as outcomes of traced images: CLIP between two texts, a classifier between two of its classes.

Both are log-odds in natural logarithms, positive towards the first of the two, as the verdict is on toyworld's models.
A network that reads gender has errors and leanings of its own: what is traced is its reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.features.observer import of_toyworld
from analysis.observe.features.registry import FEATURES, Feature
from analysis.observe.features.weights import description, identity, locate
from analysis.study import contrasts
from probes.config.schema import Config
from probes.errors import UserError
from probes.models.weights import deterministic, pick_device
from probes.prompts.grammar.english import article

CLIP, CLASSIFIER = "clip", "classifier"
NETWORKS = (CLIP, CLASSIFIER)
VERSION = "logits/1"
BATCH = 16  # images that a network sees at a time
CLASSES = "measure.logits.classes"
_CLASSIFIER = Feature(
    name=CLASSIFIER,
    library="timm",
    architecture="",  # stands in its folder
    weights="",
    readout="logits",
    field="measure.logits.classifier",
)


def require_networks(names: Sequence[str], config: Config) -> None:
    """Refuse outcomes whose network, weights or classes are not to be had, before an image is read."""
    if CLASSIFIER in names:
        if not config.measure.logits.classifier:
            raise UserError(
                f"{_CLASSIFIER.field}: expected the classifier whose logit is asked for in measure.outcomes, found"
                " none: name a folder in timm's layout (config.json and model.safetensors), or take `classifier` out"
            )
        class_numbers(_network(CLASSIFIER, config)[1], config.measure.logits.classes)
    if CLIP in names:
        _network(CLIP, config, fetch=False)


def _network(name: str, config: Config, *, fetch: bool = True) -> tuple[Feature, Path]:
    """A network and where its weights are."""
    feature, weights = _CLASSIFIER, config.measure.logits.classifier or ""
    if name == CLIP:
        feature = FEATURES[CLIP]
        usual = TOYWORLD if of_toyworld(config) else feature.weights
        weights = config.observe.feature_weights.get(CLIP) or usual
    return feature, locate(feature, weights, fetch=fetch)  # type: ignore[return-value]


def compared_texts(config: Config) -> Sequence[str]:
    """The two texts that CLIP compares an image with."""
    words = [config.indicators[name].word for name in contrasts(config)[0]]
    return config.measure.logits.texts or [f"a photo of {article(word)} {word}" for word in words]


def class_numbers(path: Path, classes: Sequence[int | str]) -> tuple[int, int]:
    """The numbers of two classes of a classifier, which may be given by name (``label_names`` of its file)."""
    if path.is_file():
        raise UserError(
            f"{_CLASSIFIER.field}: {path}: expected a folder with config.json, got a file: put it beside the"
            " description of its network"
        )
    described = description(_CLASSIFIER, path)
    count = described.get("num_classes")
    if not isinstance(count, int) or isinstance(count, bool) or count < 2:
        raise UserError(
            f"{_CLASSIFIER.field}: {path}: expected `num_classes` of at least 2 in config.json, got {count!r:.60}:"
            " state it there"
        )
    names = described.get("label_names")
    names = [str(name) for name in names] if isinstance(names, list) else []
    numbers = [names.index(one) if one in names else one for one in classes]
    for one, number in zip(classes, numbers):
        if not isinstance(number, int) or not 0 <= number < count:
            some = f", or {', '.join(names[:6])}{', …' if len(names) > 6 else ''}" if names else ""
            raise UserError(
                f"{CLASSES}: expected classes of {path}, 0 to {count - 1}{some}, got {one!r:.60}: name one of them"
            )
    if numbers[0] == numbers[1]:
        raise UserError(f"{CLASSES}: expected two classes, got {classes[0]!r:.60} twice: name another")
    return numbers[0], numbers[1]


def logits(name: str, images: Sequence[Image.Image], config: Config) -> tuple[NDArray[np.float64], str]:
    r"""The log-odds of images between two texts or two classes, and the version of weights and texts.

    Of CLIP :math:`\exp(s)\,(\cos(x, t_1) - \cos(x, t_2))` with the logit scale s that it was trained with: the
    log-odds of its softmax over the pair (Radford et al. 2021, section 3.1.2). Of a classifier :math:`z_1 - z_2`, the
    log-odds of the two classes whatever the others get.
    """
    feature, path = _network(name, config)
    compared = compared_texts(config) if name == CLIP else class_numbers(path, config.measure.logits.classes)
    device = pick_device(config.observe.device, "observe.device", prefer=config.generate.device)
    with deterministic(1):  # the same bits whatever the number of threads
        read = _reader(feature, path, tuple(compared), device)
        pixels = [np.asarray(image.convert("RGB")) for image in images]
        values = [read(pixels[start : start + BATCH]) for start in range(0, len(pixels), BATCH)]
    checkpoint = identity(feature, path)["checkpoint"][:12]
    return np.concatenate([[], *values]), f"{VERSION}, {checkpoint}, {' | '.join(map(str, compared))}"


@lru_cache(maxsize=2)
def _reader(feature: Feature, path: Path, compared: tuple, device):
    """Return the function that reads arrays ``(height, width, 3)``; kept, since every part of a trace asks it."""
    from analysis.observe.features.embedder import Embedder
    from analysis.observe.features.texts import encoded

    embedder = Embedder(feature, path, device)
    if feature is _CLASSIFIER:
        first, second = compared

        def difference(pixels: Sequence[np.ndarray]) -> NDArray[np.float64]:
            values = embedder(pixels).double().cpu()
            return (values[:, first] - values[:, second]).numpy()

        return difference
    texts = _unit(encoded(embedder, path, compared).double().numpy())
    scale = float(embedder.model.logit_scale.detach().exp())
    return lambda pixels: scale * _unit(embedder(pixels).double().cpu().numpy()) @ (texts[0] - texts[1])


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their length."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
