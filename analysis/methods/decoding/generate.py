"""The run that probes are fitted to: words of a contrast, synonyms and the reference, with pooled activations."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.methods.decoding import SITES
from analysis.methods.decoding.places import require_prompts, roles
from probes.config.schema import Config
from probes.errors import UserError
from probes.prompts.grammar.english import article
from probes.runs.run import Run

# words of the same meaning where a run has none: as in world.yaml of toyworld, with the same article
SYNONYMS = {"woman": "lady", "man": "gentleman"}


def generate(config: Config, options: argparse.Namespace) -> Run:
    """The run of a configuration with the words that probes need, generated or continued beside the tables."""
    out = options.out / "run"
    data = configuration(config, options.seeds, options.sites or SITES, options.limit)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{config.name}.yaml"  # errors say its name
        file.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
        quiet = ["--quiet"] if options.quiet else []
        options.stages([str(file), "--out", str(out), "--stage", "generate", *quiet])
    return Run.open(out)


def configuration(
    config: Config, seeds: Sequence[int], sites: Sequence[str], limit: int | None
) -> dict[str, Any]:
    """The configuration of the run that is generated, as plain data."""
    if config.images is not None:
        raise UserError(
            f"{config.name}: expected a model to look into, got images of another program: name another run"
        )
    chosen = roles(config)
    require_prompts(config.name, len(config.prompts[: limit or config.limit]))
    resolved = config.resolved()
    names = dict.fromkeys([chosen.reference, chosen.first, chosen.second, *chosen.synonyms])
    words = {name: resolved["indicators"][name] for name in names}
    if not chosen.synonyms and all(prompt.template for prompt in config.prompts):
        words |= _synonyms(config, (chosen.first, chosen.second))
    kept = ("model", "revision", "variant", "edit", "prompts", "sampler")
    return {
        **{key: resolved[key] for key in kept if resolved[key] is not None},
        "name": f"{config.name}-decode"[:100],
        "indicators": words,
        "reference": chosen.reference,
        "contrasts": [[chosen.first, chosen.second]],
        "limit": limit or config.limit,
        "seeds": list(seeds) or resolved["seeds"],
        "capture": {"words": False, "sites": ["latent.final"], "pool": list(sites)},
        "generate": {key: resolved["generate"][key] for key in ("device", "dtype", "workers")},
        "observe": {"objects": False, "features": []},
    }


def _synonyms(config: Config, pair: tuple[str, str]) -> dict[str, Any]:
    """Words of the same meaning as those of the contrast, where both have one that takes the same article."""
    words = [config.indicators[name].word for name in pair]
    if not all(word in SYNONYMS and article(SYNONYMS[word]) == article(word) for word in words):
        return {}
    taken = set(config.indicators)
    return {
        (other if other not in taken else f"{other}-synonym"): {"word": other, "control": name}
        for name, other in zip(pair, (SYNONYMS[word] for word in words))
    }
