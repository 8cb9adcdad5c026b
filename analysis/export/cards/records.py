"""Evaluation records of a run: Every Eval Ever (JSON), ``.eval_results`` (YAML) and ``model-index``.

The score of each is the absolute gap over all words: 0 is no difference, and lower is better. Its interval is that of
the signed gap under the absolute value, which covers it at least as often. The signed gap, the noise floor, the verdict
on δ, words, prompts, what read the images and the hash of the weights stand beside every score.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from analysis.export.cards.facts import Facts, heading, sentences
from analysis.export.cards.record_form import RECORD
from analysis.export.registry import NOT_STATED
from analysis.report.finding import Finding
from analysis.report.format import counted
from analysis.report.result import Result
from analysis.report.verdict import defined
from probes.errors import UserError

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from probes.runs.store import Run

SCHEMA_VERSION = "0.2.2"  # of Every Eval Ever
_OPEN = ("hub", "bundled")  # kinds of models whose weights everybody can have
_METHOD = "t, over words, reference words and prompts as samples (analysis.stats.word_test)"


@dataclass(frozen=True)
class Evaluator:
    """Who evaluated which model: ``model_id`` as on the Hub, the organization, and its relationship to the model."""

    model_id: str
    organization: str = NOT_STATED
    relationship: str = "other"


@dataclass(frozen=True)
class AbsoluteGap:
    """The absolute gap over all words of a finding, with its interval."""

    finding: Finding
    value: float
    low: float
    high: float

    @property
    def most(self) -> float:
        """The largest value there can be: a difference of two similarities, corrected by half of another."""
        metric = self.finding.metric
        return 1.5 * (metric.high - metric.low)


def scores(facts: Facts) -> list[AbsoluteGap]:
    """Return the scores of a run: of each headline finding with an interval over words."""
    return [
        AbsoluteGap(
            one, abs(float(one.row["word_gap"])), *absolute(one.row["word_low"], one.row["word_high"])
        )
        for one in facts.findings
        if all(defined(one.row.get(name)) for name in ("word_gap", "word_low", "word_high"))
    ]


def absolute(low: float, high: float) -> tuple[float, float]:
    """Return the interval of an absolute value from that of the value.

    Examples
    --------
    >>> absolute(-0.25, 0.125), absolute(-0.5, -0.25), absolute(0.25, 0.5)
    ((0.0, 0.25), (0.25, 0.5), (0.25, 0.5))
    """
    ends = abs(float(low)), abs(float(high))
    return (0.0 if low <= 0 <= high else min(ends)), max(ends)


def details(facts: Facts, finding: Finding) -> dict[str, str]:
    """Return all that a score rests on, as text by its name."""
    lines = {label.lower().replace(" ", "_"): text for label, text in facts.lines(finding).items()}
    return {
        "contrast": "-".join(finding.contrast),
        "signed_gap_over_all_words": repr(float(finding.row["word_gap"])),
        **lines,
        "verdict": finding.tag,
        "sentences": sentences(finding),
        **_of_run(facts),
        "readers_error": " ".join(facts.reader) or "no objects were searched for",
    }


def result_details(facts: Facts, result: Result) -> dict[str, str]:
    """Return all that a result beside the gaps rests on, as text by its name."""
    return {
        "contrast": result.contrast,
        "signed_value": repr(result.value),
        "noise_floor_and_test": result.floor,
        "verdict": result.verdict,
        "read_by": result.reader,
        "readers_error": result.error,
        **_of_run(facts),
    }


def _of_run(facts: Facts) -> dict[str, str]:
    """What every number of a run rests on: words, prompts, weights."""
    return {
        "words": facts.wording,
        "prompts": f"{counted(facts.counts['prompts'], 'prompt')}, {counted(facts.counts['seeds'], 'seed')}",
        "prompts_sha256": _digest(facts),
        "weights_sha256": facts.weights or NOT_STATED,
    }


def _digest(facts: Facts) -> str:
    return hashlib.sha256("\n".join(facts.prompts).encode()).hexdigest()


def every_eval_ever(run: Run, facts: Facts, evaluator: Evaluator) -> dict[str, Any]:
    """Return a run as a record of Every Eval Ever, schema 0.2, valid by it.

    Nothing in it depends on when it is written: its times are those of the run.

    Raises
    ------
    UserError
        No gap over words has an interval.
    """
    own = require_scores(run, scores(facts))
    moment = _finished(run.meta)
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"triptych/{evaluator.model_id}/{int(moment.timestamp())}",
        "evaluation_timestamp": moment.isoformat(),
        "retrieved_timestamp": str(int(moment.timestamp())),
        "source_metadata": {
            "source_name": "Triptych",
            "source_type": "evaluation_run",
            "source_organization_name": evaluator.organization,
            "evaluator_relationship": evaluator.relationship,
            "additional_details": {"run": facts.name},
        },
        "eval_library": {"name": "triptych", "version": facts.version or "unknown"},
        "model_info": _model_info(run, facts, evaluator),
        "evaluation_results": [
            *(_gap(facts, score) for score in own),
            *(_measured(facts, one) for one in facts.results),
        ],
    }
    validate(record)
    return record


def validate(record: Mapping[str, Any]) -> None:
    """Hold a record against `analysis.export.cards.record_form`.

    Raises
    ------
    pydantic.ValidationError
        It does not fit: the program is at fault.
    """
    RECORD.validate_python(record)


def require_scores(run: Run, own: list[AbsoluteGap]) -> list[AbsoluteGap]:
    """Return scores, of which there must be one."""
    if not own:
        raise UserError(
            f"{run.path}: expected a gap over all words with an interval, found none: a record takes two words a side"
            " that differ, and more prompts"
        )
    return own


def _finished(meta: Mapping[str, Any]) -> datetime:
    times = meta.get("times") or {}
    text = times.get("complete") or times.get("measured") or times.get("generated")
    return datetime.fromisoformat(text or "1970-01-01T00:00:00+00:00")


def _model_info(run: Run, facts: Facts, evaluator: Evaluator) -> dict[str, Any]:
    here = run.config.images is None
    model = run.meta.get("model") or {}
    more = {name: str(model[name]) for name in ("kind", "revision", "pipeline") if model.get(name)}
    info = {
        "name": facts.model,
        "id": evaluator.model_id,
        "additional_details": {
            "deployment_type": "self_deployed" if here else "unknown",
            "model_availability": "open_weights" if model.get("kind") in _OPEN else "unknown",
            "weights_sha256": facts.weights or NOT_STATED,
            **more,
        },
    }
    if here:
        versions = run.meta.get("versions") or {}
        info["inference_engine"] = {"name": "diffusers", "version": str(versions.get("diffusers", "unknown"))}
    return info


def _entry(facts: Facts, **own: Any) -> dict[str, Any]:
    """A result of a record, with the prompts and the sampler of its run."""
    data = {
        "dataset_name": f"prompts of the run {facts.name}",
        "source_type": "other",
        "additional_details": {"prompts": "\n".join(facts.prompts), "prompts_sha256": _digest(facts)},
    }
    generation = {"additional_details": {"sampler": facts.sampler, "shared": facts.shared}}
    return {"source_data": data, **own, "generation_config": generation}


def _uncertainty(facts: Facts, ends: tuple[float, float], method: str, n: int) -> dict[str, Any]:
    low, high = ends
    span = {"lower": low, "upper": high, "confidence_level": facts.level, "method": method}
    return {"confidence_interval": span, "num_samples": n}


def _measured(facts: Facts, result: Result) -> dict[str, Any]:
    return _entry(
        facts,
        evaluation_result_id=f"{result.key}:{result.contrast}",
        evaluation_name=f"triptych {result.section}: {result.name}",
        metric_config={
            "evaluation_description": f"Absolute value. {result.description}",
            "metric_id": f"triptych.{result.key}",
            "metric_name": result.name,
            "metric_kind": "absolute_difference",
            "metric_unit": "share of images",
            "metric_parameters": {"level": facts.level, "contrast": result.contrast},
            "lower_is_better": True,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": result.most,
            "additional_details": {"section": result.section},
        },
        score_details={
            "score": abs(result.value),
            "details": result_details(facts, result),
            "uncertainty": _uncertainty(facts, absolute(result.low, result.high), result.method, result.n),
        },
    )


def _gap(facts: Facts, score: AbsoluteGap) -> dict[str, Any]:
    finding, metric = score.finding, score.finding.metric
    contrast = "-".join(finding.contrast)
    parameters = {"level": facts.level, "reference": facts.reference, "contrast": contrast}
    if defined(finding.row.get("delta")):
        parameters["delta"] = float(finding.row["delta"])
    return _entry(
        facts,
        evaluation_result_id=f"{metric.key}:{contrast}",
        evaluation_name=f"triptych {heading(finding)}",
        metric_config={
            "evaluation_description": (
                f"Absolute gap over all words: by how much {metric.noun} {facts.reference} prompts are nearer to one "
                "side of the contrast than to the other, less what the words of a side differ among themselves."
            ),
            "metric_id": f"triptych.absolute_gap.{metric.key}",
            "metric_name": f"|gap| in {metric.symbol}",
            "metric_kind": "absolute_difference",
            "metric_unit": metric.gap_unit or metric.scale,
            "metric_parameters": parameters,
            "lower_is_better": True,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": score.most,
            "additional_details": {"definition": metric.version},
        },
        score_details={
            "score": score.value,
            "details": details(facts, finding),
            "uncertainty": _uncertainty(
                facts, (score.low, score.high), _METHOD, int(finding.row["n_prompts"])
            ),
        },
    )


def eval_results_yaml(run: Run, facts: Facts, benchmark: str, task: str, url: str = "") -> str:
    """Return the primary gap as a file for ``.eval_results/`` of a model's repository.

    Parameters
    ----------
    run : Run
    facts : Facts
    benchmark, task : str
        Dataset of the Hub that is a benchmark, and its task (https://huggingface.co/docs/hub/eval-results).
    url : str
        Where the run can be seen; by default nowhere.

    Raises
    ------
    UserError
        Not one primary gap with an interval: a task has one value.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    own = [score for score in scores(facts) if score.finding.primary]
    if len(own) != 1:
        raise UserError(
            f"{run.path}: expected one contrast whose primary gap has an interval, got {len(own)}: a task of a "
            "benchmark has one value, leave --benchmark out"
        )
    entry = EvalResultEntry(
        dataset_id=benchmark,
        task_id=task,
        value=own[0].value,
        date=_finished(run.meta).isoformat(),
        source_url=url or None,
        source_name="Triptych" if url else None,
        notes=_notes(facts, own[0]),
    )
    return yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)


def model_index(run: Run, facts: Facts) -> list[EvalResult]:
    """Return the scores of a run for ``model-index`` of a model card, with all that each rests on as arguments."""
    from huggingface_hub import EvalResult

    found = [
        (
            f"absolute_gap.{score.finding.metric.key}",
            f"|gap| in {score.finding.metric.symbol}, {' against '.join(score.finding.contrast)}",
            score.value,
            (score.low, score.high),
            details(facts, score.finding),
        )
        for score in require_scores(run, scores(facts))
    ] + [
        (one.key, one.name, abs(one.value), absolute(one.low, one.high), result_details(facts, one))
        for one in facts.results
    ]
    return [
        EvalResult(
            task_type="text-to-image",
            task_name="Text-to-Image",
            dataset_type="triptych",
            dataset_name=f"Triptych prompts of the run {facts.name}",
            metric_type=f"triptych.{kind}",
            metric_name=name,
            metric_value=value,
            metric_args={"interval": [*ends], "level": facts.level, **rests},
        )
        for kind, name, value, ends, rests in found
    ]


def _notes(facts: Facts, score: AbsoluteGap) -> str:
    span = f"interval of the absolute gap [{score.low!r}, {score.high!r}] at {100 * facts.level:g} %"
    return "; ".join([span, *(f"{name}: {text}" for name, text in details(facts, score.finding).items())])
