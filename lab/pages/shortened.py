"""How tests make the commands of the pages small.

A command of a page is run as it stands there but for what these tables say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

# Goes over each configuration that a page shows or that its commands write.
SETTINGS: dict[str, Any] = {
    "limit": 2,
    "sampler": {"steps": 2},
    "generate": {"device": "cpu", "workers": 1},
    "observe": {"engine": "toyworld-checker", "features": []},
    "measure": {"bootstrap": 50, "permutations": 64},
}
# In place of a longer list of prompts: its images can be asked for the map of "umbrella".
PROMPTS = [
    f"a {{person}} {doing}"
    for doing in (
        "holding an umbrella",
        "with a dog in the park",
        "riding a bike",
        "in a hat",
        "with a book",
        "on a couch",
    )
]
SEEDS = [0]
# Published models, and the tiny pipeline of the same classes with random weights that stands for each.
MODELS = {
    "stable-diffusion-v1-5/stable-diffusion-v1-5": "sd1",
    "stabilityai/stable-diffusion-3-medium-diffusers": "sd3",
}
# Of a line of a command or of Python: what is replaced (a regular expression), by what, and why.
LINES = (
    (r"--images 20\b", "--images 2", "fewer images to ask about"),
    (r"--limit 4\b", "--limit 1", "fewer prompts"),
    (r"--steps 10\b", "--steps 2", "fewer steps"),
    (r"(^| )/shared/", r"\1shared/", "a folder of the test in place of one that all hosts see"),
    (r"--reference FOLDER", "--reference pictures", "a folder of 30 images"),
    (r"\bdocs/how_to/trace\.yaml", "trace.yaml", "a copy that is made small"),
    (r"\bt00010-", "t00000-", "the prompt with an umbrella is the first of two"),
    (r'"steps": 10\b', '"steps": 2', "fewer steps"),
    (r"\bnum_inference_steps=10\b", "num_inference_steps=2", "fewer steps"),
    (r"generator=generators\)", "generator=generators, num_inference_steps=10)", "fewer steps"),
    (r"^(triptych power --gap 0.1 --sd-prompt 0.25)$", r"\1 --simulations 50", "fewer simulations"),
)


def line(text: str) -> str:
    """Return a line of a page as a test runs it."""
    for pattern, replacement, _ in LINES:
        text = re.sub(pattern, replacement, text)
    return text


def settings(text: str, models: Mapping[str, str], base: Mapping[str, Any] | None = None, **more: Any) -> str:
    """A configuration in YAML as a test runs it: folders in place of published models, and settings that go over all.

    ``base`` is the configuration that it goes over, where the page shows a part of one.
    """
    own = {**(base or {}), **yaml.safe_load(text)}
    own["model"] = models.get(own.get("model", ""), own.get("model", "toyworld"))
    if isinstance(own["prompts"], list) and len(own["prompts"]) > len(PROMPTS):
        own["prompts"] = PROMPTS
    own["seeds"] = SEEDS
    observe = SETTINGS["observe"] if own["model"].startswith("toyworld") else {"features": []}
    for name, value in {**SETTINGS, "observe": {**observe, **own.get("observe", {})}}.items():
        own[name] = {**value, **own.get(name, {}), **value} if isinstance(value, dict) else value
    if own.get("trace"):
        own["trace"] = {**own["trace"], "prompts": 1, "necessity": False}
    return yaml.safe_dump({**own, **more}, sort_keys=False)
