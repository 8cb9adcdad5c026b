"""The captions that a run's prompts come from: without those too long for its model, and their record.

A caption is left out where a text encoder takes fewer tokens than it has for any indicator: what it would be cut off is
the model's, so it is known once there is a model, and the record of the run says it to the stages that need none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.parts import digest
from probes.runs.run import Run

if TYPE_CHECKING:
    from probes.prompts.captions import LoadedPrompts

KEY = "captions"  # in ``run.json``
LONGER = "longer_than_the_model_reads"
NAMED = 5  # of those left out, in the line about them


def without_long_captions(
    config: Config,
    loaded: LoadedPrompts,
    tokenizers: Sequence[Any],
    max_tokens: int,
    file: str,
    log: Callable[[str], object] = lambda line: None,
) -> tuple[Config, dict[str, Any]]:
    """Return the configuration without captions longer than `max_tokens` or a tokenizer's limit, and their record.

    `loaded`: the captions as read from a file, which errors name `file`. `log` takes a line on those left out.
    UserError if no caption is short enough.
    """
    most = min(max_tokens, *(tokenizer.model_max_length for tokenizer in tokenizers))
    size, long = len(config.indicators), set[int]()
    texts = [text for prompt in config.prompts for text in prompt.texts.values()]
    for tokenizer in tokenizers:
        read = tokenizer(texts, truncation=False, verbose=False)["input_ids"]
        long |= {index // size for index, ids in enumerate(read) if len(ids) > most}
    if len(long) == len(config.prompts):
        raise UserError(
            f"{file}: prompts: expected captions of at most {most} tokens with start and end, found none in"
            f" {len(long):,}: take other captions, or a model that reads longer ones"
        )
    left_out = [config.prompts[index].id for index in sorted(long)]
    record = {
        **({"file": str(loaded.file), "sha256": digest(loaded.file.read_bytes())} if loaded.file else {}),
        "format": loaded.format,
        "captions": loaded.read,
        "prompts": len(loaded.prompts),
        "dropped": dict(loaded.dropped.most_common()),
        "tokens_read": most,
        LONGER: left_out,
    }
    if left_out:
        named = ", ".join(left_out[:NAMED]) + (", ..." if len(left_out) > NAMED else "")
        are = "is" if len(left_out) == 1 else "are"
        log(
            f"prompts: {len(left_out):,} {are} left out, longer than the {most} tokens that the model reads: {named}"
        )
    return _without_prompts(config, left_out), record


def _without_prompts(config: Config, ids: Collection[str]) -> Config:
    """Return the configuration without the prompts that have these ids."""
    left_out = {*ids}
    kept = [prompt for prompt in config.prompts if prompt.id not in left_out]
    return config.model_copy(update={"prompts": kept}) if left_out else config


def without_recorded_captions(config: Config) -> Config:
    """Return the configuration without the captions that its run recorded as too long; needs no model."""
    return _without_prompts(config, _captions_record(config.out_path).get(LONGER, ()))


def require_unchanged_captions(config: Config, file: Path | None) -> None:
    """Raise UserError if the file of captions has changed the prompts since a configuration's run was planned."""
    record = _captions_record(config.out_path)
    if not file or not record or digest(file.read_bytes()) == record.get("sha256"):
        return
    if Run.open(config.out_path).config.prompts != config.prompts:
        raise UserError(
            f"{file}: expected the captions that the run was planned from, found others: put them back, go on"
            f" with the prompts that it keeps (triptych run {config.out_path}), or use --overwrite or another --out"
        )


def _captions_record(folder: Path) -> dict[str, Any]:
    """Return the record of captions of the run in a folder; empty if there is no run or it has no captions."""
    return Run.open(folder).meta.get(KEY) or {} if (folder / "run.json").exists() else {}
