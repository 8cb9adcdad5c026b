from pathlib import Path

BENCHMARK_MODELS = ("toyworld", "toyworld-mirror", "toyworld-null")
LOCATED = (  # where their words enter is known by wiring (probes.toyworld.located)
    "toyworld-coded-null",
    "toyworld-decoy",
    "toyworld-embedding",
    *(f"toyworld-cross-{number}" for number in range(1, 8)),
    "toyworld-head",
    "toyworld-early",
    "toyworld-late",
    "toyworld-two-site",
)
STRUCTURES = (  # several places decide together, and it is known how (probes.toyworld.structures)
    "toyworld-redundant",
    "toyworld-backup",
    "toyworld-both",
    "toyworld-chain",
    "toyworld-opposing",
    "toyworld-distributed",
    "toyworld-handover",
)
CHOICES = ("toyworld-choice",)  # what the neutral word shows is chosen in a self-attention (likewise)
WORK = "toyworld-work"  # has professions (probes.toyworld.work)
WORK_NULL = "toyworld-work-null"  # reads the same professions, and none means anything
WORKING = (WORK, WORK_NULL)
TRANSFORMERS = (
    "toyworld-dit",
    "toyworld-dit-mirror",
    "toyworld-dit-null",
)  # diffusion transformers (probes.toyworld.dit)
WIRED = (  # transformers where the entrance of their words is known (probes.toyworld.dit.wired)
    "toyworld-dit-nowhere",
    "toyworld-dit-pooled",
    "toyworld-dit-clip",
    "toyworld-dit-t5",
    *(f"toyworld-dit-block-{number}" for number in range(3)),
    "toyworld-dit-template",
    "toyworld-dit-choice",
)
SKILLED = "toyworld-skills"  # draws scenes of objects, and nobody (probes.toyworld.skills)
FIGURES = (  # draw figures
    *BENCHMARK_MODELS,
    *LOCATED,
    *STRUCTURES,
    *CHOICES,
    *WORKING,
    *TRANSFORMERS,
    *WIRED,
)
MODELS = (*FIGURES, SKILLED)
WEIGHTS = Path(__file__).parent / "weights"
SHARED = "toyworld-null"  # holds the autoencoder's weights, which are the same in all


def bundled_folder(name: str) -> Path:
    """Return where what is stored of a benchmark model lies."""
    groups = {"located": LOCATED, "structures": (*STRUCTURES, *CHOICES), "wired": WIRED}
    group = next((group for group, names in groups.items() if name in names), "")
    return WEIGHTS / group / name
