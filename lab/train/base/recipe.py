"""Every number of a training run of the toyworld models."""

from dataclasses import dataclass


@dataclass
class Recipe:
    """Every number of a training run.

    ``*_minutes`` of 0 means that only the steps count. ``finetune_from`` is ``base``, or ``own`` to go on from the
    benchmark model's own weights. ``often`` names nouns that captions name more often ("lamp=4,box=4"), ``renew``
    words that get fresh embeddings ("lamp,box"), for words that a measurement finds mistaken for others.
    """

    drawings: int = 200_000
    vae_steps: int = 8_000
    vae_batch: int = 16
    vae_minutes: float = 0.0
    decoder_steps: int = 4_000
    decoder_minutes: float = 0.0
    clip_steps: int = 4_000
    clip_minutes: float = 0.0
    clip_batch: int = 192
    base_steps: int = 60_000
    base_minutes: float = 0.0
    base_rate: float = 1e-3
    batch: int = 32
    finetune_drawings: int = 60_000
    finetune_steps: int = 6_000
    finetune_minutes: float = 0.0
    finetune_rate: float = 1e-3
    finetune_time_power: float = 0.6
    finetune_from: str = "base"
    words_drawings: int = 20_000
    words_steps: int = 400
    words_minutes: float = 0.0
    words_rate: float = 3e-3
    often: str = ""
    renew: str = ""
    time_power: float = 0.8
    zone_weight: float = 5.0
    guidance_scale: float = 1.0
    seed: int = 0
    device: str = "cpu"
    threads: int = 1


def items(text: str) -> list[str]:
    """Parts of a text between commas, such as `Recipe.often`; empty ones left out.

    >>> items("lamp=4,,box=4")
    ['lamp=4', 'box=4']
    """
    return [item for item in text.split(",") if item]
