"""Reading a pipeline's weights from a folder or a single file: all of them, none made up, and no code run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from logging import CRITICAL
from typing import Any

from probes import model_description as description
from probes.components import modules
from probes.errors import UserError
from probes.model_description import INDEX, Source, readable


def read_pipeline(source: Source) -> Any:
    """The pipeline of a source, in the precision it is stored in.

    Raises
    ------
    UserError
        A file is damaged, or weights are missing.
    """
    import diffusers

    if source.kind == "file":
        return _from_file(source)
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
        return cls.from_pretrained(source.path, local_files_only=True, **options)


def _component(source: Source, name: str, library: str, kind: str) -> Any:
    """A component with every one of its weights: the libraries fill missing ones with random numbers."""
    import importlib

    cls = getattr(importlib.import_module(library), kind)
    expected = f"the whole weights of a {kind}"
    with readable(source, name, expected), quiet():
        module, report = cls.from_pretrained(
            source.path / name, local_files_only=True, output_loading_info=True
        )
    for fault in ("missing", "mismatched"):
        names = sorted(str(key) for key in report.get(f"{fault}_keys") or ())
        if names:
            got = f"{len(names)} {fault} ({names[0]:.80})"
            raise description.fault(source, name, expected, got, "mend or download it again")
    return module


def _from_file(source: Source) -> Any:
    import diffusers
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    kind = description.single_file_kind(source)
    options: dict[str, Any] = {}
    if source.config is not None:
        index = description.read_index(source)
        options = {name: None for name in ("safety_checker",) if name in index}
        if "requires_safety_checker" in index:
            options["requires_safety_checker"] = False
        options |= {"config": str(source.config), "local_files_only": True}
    with readable(source, source.path.name, f"a whole {kind}"), quiet():
        try:
            return getattr(diffusers, kind).from_single_file(str(source.path), **options)
        except Exception as error:
            unreached = (HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled)
            if source.config is None and any(isinstance(cause, unreached) for cause in _causes(error)):
                raise UserError(
                    f"model {source.name}: the file is whole, but its description ({INDEX}, configurations,"
                    " tokenizers) is not on this machine and the hub gave none: connect to the network once so"
                    f" that it is cached, or put it into {source.path.with_suffix('')}"
                ) from error
            raise


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def require_finite(source: Source, pipe: Any, dtype: str, remedy: str) -> None:
    """Refuse weights that are not numbers, before anything is drawn with them."""
    import torch

    for name, module in modules(pipe).items():
        for key, parameter in module.named_parameters():
            if not torch.isfinite(parameter).all():
                raise description.fault(
                    source, name, f"finite weights in {dtype}", f"NaN or infinity in {key:.80}", remedy
                )


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' own progress bars off the terminal while a model loads."""
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    switches = (diffusers_logging, transformers_logging)
    levels = [switch.get_verbosity() for switch in switches]
    shown = [switch.is_progress_bar_enabled() for switch in switches]
    try:
        for switch in switches:
            switch.disable_progress_bar()
            switch.set_verbosity(CRITICAL)  # what is wrong is told once, by us
        yield
    finally:
        for switch, level, show in zip(switches, levels, shown):
            switch.set_verbosity(level)
            if show:
                switch.enable_progress_bar()
