"""Where and how images and representations of a diffusion model depend on the words of a triplet of prompts.

    import triptych

    run = triptych.run("triplets.yaml", sampler={"steps": 4})   # or a mapping, or a triptych.Config
    run.gap("unet.*.cross")                                     # a DataFrame
    run.z0                                                      # the gap of the final latent, in words
    run.plot_atlas()                                            # sites by steps
    run.gallery(4, word="umbrella")                             # triplets under the heat map of a word
    run.word_map("t00000-s0-neutral", "umbrella").overlay()

    triptych.plan("triplets.yaml")                              # what it would generate and cost
    run = triptych.load_run("runs/first-light")
    triptych.compare(run, "runs/another")
    triptych.audit("pictures", "labels.csv")                    # pictures of any models, labelled by people
    triptych.trace(run)                                         # also power, labels, models, verify
    triptych.stats.paired_test(differences, clusters=prompts)   # the tests behind the report

    with triptych.Probe(pipe, pairs=[(0, 1)], word_maps=True) as probe:   # any pipeline of diffusers that is known
        images = pipe(prompts).images

Everything is imported at first use. `hooks`, `probes` and `analysis` are the packages behind this one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from triptych.shadowing import require_packages

require_packages()

if TYPE_CHECKING:
    from analysis.loaded_run import LoadedRun, load_run
    from analysis.methods.audit.labelled_audit import LabelledAudit, audit
    from analysis.methods.tracing import benchmark as benchmarks
    from analysis.report.result import Result
    from analysis.studies.compare.summary import RunComparison
    from analysis.studies.models import models
    from hooks.autoencoder import SparseAutoencoder
    from hooks.intervention import Intervention
    from hooks.patch import Patch
    from hooks.probe import Probe
    from probes.config.schema import Config
    from probes.errors import UserError
    from probes.models.autoencoders import load_autoencoder
    from triptych import stats
    from triptych.api import Plan, compare, labels, load_pipeline, plan, power, run, sites, trace, verify
    from triptych.verification.record import Verification

    __version__: str

_NAMES = {  # by module
    "analysis.loaded_run": ("LoadedRun", "load_run"),
    "analysis.methods.audit.labelled_audit": ("LabelledAudit", "audit"),
    "analysis.report.result": ("Result",),
    "analysis.studies.compare.summary": ("RunComparison",),
    "analysis.studies.models": ("models",),
    "hooks.autoencoder": ("SparseAutoencoder",),
    "hooks.intervention": ("Intervention",),
    "hooks.patch": ("Patch",),
    "hooks.probe": ("Probe",),
    "probes.config.schema": ("Config",),
    "probes.errors": ("UserError",),
    "probes.models.autoencoders": ("load_autoencoder",),
    "triptych.api": (
        *("Plan", "compare", "labels", "load_pipeline", "plan", "power", "run", "sites", "trace", "verify"),
    ),
    "triptych.verification.record": ("Verification",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_SUBMODULES = {"benchmarks": "analysis.methods.tracing.benchmark", "stats": "triptych.stats"}
__all__ = [
    "Config",
    "Intervention",
    "LabelledAudit",
    "LoadedRun",
    "Patch",
    "Plan",
    "Probe",
    "Result",
    "RunComparison",
    "SparseAutoencoder",
    "UserError",
    "Verification",
    "__version__",
    "audit",
    "benchmarks",
    "compare",
    "labels",
    "load_autoencoder",
    "load_pipeline",
    "load_run",
    "models",
    "plan",
    "power",
    "run",
    "sites",
    "stats",
    "trace",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Return a public name of the package, imported at its first use; AttributeError for another name."""
    if name == "__version__":
        from importlib import metadata

        return metadata.version("triptych")
    if name in _SUBMODULES:
        return importlib.import_module(_SUBMODULES[name])
    if name not in _MODULES:
        import difflib

        close = difflib.get_close_matches(name, __all__, 1)
        hint = f": did you mean {close[0]}?" if close else ""
        raise AttributeError(f"module 'triptych' has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the public names of the package, sorted."""
    return sorted(__all__)
