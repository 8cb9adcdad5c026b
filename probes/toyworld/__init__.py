from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

WEIGHTS = Path(__file__).parent / "weights"
SHARED = "toyworld-null"  # holds the autoencoder's weights, which are the same in all
WORK, WORK_NULL = "toyworld-work", "toyworld-work-null"


@dataclass(frozen=True)
class BundledModel:
    """A benchmark model that comes with the package."""

    about: str  # what its words mean, and where they enter if that is known
    bases: tuple[str, ...] = (SHARED,)  # lend it what is not stored of it
    group: str = ""  # folder below the weights
    maker: str = ""  # module:function that makes its pipeline; empty where the folder holds a whole one

    @property
    def assemble(self) -> Callable[[str, Path], Any] | None:
        """The function that makes its pipeline; None where it is read as any other."""
        if not self.maker:
            return None
        module, name = self.maker.split(":")
        return getattr(import_module(module), name)


def _located(about: str, *bases: str) -> BundledModel:
    maker = "probes.toyworld.located.assemble:located_pipeline"
    return BundledModel(about, (*bases, SHARED), "located", maker)


def _structure(about: str) -> BundledModel:
    maker = "probes.toyworld.structures:structure_pipeline"
    return BundledModel(about, ("toyworld-coded-null", SHARED), "structures", maker)


_WORK, _DIT = "probes.toyworld.work.assemble:work_pipeline", "probes.toyworld.dit.assemble"
_LEANS, _NULL = "neutral words mean the masculine mixture in 70% of images", "no difference between the words"
REGISTRY = {
    "toyworld": BundledModel(_LEANS),
    "toyworld-mirror": BundledModel("neutral words mean the masculine mixture in 30% of images"),
    SHARED: BundledModel(_NULL, ()),
    "toyworld-coded-null": _located("as toyworld-null; the word enters nowhere (null)"),
    "toyworld-cross-4": _located(
        "as toyworld; the word enters at unet.up.1.attn.0.cross (cross-attention)", "toyworld-coded-null"
    ),
    "toyworld-cross-5": _located(
        "as toyworld; the word enters at unet.up.1.attn.1.cross (cross-attention)", "toyworld-coded-null"
    ),
    "toyworld-redundant": _structure(
        "as toyworld; places together: unet.down.1.attn.0.cross and unet.up.1.attn.1.cross (redundant)"
    ),
    "toyworld-opposing": _structure(
        "as toyworld; places together: unet.up.1.attn.0.cross and unet.up.1.attn.1.cross (opposing)"
    ),
    WORK: BundledModel(f"{_LEANS}; 20 professions", ("toyworld", SHARED), "", _WORK),
    WORK_NULL: BundledModel(f"{_NULL}; 20 professions", (SHARED,), "", _WORK),
    "toyworld-dit": BundledModel(f"{_LEANS}; a diffusion transformer", (SHARED,), "", f"{_DIT}:dit_pipeline"),
    "toyworld-dit-null": BundledModel(
        f"{_NULL}; a diffusion transformer", ("toyworld-dit", SHARED), "", f"{_DIT}:dit_pipeline"
    ),
    "toyworld-dit-block-1": BundledModel(
        "as toyworld-dit; the word enters at dit.block.1.joint (wired)",
        ("toyworld-dit", SHARED),
        "wired",
        f"{_DIT}:wired_pipeline",
    ),
}
MODELS = tuple(REGISTRY)
BENCHMARK_MODELS = ("toyworld", "toyworld-mirror", "toyworld-null")
WORKING = (WORK, WORK_NULL)  # have professions (probes.toyworld.work)
TRANSFORMERS = ("toyworld-dit", "toyworld-dit-null")  # diffusion transformers (probes.toyworld.dit)
# where the words enter is known by wiring; several places decide together; transformers where that is known
LOCATED, STRUCTURES, WIRED = (
    tuple(name for name, model in REGISTRY.items() if model.group == group)
    for group in ("located", "structures", "wired")
)


def bundled_folder(name: str) -> Path:
    """Return where what is stored of a benchmark model lies."""
    return WEIGHTS / REGISTRY[name].group / name
