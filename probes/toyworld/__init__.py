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
WORK = "toyworld-work"  # has professions (probes.toyworld.work)
WORK_NULL = "toyworld-work-null"  # reads the same professions, and none means anything
WORKING = (WORK, WORK_NULL)
TRANSFORMERS = (
    "toyworld-dit",
    "toyworld-dit-mirror",
    "toyworld-dit-null",
)  # diffusion transformers (probes.toyworld.dit)
SKILLED = "toyworld-skills"  # draws scenes of objects, and nobody (probes.toyworld.skills)
FIGURES = (*BENCHMARK_MODELS, *LOCATED, *STRUCTURES, *WORKING, *TRANSFORMERS)  # draw figures
MODELS = (*FIGURES, SKILLED)
WEIGHTS = Path(__file__).parent / "weights"
SHARED = "toyworld-null"  # holds the autoencoder's weights, which are the same in all


def folder_of(name: str) -> Path:
    """Return where what is stored of a bundled model lies."""
    group = "located" if name in LOCATED else "structures" if name in STRUCTURES else ""
    return WEIGHTS / group / name
