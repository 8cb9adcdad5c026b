"""``triptych doctor``: versions, what is missing of the packages it needs, optional parts, machine, checkpoints."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from probes import command_line
from probes.errors import UserError, pip_line, printable
from triptych.installation import requirements, unmet_requirements, version_lines

USES = {  # of the optional parts
    "captions": "BLEU, CIDEr, METEOR and SPICE of captions",
    "cluster": "workers of Ray, here or on many machines",
    "data": "data sets of the hub as prompts, runs as data sets",
    "faces": "faces of photographs, for skin tones",
    "lora": "LoRA put into a model",
    "notebooks": "the notebooks",
    "quality": "FID, KID and Inception's features",
    "quantization": "weights in 4 and 8 bits, and gguf",
    "xlsx": "labels from XLSX",
}


def extra_lines() -> list[str]:
    """Return a line for each optional extra: its use, and whether it is installed or how to install it."""
    lines = []
    for extra, use in USES.items():
        missing = [one.partition(" ")[0] for one in unmet_requirements(requirements(extra))]
        state = f"missing {', '.join(missing)}: {pip_line(extra)}" if missing else "there"
        lines.append(f"{extra:<12}  {use}: {state}")
    return [*lines, f"{'nltk':<12}  the paper's nouns (measure.nouns: nltk): {_nltk_state()}"]


def _nltk_state() -> str:
    """Return "there" if NLTK and its data are installed, else the command that fetches the data."""
    from probes.prompts.grammar.nouns import nouns

    try:
        nouns("a dog", backend="nltk")
    except UserError:
        return "missing data: python -m nltk.downloader averaged_perceptron_tagger_eng wordnet"
    return "there"


def machine_lines() -> list[str]:
    """Return lines on cores, memory, free disk, devices, and the folder of models from the hub."""
    import torch
    from huggingface_hub import constants

    from probes.execution import workers

    disk = shutil.disk_usage(Path.cwd()).free
    devices = [
        f"cuda:{number} {torch.cuda.get_device_name(number)}"
        f" ({torch.cuda.get_device_properties(number).total_memory / 1e9:.0f} GB)"
        for number in range(torch.cuda.device_count())
    ]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    offline = " (offline: HF_HUB_OFFLINE is set)" if constants.HF_HUB_OFFLINE else ""
    return [
        f"cores {workers.core_count()}, memory {workers.total_memory() / 1e9:.1f} GB, disk {disk / 1e9:.0f} GB free"
        " here",
        f"devices: {', '.join([*devices, 'cpu'])}; threads of torch: {torch.get_num_threads()}"
        + (f" (OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']})" if "OMP_NUM_THREADS" in os.environ else ""),
        f"models of the hub: {constants.HF_HUB_CACHE}{offline}",
    ]


def checkpoint_lines() -> list[str]:
    """Return two lines: the published models for observing images that are here, and the sizes of the others."""
    from analysis.observe.checkpoints import known, present, size

    here = [name for name in known() if present(name)]
    absent = [f"{name} ({size(name)})" for name in known() if name not in here]
    return [f"here: {', '.join(here) or 'none'}", f"not here: {', '.join(absent) or 'none'}"]


def parser() -> command_line.Parser:
    """Return the argument parser of ``triptych doctor``."""
    return command_line.Parser(
        prog="triptych doctor",
        description="Say what is installed here and what is missing, which devices, models and checkpoints there are."
        " Asks no network.",
        examples={"triptych doctor": "what to send with a question"},
    )


def work(options: argparse.Namespace) -> None:
    """Print versions, machine, optional parts and checkpoints; UserError if a required package is missing."""

    def print_section(title: str, lines: list[str]) -> None:
        """Print indented lines under a title."""
        print(f"{title}:", *(f"  {printable(line)}" for line in lines), "", sep="\n", flush=True)

    print_section("versions", version_lines())
    if missing := unmet_requirements(requirements()):
        raise UserError(f"triptych: expected {', '.join(missing)}: install these")
    print_section("this machine", machine_lines())
    print_section("optional parts", extra_lines())
    print_section(
        "checkpoints that observe images (docs/how_to/models.md says how to fetch them)",
        checkpoint_lines(),
    )
