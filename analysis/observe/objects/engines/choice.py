"""Choice of the observer of objects."""

from __future__ import annotations

from analysis.observe.checkpoints import TOYWORLD
from analysis.observe.features.observer import of_toyworld
from analysis.observe.objects.engines.detr import DetrObserver
from analysis.observe.objects.engines.grounded import MODELS, GroundedObserver
from analysis.observe.objects.engines.toyworld import CheckerObserver, ScenesObserver
from analysis.observe.objects.observer import ObjectObserver
from probes import toyworld
from probes.config.schema import Config
from probes.errors import UserError
from probes.toyworld.draw import SIZE

_NAME = (
    "`observe.detector` (such as groundingdino_swint_ogc.pth) and `observe.segmenter` (such as"
    " sam_vit_h_4b8939.pth)"
)
_LINES = "write `detector: IDEA-Research/grounding-dino-tiny` and `segmenter: facebook/sam-vit-base` under `observe:`"
_BY_ENGINE: dict[str, type[ObjectObserver]] = {
    one.engine_name: one for one in (CheckerObserver, ScenesObserver, DetrObserver)
}


def object_observer(config: Config) -> tuple[ObjectObserver | None, str]:
    """The observer of objects that a configuration asks for, or none and why; loads and fetches nothing."""
    settings = config.observe
    if not settings.objects:
        return None, "`observe.objects` is false"
    if settings.engine in _BY_ENGINE:
        return _BY_ENGINE[settings.engine](config), ""
    named = [kind for kind in MODELS if getattr(settings, kind)]
    if settings.engine == "auto" and not named:
        if config.model not in toyworld.MODELS:
            return None, f"no detector for the images of this model: {_LINES}"
        if not of_toyworld(config):
            return None, f"toyworld's detectors know images of {SIZE} × {SIZE} pixels only: name {_NAME}"
        named, own = list(MODELS), settings.model_copy(update=dict.fromkeys(MODELS, TOYWORLD))
        config = config.model_copy(update={"observe": own})
    if len(named) < 2:
        raise UserError(f"observe: expected {_NAME}, got {' and '.join(named) or 'neither'} alone: name both")
    return GroundedObserver(config), ""
