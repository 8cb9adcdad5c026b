"""What each training stage reads from the work folder and leaves there, so that a gap is said before any work."""

from collections.abc import Sequence
from pathlib import Path

from probes.errors import UserError
from probes.toyworld import SPECIMENS

ALL = tuple(f"{name}.safetensors" for name in SPECIMENS)
MADE = {
    "resume": ("tokenizer", "vae", "clip.safetensors", "base.safetensors", "history.txt", *ALL),
    "tokenizer": ("tokenizer",),
    "vae": ("vae",),
    "clip": ("clip.safetensors",),
    "base": ("base.safetensors",),
    "decoder": ("vae",),
}
MAKERS = {
    "tokenizer": "tokenizer",
    "vae": "vae",
    "clip.safetensors": "clip",
    "base.safetensors": "base",
    **dict.fromkeys(ALL, "finetune"),
}


def check_stages(
    work: Path, stages: Sequence[str], specimens: Sequence[str], *, weights: Path, own: bool = False
) -> None:
    """Check that every stage will find what it reads.

    Parameters
    ----------
    work : pathlib.Path
        The work folder.
    stages : sequence of str
        In the order in which they run.
    specimens : sequence of str
        Those that are finetuned.
    weights : pathlib.Path
        What ``resume`` reads.
    own : bool
        Specimens go on from their own weights.

    Raises
    ------
    UserError
        If something is missing that no stage before makes.
    """
    there: set[str] = set()
    tuned = tuple(f"{name}.safetensors" for name in specimens)
    for stage in stages:
        if stage == "resume":
            _check_weights(weights)
        for name in _read(
            stage, tuned, own, (work / "base.safetensors").exists() or "base.safetensors" in there
        ):
            if name not in there and not (work / name).exists():
                raise UserError(
                    f"--work: stage {stage}: expected {work / name}, found none: "
                    f"run --stage {MAKERS[name]} before it, or resume"
                )
        there |= {*MADE.get(stage, tuned if stage == "finetune" else ()), "history.txt"}


def _read(stage: str, tuned: tuple[str, ...], own: bool, based: bool) -> tuple[str, ...]:
    return {
        "clip": ("tokenizer",),
        "base": ("tokenizer", "vae", *(() if based else ("clip.safetensors",))),
        "decoder": ("tokenizer", "vae", "base.safetensors"),
        "finetune": ("tokenizer", "vae", *(tuned if own else ("base.safetensors",))),
        "words": ("tokenizer", "vae", "clip.safetensors", "base.safetensors", *ALL),
        "export": ("tokenizer", "vae", "clip.safetensors", *ALL),
    }.get(stage, ())


def _check_weights(weights: Path) -> None:
    parts = [weights / name / folder for name in SPECIMENS for folder in ("unet", "text_encoder")]
    parts += [weights / "toyworld-null" / "tokenizer", weights / "toyworld-null" / "vae"]
    for path in (*parts, weights / "clip" / "open_clip_model.safetensors", weights / "recipe.json"):
        if not path.exists():
            raise UserError(
                f"--weights: stage resume: expected {path}, found none: name the folder that export wrote"
            )
