"""Templates of the report are compiled once in a process."""

import jinja2
import pytest

from analysis.report.environment import environment


def test_a_second_page_compiles_no_template(monkeypatch):
    first = environment().get_template("gallery.html.j2")
    with monkeypatch.context() as patch:
        patch.setattr(
            jinja2.Environment, "compile", lambda *template, **options: pytest.fail("compiled again")
        )
        second = environment().get_template("gallery.html.j2")
    given = {"name": "<b>", "compares": True}
    assert second is not first and second.render(**given) == first.render(**given)
    assert "&lt;b&gt;" in second.render(**given)


def test_a_template_that_was_changed_is_compiled_anew():
    """What was compiled is known by name and text."""
    for text in ("one", "two"):
        made = environment()
        made.loader = jinja2.DictLoader({"a.html.j2": text})
        assert made.get_template("a.html.j2").render() == text
