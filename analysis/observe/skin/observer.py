"""The observer of skin tone: the mean colour of the skin of each image, and the Monk tones nearest to it.

All three readings are stored (`analysis.metrics.skin_tone`), so that another rule for the tables takes no looking. An
image without a face, or whose skin has no typology angle, has a row that says so; a grey one has no tone by any rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from analysis.metrics import illumination, skin_tone
from analysis.metrics.skin_tone import GREY, is_grey, read_skin
from analysis.observe.features.observer import of_toyworld
from analysis.observe.observer import ImageObserver, StoredImage
from analysis.observe.skin.faces import FaceSkin
from analysis.observe.skin.regions import Region, SkinSource, ToyworldSkin
from analysis.observe.skin.trust import Trust
from probes.config.schema import Config
from probes.errors import UserError
from probes.models.weights import pick_device
from probes.prompts.diagnostic import is_diagnostic
from probes.runs import schemas as runs_schemas
from probes.runs.run import Run

KIND = "attributes/skin_tone"
BATCH = 16  # images in one go; each is observed alone, so it alters nothing


class SkinToneObserver(ImageObserver):
    """Stores one row per image; its model is a `SkinSource`; see :class:`analysis.observe.observer.ImageObserver`.

    ``observe.skin_tone`` says what sets the light right: an estimate takes the colour of the light from the whole
    image, and leaves a black one alone; `trust` reads the albedo of the cheeks in the place of the region's pixels.
    """

    schema = runs_schemas.TONES

    def __init__(self, config: Config, source: SkinSource, trust: Trust | None = None):
        super().__init__(config, source, KIND, BATCH)
        self.options, self.trust = config.observe.skin_tone, trust

    def __str__(self) -> str:
        light = f"; light: {self.light}" if self.light else ""
        return f"skin tone: {self.model}{light}; nearest of the ten Monk tones"

    @property
    def light(self) -> str:
        """What sets the light right, as it is stored; empty where nothing does."""
        kind = self.options.illumination
        return {"none": "", "given": f"given {self.options.illuminant}"}.get(kind, kind)

    @cached_property
    def device(self) -> Any:
        """The torch device; the CPU where there are no models."""
        return super().device if self.files else pick_device("cpu")

    @property
    def files(self) -> list[Path]:
        """Weights of what finds the skin and sets its light right."""
        return [*self.model.files, *(self.trust.files if self.trust else ())]

    def _settings(self) -> dict[str, Any]:
        """Region, light with version and what is scaled or the checksums of TRUST's files, mean, and version."""
        light = {"version": illumination.VERSION, "adaptation": self.options.adaptation} if self.light else {}
        light = self.trust.fields() if self.trust else light
        return {
            "version": skin_tone.VERSION,
            **self.model.identity(),
            "illumination": self.light,
            **{f"illumination.{name}": value for name, value in light.items()},
            "mean": self.options.mean,
        }

    def fields(self) -> dict[str, Any]:
        """Every setting of `observe.skin_tone` that alters a tone, and the device."""
        settings = {f"observe.skin_tone.{name}": value for name, value in self._settings().items()}
        return {**settings, "observe.device": self.device_type}

    def load(self) -> None:
        """Load what finds the skin and what sets its light right."""
        for model in filter(None, (self.model, self.trust)):
            model.load(self.device)

    def read(self, images: Sequence[StoredImage]) -> Sequence[Region]:
        """The skin of each image."""
        return self.model.regions([image.pixels for image in images])

    def rows(self, image: StoredImage, seen: Region | None) -> list[dict[str, Any]]:
        """One row per image: the colour of its skin and the tones, or why there are none."""
        if seen is None:
            return [_without("unreadable", image.fault)]
        if seen.status != "ok":
            return [_without(seen.status, seen.reason)]
        if is_grey(image.pixels):
            return [_without(GREY, f"{GREY}: 99 % of the picture's pixels have no colour")]
        tone = read_skin(self._in_daylight(image.pixels, seen), self.options.mean)
        lightness, red, yellow = tone.lab
        return [
            {
                "status": GREY if tone.reason.startswith(GREY) else "no skin" if tone.tone is None else "ok",
                "reason": tone.reason or seen.reason,
                "pixels": tone.pixels,
                **{"L": lightness, "a": red, "b": yellow},
                "ita": None if math.isnan(tone.ita) else tone.ita,
                **{name: getattr(tone, name) for name in ("tone", "tone_ciede2000", "tone_dalleval2023")},
                "illumination": self.light,
            }
        ]

    def _in_daylight(self, image: np.ndarray, region: Region) -> np.ndarray:
        """Colours ``(n, 3)`` of the region as they would be in daylight; 8-bit, or floats from 0 to 1."""
        if self.trust is not None:
            return self.trust.albedo(image, region.landmarks)
        white = None
        if self.options.illuminant is not None:
            white = illumination.white_of(self.options.illuminant)
        elif self.light:
            white = illumination.estimated_white(image, self.options.illumination)
        if white is None:
            return region.pixels
        return illumination.adapted(region.pixels, white, adaptation=self.options.adaptation)

    def record(self, run: Run) -> dict[str, Any]:
        """Return how tones were read, under ``attributes/skin_tone``."""
        return {KIND: {**self._settings(), "observe.device": self.device_type, "versions": self.versions}}


def _without(status: str, reason: str) -> dict[str, Any]:
    """A row of an image that has no colour of skin."""
    names = [name for name in runs_schemas.TONES.names[4:] if name not in ("status", "reason")]
    return {"status": status, "reason": reason, **dict.fromkeys(names), "pixels": 0, "illumination": ""}


def skin_observer(config: Config) -> tuple[SkinToneObserver | None, str]:
    """The observer of skin tone where a configuration asks for it; else none, and why (nothing: not asked for)."""
    options = config.observe.skin_tone
    if options.look is False or not (options.look is True or is_diagnostic(config)):
        return None, ""
    try:
        trust = Trust(options.trust) if options.trust else None
        return SkinToneObserver(config, _source(config), trust), ""
    except UserError as error:
        if options.look is True:
            raise
        return None, str(error)


def _source(config: Config) -> SkinSource:
    options = config.observe.skin_tone
    bundled = of_toyworld(config) and options.illumination != "trust"
    if options.region == "toyworld" or (options.region == "auto" and bundled):
        return ToyworldSkin()
    return SkinSource() if options.region == "image" else FaceSkin(options.landmarks, options.detector)
