"""What the report says of its unit in a run of one prompt: seeds, for this prompt alone.

The page is written for prompts. In a run of one prompt and several seeds (Wu et al. 2025, section 7.1) the same
statistics are over the seeds of that prompt, and every phrase that names what they are over is put in these terms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis.report.format import counted
from probes.config.schema import Config

ALONE = "for this prompt alone"
# by what stands on the page of a run of prompts; the longer phrases first
PHRASES: Mapping[str, str] = {
    "words, references and prompts": "words, references and seeds of this prompt alone",
    "over words and prompts": "over words and seeds, for this prompt alone",
    "over prompts": "over seeds, for this prompt alone",
    "over the prompts": "over the seeds, for this prompt alone",
    "of such prompts": "of the seeds of this prompt",
    "these prompts can show": "these seeds of one prompt can show",
    "at every prompt": "at every seed",
    "in all prompts": "at all seeds",
    "per prompt (mean over seeds first)": "per seed of this prompt alone",
    "the choice of prompts of this kind": "the choice of seeds for this prompt alone",
    "; seeds of a prompt are averaged before anything else": "; each seed counts by itself, for this prompt alone",
}
_COUNTS = re.compile(r"(among|With) ([\d,]+) prompts?\b")


def in_units(text: str, config: Config) -> str:
    """Return a text of the report in the terms of the run's unit; of a run of several prompts as it is.

    Examples
    --------
    >>> alone = Config(prompts=["a {person}"], seeds=[0, 1, 2])
    >>> in_units("bootstrap over prompts; missing among 3 prompts", alone)
    'bootstrap over seeds, for this prompt alone; missing among 3 seeds'
    """
    if config.unit == "prompt":
        return text
    for there, put in PHRASES.items():
        text = text.replace(there, put)
    return _COUNTS.sub(lambda match: f"{match[1]} {counted(int(match[2].replace(',', '')), 'seed')}", text)
