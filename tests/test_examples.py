"""Scripts in ``examples/`` are in the form that the gallery needs. `make docs` runs them, and a warning fails there."""

from pathlib import Path

SCRIPTS = sorted((Path(__file__).parents[1] / "examples").glob("plot_*.py"))


def test_examples_begin_with_a_title_and_end_with_a_figure():
    assert len(SCRIPTS) >= 5
    for script in SCRIPTS:
        text = script.read_text()
        quotes, title, underline = text.splitlines()[:3]
        assert quotes == '"""', script.name
        assert underline == "=" * len(title), script.name
        assert text.count("plt.show()") == 1, script.name
        assert "print(" in text, f"{script.name} prints no figure"
