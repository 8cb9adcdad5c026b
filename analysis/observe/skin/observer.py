"""The observer of skin tone: the mean colour of the skin of each image, and the Monk tones nearest to it.

All three readings are stored (`analysis.metrics.skin_tone`), so that another rule for the tables takes no looking. An
image without a face, or whose skin has no typology angle, has a row that says so; a grey one has no tone by any rule.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from analysis.metrics import illumination, skin_tone
from analysis.metrics.skin_tone import GREY, is_grey, read_skin
from analysis.observe.checkpoints import find
from analysis.observe.observer import Needs, StoredImage
from analysis.observe.skin.faces import FaceAlignment, require_library
from analysis.observe.skin.regions import FaceSkin, Region, SkinSource, ToyworldSkin, WholeImage
from analysis.observe.skin.trust import Trust
from probes.config.schema import Config
from probes.errors import UserError
from probes.models.devices import pick_device
from probes.prompts.diagnostic import is_diagnostic
from probes.runs import schemas as runs_schemas
from probes.runs.store import Run
from probes.toyworld import MODELS
from probes.toyworld.draw import SIZE

KIND = "attributes/skin_tone"
BATCH = 16  # images in one go; each is observed alone, so it alters nothing


class Illumination(Protocol):
    """Sets the light of an image right."""

    name: str

    def fields(self) -> Mapping[str, Any]:
        """Everything that alters what it does."""
        ...

    def load(self) -> None:
        """Load its models."""
        ...

    def corrected(self, image: np.ndarray, region: Region) -> np.ndarray:
        """Colours ``(n, 3)`` of the region as they would be in daylight; 8-bit, or floats from 0 to 1."""
        ...


@dataclass(frozen=True)
class AsItIs:
    """Leaves the colours alone."""

    name = ""

    def fields(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load(self) -> None:
        """Nothing to load."""

    def corrected(self, image: np.ndarray, region: Region) -> np.ndarray:
        """The pixels of the region."""
        return region.pixels


@dataclass(frozen=True)
class Estimated:
    """Takes the colour of the light from the whole image; leaves a black one alone."""

    name: illumination.Estimate
    adaptation: illumination.Adaptation

    def fields(self) -> dict[str, Any]:
        """The version, and what is scaled."""
        return {"version": illumination.VERSION, "adaptation": self.adaptation}

    def load(self) -> None:
        """Nothing to load."""

    def corrected(self, image: np.ndarray, region: Region) -> np.ndarray:
        """The pixels of the region under daylight of the same luminance."""
        white = illumination.estimated_white(image, self.name)
        if white is None:
            return region.pixels
        return illumination.under_daylight(region.pixels, white, self.adaptation)


@dataclass(frozen=True)
class Given:
    """The light is known."""

    illuminant: str
    adaptation: illumination.Adaptation

    @property
    def name(self) -> str:
        """As it is stored."""
        return f"given {self.illuminant}"

    def fields(self) -> dict[str, Any]:
        """The version, and what is scaled."""
        return {"version": illumination.VERSION, "adaptation": self.adaptation}

    def load(self) -> None:
        """Nothing to load."""

    def corrected(self, image: np.ndarray, region: Region) -> np.ndarray:
        """The pixels of the region under daylight."""
        white = illumination.white_of(self.illuminant)
        return illumination.under_daylight(region.pixels, white, self.adaptation)


@dataclass(frozen=True)
class Albedo:
    """Reads the albedo of the cheeks, by TRUST, in place of the pixels of the region."""

    trust: Trust
    name = "trust"

    def fields(self) -> dict[str, Any]:
        """The checksums of its files."""
        return self.trust.fields()

    def load(self) -> None:
        """Load the networks."""
        self.trust.load()

    def corrected(self, image: np.ndarray, region: Region) -> np.ndarray:
        """Albedo of the cheeks of the face."""
        assert region.landmarks is not None, "TRUST takes faces by their landmarks"
        return self.trust.albedo(image, region.landmarks)


@dataclass
class SkinToneObserver:
    """Stores one row per image; see :class:`analysis.observe.observer.Observer`.

    Parameters
    ----------
    config : Config
    source : SkinSource
        Finds the skin.
    light : Illumination
        Sets its light right.
    """

    config: Config
    source: SkinSource
    light: Illumination

    name = KIND
    schemas = MappingProxyType({KIND: runs_schemas.TONES})
    whole_triplets = False
    batch = BATCH

    def __str__(self) -> str:
        light = f"; light: {self.light.name}" if self.light.name else ""
        return f"skin tone: {self.source}{light}; nearest of the ten Monk tones"

    @cached_property
    def _device(self) -> str:
        return _device(self.config)

    @property
    def resolved(self) -> dict[str, Any]:
        """Return no resolved settings: another machine may hold the models in another place."""
        return {}

    def needs(self) -> Needs:
        """Device, size, time and libraries."""
        models = bool(self.source.parameters)
        trust = self.light.trust if isinstance(self.light, Albedo) else None
        names = [
            "triptych",
            "scikit-image",
            "opencv-python",
            *(["torch", "face-alignment"] if models else []),
        ]
        return Needs(
            device=self._device.partition(":")[0] if models else "cpu",
            parameters=self.source.parameters + (trust.parameters if trust else 0),
            seconds=self.source.seconds + (trust.seconds if trust else 0),
            versions={name: metadata.version(name) for name in names},
        )

    def fields(self) -> dict[str, Any]:
        """Region, light, mean, and the version of the arithmetic."""
        fields = {
            "version": skin_tone.VERSION,
            **self.source.fields(),
            "illumination": self.light.name,
            **{f"illumination.{name}": value for name, value in self.light.fields().items()},
            "mean": self.config.observe.skin_tone.mean,
        }
        prefixed = {f"observe.skin_tone.{name}": value for name, value in fields.items()}
        return {**prefixed, "observe.device": self.needs().device}

    def load(self) -> None:
        """Load what finds the skin and what sets its light right."""
        self.source.load()
        self.light.load()

    def observe(self, images: Sequence[StoredImage]) -> dict[str, list[dict[str, Any]]]:
        """One row per image: the colour of its skin and the tones, or why there are none."""
        there = [index for index, image in enumerate(images) if image.pixels is not None]
        regions = dict(zip(there, self.source.regions([_pixels(images[index]) for index in there])))
        rows = [self._row(image, regions.get(index)) for index, image in enumerate(images)]
        return {KIND: rows}

    def _row(self, image: StoredImage, region: Region | None) -> dict[str, Any]:
        if region is None:
            return {**image.key, **_without("unreadable", image.fault)}
        if region.status != "ok":
            return {**image.key, **_without(region.status, region.reason)}
        if is_grey(_pixels(image)):
            return {**image.key, **_without(GREY, f"{GREY}: 99 % of the picture's pixels have no colour")}
        tone = read_skin(self.light.corrected(_pixels(image), region), self.config.observe.skin_tone.mean)
        lightness, red, yellow = tone.lab
        return {
            **image.key,
            "status": GREY if tone.reason.startswith(GREY) else "no skin" if tone.tone is None else "ok",
            "reason": tone.reason or region.reason,
            "pixels": tone.pixels,
            **{"L": lightness, "a": red, "b": yellow},
            "ita": None if math.isnan(tone.ita) else tone.ita,
            **{name: getattr(tone, name) for name in ("tone", "tone_ciede2000", "tone_dalleval2023")},
            "illumination": self.light.name,
        }

    def record(self, run: Run) -> dict[str, Any]:
        """Return how tones were read, and of how many images, under ``attributes/skin_tone``."""
        statuses = Counter(
            status for table in run.part_tables(KIND, ["status"]) for status in table["status"].to_pylist()
        )
        return {
            KIND: {
                **{name.removeprefix("observe.skin_tone."): value for name, value in self.fields().items()},
                "versions": dict(self.needs().versions),
                "counts": dict(sorted(statuses.items())),
            }
        }


def _pixels(image: StoredImage) -> np.ndarray:
    assert image.pixels is not None, "only readable images are observed"
    return image.pixels


def _without(status: str, reason: str) -> dict[str, Any]:
    """A row of an image that has no colour of skin."""
    names = [name for name in runs_schemas.TONES.names[4:] if name not in ("status", "reason")]
    return {"status": status, "reason": reason, **dict.fromkeys(names), "pixels": 0, "illumination": ""}


def _device(config: Config) -> str:
    return str(pick_device(config.observe.device, "observe.device", prefer=config.generate.device))


def skin_observer(config: Config) -> tuple[SkinToneObserver | None, str]:
    """The observer of skin tone where a configuration asks for it; else none, and why.

    Returns
    -------
    observer, reason
        Without an observer and without a reason it was not asked for.

    Raises
    ------
    UserError
        It is asked for (``look: true``) and something that it needs is not there.
    """
    options = config.observe.skin_tone
    if options.look is False or not (options.look is True or is_diagnostic(config)):
        return None, ""
    try:
        return SkinToneObserver(config, _source(config), _light(config)), ""
    except UserError as error:
        if options.look is True:
            raise
        return None, str(error)


def _source(config: Config) -> SkinSource:
    options = config.observe.skin_tone
    region = options.region
    if region == "auto":
        bundled = config.model in MODELS and not {config.sampler.height, config.sampler.width} - {None, SIZE}
        region = "toyworld" if bundled and options.illumination != "trust" else "face-alignment"
    if region == "toyworld":
        return ToyworldSkin()
    if region == "image":
        return WholeImage()
    require_library()
    for kind in ("landmarks", "detector"):
        find(getattr(options, kind), f"observe.skin_tone.{kind}", fetch=False)
    return FaceSkin(FaceAlignment(options.landmarks, options.detector, _device(config)), options.skin)


def _light(config: Config) -> Illumination:
    options = config.observe.skin_tone
    if options.illumination == "none":
        return AsItIs()
    if options.illumination == "given":
        assert options.illuminant is not None, "checked with the configuration"
        return Given(options.illuminant, options.adaptation)
    if options.illumination == "trust":
        assert options.trust is not None, "checked with the configuration"
        return Albedo(Trust(options.trust, _device(config)))
    return Estimated(options.illumination, options.adaptation)
