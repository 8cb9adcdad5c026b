"""`triptych verify` fails where something is read wrongly, and the table of the docs is what the stored files say."""

import json

import pytest

from hooks.architectures import latents
from hooks.attention.attention import AttentionSums
from hooks.recorder import Recorder
from lab.pages import verified
from tests.analysis.access import faults
from tests.benchmarks.verified import BUNDLED, KINDS, STORED, UNETS, verify
from triptych.verification import setups, verification
from triptych.verification.record import FAIL, PASS, Line, Verification
from triptych.verification.softmax import UntestableError

QUICK = ("images", "word maps", "latents", "x₀ of the last step", "final latent and image", "text states")


def times(factor):
    """What makes a wrong function of a right one: its result times a factor."""
    return lambda right: lambda *args, **kwargs: right(*args, **kwargs) * factor


def into_pipeline(right):
    """A recorder that writes into what it reads."""

    def record(self, address, values, **more):
        right(self, address, values, **more)
        values.mul_(1.01) if address == "latent" else None

    return record


def rolled(right):
    """Text states stored a position too late."""

    def store(self, address, call, values, *more):
        right(self, address, call, values.roll(1, 1) if address.startswith("text") else values, *more)

    return store


READING = (  # each is seen by one check
    (AttentionSums, "_combine_layers", times(1.001), "word maps"),
    (latents, "predict_x0", times(1.001), "x₀ of the last step"),
    (latents, "final_latent", times(1.001), "final latent and image"),
    (Recorder, "_store", rolled, "text states"),
)
WRITING = ((Recorder, "record", into_pipeline, ""),)


@pytest.mark.parametrize(
    ("mistakes", "failing"),
    [
        ((), set()),
        (READING, {check for *_, check in READING}),
        (WRITING, {"images", "word maps", "x₀ of the last step"}),
    ],
    ids=["none", "reading", "writing"],
)
def test_what_is_read_wrongly_fails(mistakes, failing, tmp_path, monkeypatch, capsys):
    def no_run(*args):
        raise UntestableError("left out of this test")

    monkeypatch.setattr(setups, "run", no_run)
    checks = {name: check for name, check in verification.CHECKS.items() if name in ("device", *QUICK)}
    monkeypatch.setattr(verification, "CHECKS", checks)
    for owner, name, mistake, _ in mistakes:
        monkeypatch.setattr(owner, name, mistake(getattr(owner, name)))
    assert verify("toy", tmp_path) == bool(failing), capsys.readouterr().out
    stored = json.loads((tmp_path / "out" / "verify.json").read_text("utf-8"))
    outcomes = {line["check"]: line["status"] for line in stored["lines"]}
    assert {check for check, status in outcomes.items() if status == "fail"} == failing
    assert outcomes["run"] == "cannot be tested"
    page = (tmp_path / "out" / "verify.html").read_text("utf-8")
    assert page.count('<tr class="fail">') == len(failing) and "left out of this test" in page
    assert faults(page) == []


def test_the_page_is_what_the_files_say():
    text = verified.STORED.with_suffix(".md").read_text("utf-8")
    assert text == verified.page(), "run: python -m lab.pages.verified > docs/validation/verified.md"
    assert text.count("\n| ") == 1 + len([*STORED.glob("*.json")])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*BUNDLED, *UNETS, *KINDS])
def test_every_family_is_right(kind, tmp_path, capsys):
    """Each check has the outcome that is stored, but those that depend on what the machine has."""
    assert verify(kind, tmp_path) == 0, capsys.readouterr().out
    text = (tmp_path / "out" / "verify.json").read_text("utf-8")
    assert text.count("\n") <= 200
    name = kind if kind in BUNDLED else f"tiny-{kind}"
    stored = json.loads((STORED / f"{name}.json").read_text("utf-8"))
    now, then = (
        {line["check"]: line["status"] for line in one["lines"]} for one in (json.loads(text), stored)
    )
    assert now.keys() == then.keys() and "fail" not in then.values()
    machines = {"word maps of daam", "LoRA", "offload", "quantized"}
    assert {name: now[name] for name in now.keys() - machines} == {
        name: then[name] for name in then.keys() - machines
    }


def test_a_verification_is_a_table_and_a_figure():
    lines = (Line("images", PASS, "the same", {"largest": 0.0}), Line("LoRA", FAIL, "a <b> differs", {}))
    found = Verification({"model": {"id": "toyworld"}}, lines)
    assert found.table["status"].to_list() == [PASS, FAIL] and found.failed
    assert "a &lt;b&gt; differs" in found._repr_html_() and repr(found).endswith(
        "1 pass, 1 fail, 0 cannot be tested"
    )
    axes = found.plot().figure.axes[0]
    assert [one.get_text() for one in axes.get_yticklabels()] == ["images", "LoRA"]
    assert [one.get_text() for one in axes.get_xticklabels()] == [FAIL, "cannot be tested", PASS]
