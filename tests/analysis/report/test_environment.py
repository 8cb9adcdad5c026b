"""One environment a process: what one page is filled with does not stay in the next."""

from types import SimpleNamespace

from analysis.report.environment import environment


def test_figures_of_one_page_do_not_stay_in_the_macros_of_the_next():
    drawn = SimpleNamespace(name="gap")
    template = environment().from_string("{% macro show(drawn) %}{{ drawn | svg }}{% endmacro %}")
    for svg in ("first", "second"):
        environment({"gap": SimpleNamespace(svg=svg)})
        assert template.module.show(drawn) == svg
