"""The command that holds the instrument against the specimens."""

from analysis.validation.specimens import main


def test_a_folder_that_is_no_run_is_one_clear_line(tmp_path, capsys):
    assert main([str(tmp_path), "--out", str(tmp_path / "page.md")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(tmp_path) in error
    assert not (tmp_path / "page.md").exists()
