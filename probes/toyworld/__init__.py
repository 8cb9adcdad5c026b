from dataclasses import dataclass
from pathlib import Path

WEIGHTS = Path(__file__).parent / "weights"
BENCHMARK_MODELS = ("toyworld", "toyworld-mirror", "toyworld-null")
SHARED = "toyworld-null"  # holds the autoencoder's weights, which are the same in all
WORKING = WORK, WORK_NULL = "toyworld-work", "toyworld-work-null"  # have professions
SYNONYMS = "toyworld-synonyms", "toyworld-synonyms-null"  # whose synonyms draw different pictures
TRANSFORMERS = DIT, DIT_NULL = "toyworld-dit", "toyworld-dit-null"  # diffusion transformers


@dataclass(frozen=True)
class BundledModel:
    """A benchmark model that comes with the package, and how its pipeline is made."""

    about: str  # what its words mean, and where they enter if that is known
    maker: str = ""  # function of `probes.toyworld.pipelines`; empty where the folder holds a whole pipeline
    bases: tuple[str, ...] = (SHARED,)  # lend it what is not stored of it
    group: str = (
        ""  # folder below the weights: located, structures or wired, whose places are known by wiring
    )


_LEANS, _NULL = "neutral words mean the masculine mixture in 70% of images", "no difference between the words"
_CODED = ("toyworld-coded-null", SHARED)
_LOCATED, _STRUCTURE = ("coded_pipeline", _CODED, "located"), ("coded_pipeline", _CODED, "structures")
REGISTRY = {
    "toyworld": BundledModel(_LEANS),
    "toyworld-mirror": BundledModel("neutral words mean the masculine mixture in 30% of images"),
    SHARED: BundledModel(_NULL, bases=()),
    "toyworld-coded-null": BundledModel(
        "as toyworld-null; the word enters nowhere (null)", "coded_pipeline", group="located"
    ),
    "toyworld-cross-4": BundledModel(
        "as toyworld; the word enters at unet.up.1.attn.0.cross (cross-attention)", *_LOCATED
    ),
    "toyworld-cross-5": BundledModel(
        "as toyworld; the word enters at unet.up.1.attn.1.cross (cross-attention)", *_LOCATED
    ),
    "toyworld-redundant": BundledModel(
        "as toyworld; places together: unet.down.1.attn.0.cross and unet.up.1.attn.1.cross (redundant)",
        *_STRUCTURE,
    ),
    "toyworld-opposing": BundledModel(
        "as toyworld; places together: unet.up.1.attn.0.cross and unet.up.1.attn.1.cross (opposing)",
        *_STRUCTURE,
    ),
    WORK: BundledModel(f"{_LEANS}; 20 professions", "work_pipeline", ("toyworld", SHARED)),
    WORK_NULL: BundledModel(f"{_NULL}; 20 professions", "work_pipeline"),
    SYNONYMS[0]: BundledModel(
        f"{_LEANS}; synonyms draw different pictures", "synonyms_pipeline", ("toyworld", SHARED)
    ),
    SYNONYMS[1]: BundledModel(f"{_NULL}; synonyms draw different pictures", "synonyms_pipeline"),
    DIT: BundledModel(f"{_LEANS}; a diffusion transformer", "dit_pipeline"),
    DIT_NULL: BundledModel(f"{_NULL}; a diffusion transformer", "dit_pipeline", (DIT, SHARED)),
    "toyworld-dit-block-1": BundledModel(
        "as toyworld-dit; the word enters at dit.block.1.joint (wired)",
        "wired_pipeline",
        (DIT, SHARED),
        "wired",
    ),
}
MODELS = tuple(REGISTRY)


def bundled_folder(name: str) -> Path:
    """Return the folder of a bundled model's files by its name, such as ``toyworld``; KeyError for other names."""
    return WEIGHTS / REGISTRY[name].group / name
