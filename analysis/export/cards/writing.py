"""Cards of a finished run as files: prose for a model card, and records of its evaluation."""

from __future__ import annotations

import json
from pathlib import Path

from analysis.export.cards import records
from analysis.export.cards.facts import reportable_facts
from analysis.export.cards.markdown import rendered
from analysis.export.registry import NOT_STATED, RELATIONSHIPS
from probes.errors import UserError
from probes.runs.parts import write_bytes
from probes.runs.store import Run

_CARD = "---\n{{ card_data }}\n---\n{{ prose }}"
PROSE, RECORD, RESULTS = "model-card.md", "every-eval-ever.json", ".eval_results/triptych.yaml"


def write_cards(
    run_path: str | Path,
    out: str | Path,
    *,
    model_id: str = "",
    organization: str = NOT_STATED,
    relationship: str = "other",
    benchmark: str = "",
    task: str = "default",
    url: str = "",
    model_index: bool = False,
) -> list[Path]:
    """Write what a run says of its model: ``model-card.md``, ``every-eval-ever.json``, and on demand Hub results.

    Parameters
    ----------
    run_path : str or Path
        The directory of a finished run.
    out : str or Path
        Folder to write to.
    model_id : str
        The model as on the Hub (``owner/name``); by default as the run names it.
    organization, relationship : str
        Who evaluated, and its relationship to the model, one of `analysis.export.registry.RELATIONSHIPS`.
    benchmark, task : str
        Dataset of the Hub that is a benchmark, and its task: writes ``.eval_results/triptych.yaml``.
    url : str
        Where the run can be seen, for the same file.
    model_index : bool
        Put the scores into the metadata of the model card as well.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    UserError
        The run is unfinished, has one word a side, or no gap with an interval.
    """
    from huggingface_hub import ModelCard, ModelCardData

    if relationship not in RELATIONSHIPS:
        raise UserError(f"--relationship: expected one of {', '.join(RELATIONSHIPS)}, got {relationship!r}")
    run = Run.open(run_path)
    facts = reportable_facts(run)
    evaluator = records.Evaluator(model_id or _model_id(run), organization, relationship)
    scores = records.model_index(run, facts) if model_index else None
    data = ModelCardData(
        model_name=evaluator.model_id if scores else None, eval_results=scores, pipeline_tag="text-to-image"
    )
    prose = rendered("model.md.j2", facts=facts)
    texts = {PROSE: str(ModelCard.from_template(data, template_str=_CARD, prose=prose))}
    record = records.every_eval_ever(run, facts, evaluator)
    texts[RECORD] = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if benchmark:
        texts[RESULTS] = records.eval_results_yaml(run, facts, benchmark, task, url)
    for name, text in texts.items():
        write_bytes(Path(out) / name, text.encode())
    return [Path(out) / name for name in texts]


def _model_id(run: Run) -> str:
    """The model by its id on the Hub; of another kind by its name. An edited one is not the model it was."""
    if run.config.edit is not None:
        raise UserError(f"{run.path}: expected --model-id of the edited model, got none: name it")
    model = run.meta.get("model") or {}
    return str(model["id"]) if model.get("kind") == "hub" else run.config.model_name
