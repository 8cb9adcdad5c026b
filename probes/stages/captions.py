"""Record of the captions that a run's prompts come from, and of those too long for its model.

A caption is left out where a text encoder takes fewer tokens than it has for any indicator: what it would be cut off is
the model's, so it is known once there is a model, and the record of the run says it to the stages that need none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes.config.schema import Config
from probes.errors import UserError
from probes.runs.run import Run

if TYPE_CHECKING:
    from probes.prompts.captions import LoadedPrompts

KEY = "captions"  # in ``run.json``
LONGER = "longer_than_the_model_reads"
NAMED = 5  # of those left out, in the line about them


def without_long_ones(
    config: Config, loaded: LoadedPrompts | None, tokenizers: Sequence[Any], limit: int, file: str
) -> tuple[Config, dict[str, Any] | None]:
    """Leave out the captions that the model cannot read to their end.

    Prompts that are no captions are refused later where they are too long. Beside the configuration with the prompts
    that are left stands what ``run.json`` keeps of the captions, under `KEY`.
    """
    if loaded is None or not loaded.source:
        return config, None
    most = min(limit, *(tokenizer.model_max_length for tokenizer in tokenizers))
    texts = [text for prompt in config.prompts for text in prompt.texts.values()]
    size = len(config.indicators)
    long: set[int] = set()
    for tokenizer in tokenizers:
        counts = map(len, tokenizer(texts, truncation=False, verbose=False)["input_ids"])
        long |= {index // size for index, count in enumerate(counts) if count > most}
    if len(long) == len(config.prompts):
        raise UserError(
            f"{file}: prompts: expected captions of at most {most} tokens with start and end, found none in"
            f" {len(long):,}: take other captions, or a model that reads longer ones"
        )
    record = {
        **({"file": str(loaded.file), "sha256": _checksum(loaded.file)} if loaded.file else {}),
        "format": loaded.format,
        "captions": loaded.read,
        "prompts": len(loaded.prompts),
        "dropped": dict(loaded.dropped.most_common()),
        "tokens_read": most,
        LONGER: [config.prompts[index].id for index in sorted(long)],
    }
    return _without(config, record[LONGER]), record


def _without(config: Config, ids: Collection[str]) -> Config:
    """The configuration without the prompts of these ids."""
    if not ids:
        return config
    left_out = {*ids}
    kept = [prompt for prompt in config.prompts if prompt.id not in left_out]
    return config.model_copy(update={"prompts": kept})


def as_planned(config: Config, loaded: LoadedPrompts | None) -> Config:
    """Leave out the captions that the run in the configuration's folder left out when it was planned.

    For stages that need no model.
    """
    record = _recorded(config.out_path) if loaded and loaded.source else {}
    return _without(config, record.get(LONGER, ()))


def length_summary(record: Mapping[str, Any] | None) -> str:
    """Return in a line what was left out for its length; nothing where nothing was."""
    long = (record or {}).get(LONGER)
    if not record or not long:
        return ""
    named = ", ".join(long[:NAMED]) + (", ..." if len(long) > NAMED else "")
    are = "is" if len(long) == 1 else "are"
    return (
        f"prompts: {len(long):,} {are} left out, longer than the {record['tokens_read']} tokens that the model reads:"
        f" {named}"
    )


def require_unchanged(config: Config, loaded: LoadedPrompts | None) -> None:
    """Refuse a file of captions that has changed since the run in the configuration's folder was planned from it.

    One that makes the same prompts is no other.
    """
    file = loaded.file if loaded else None
    record = _recorded(config.out_path) if file else {}
    if not file or not record or _checksum(file) == record.get("sha256"):
        return
    if Run.open(config.out_path).config.prompts != config.prompts:
        raise UserError(
            f"{file}: expected the captions that the run was planned from, found others: put them back, go on"
            f" with the prompts that it keeps (triptych run {config.out_path}), or use --overwrite or another --out"
        )


def _checksum(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _recorded(out: Path) -> dict[str, Any]:
    """What the run in a folder keeps of its captions; nothing where there is no such run."""
    return Run.open(out).meta.get(KEY) or {} if (out / "run.json").exists() else {}
