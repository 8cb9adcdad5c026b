"""Reading a pipeline's weights from a folder: all of them, none made up, and no code run."""

from __future__ import annotations

from typing import Any

from probes.errors import UserError
from probes.models import description, weight_files
from probes.models.components import modules
from probes.models.description import INDEX, Source, readable
from probes.models.pretrained import from_folder, quiet


def read_pipeline(source: Source) -> Any:
    """The pipeline of a folder, in the precision it is stored in.

    Raises
    ------
    UserError
        A file is damaged, or weights are missing.
    """
    import diffusers

    index = description.read_index(source)
    cls = getattr(diffusers, index["_class_name"])
    # these read images; text-to-image needs none of them
    options: dict[str, Any] = {
        name: None for name in ("safety_checker", "feature_extractor", "image_encoder") if name in index
    }
    if "requires_safety_checker" in index:
        options["requires_safety_checker"] = False
    for name in ("text_encoder", "text_encoder_2", "unet", "vae"):
        if index.get(name, [None])[0] is not None:
            options[name] = _component(source, name, *index[name])
    with readable(source, INDEX, f"a whole {index['_class_name']}"), quiet():
        return from_folder(cls, source.path, **options)


def _component(source: Source, name: str, library: str, kind: str) -> Any:
    """A component with every one of its weights: the libraries fill missing ones with random numbers."""
    import importlib

    import torch

    cls = getattr(importlib.import_module(library), kind)
    expected = f"the whole weights of a {kind}"
    folder = source.component(name)
    variant = weight_files.choose(folder, source.variant)
    if source.variant and not weight_files.names(folder, variant):
        there = ", ".join(weight_files.variants(folder)) or "full precision alone"
        raise UserError(f"variant: {source.name}: {name}: expected {variant}, found {there}: choose another")
    # transformers would round to the format that config.json names: XL's says float16 beside weights in float32
    whole = {"dtype": torch.float32} if library == "transformers" else {}
    with readable(source, name, expected), quiet():
        module, report = from_folder(cls, folder, output_loading_info=True, variant=variant, **whole)
    for fault in ("missing", "mismatched"):
        names = sorted(str(key) for key in report.get(f"{fault}_keys") or ())
        if names:
            got = f"{len(names)} {fault} ({names[0]:.80})"
            raise description.fault(source, name, expected, got, "mend or download it again")
    return module


def require_finite(source: Source, pipe: Any, dtype: str, remedy: str) -> None:
    """Refuse weights that are not numbers, before anything is drawn with them."""
    import torch

    for name, module in modules(pipe).items():
        for key, parameter in module.named_parameters():
            if not torch.isfinite(parameter).all():
                raise description.fault(
                    source, name, f"finite weights in {dtype}", f"NaN or infinity in {key:.80}", remedy
                )
