"""Print the lowest versions that pyproject.toml allows of what the fast tests need, for `make test-lowest`."""

import re
import tomllib
from pathlib import Path

EXTRAS = ("data", "distributed", "images", "onnx", "plot", "tables", "zarr")
# Of these the newest: the tests compare messages that click and rich have worded differently before.
NEWEST = ("cli",)
TOOLS = ("hypothesis", "onnxruntime", "pandas", "polars", "pytest", "pytest-xdist", "selenium", "torch")


def lowest_versions():
    """The requirements of the core, of the extras and of the tests, each pinned to its lowest version."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tools = [tool for tool in extras["dev"] if re.match(r"[\w-]+", tool).group() in TOOLS]
    wanted = [*project["dependencies"], *(need for extra in EXTRAS for need in extras[extra]), *tools]
    return [need.replace(">=", "==") for need in wanted] + [need for extra in NEWEST for need in extras[extra]]


if __name__ == "__main__":
    print("\n".join(lowest_versions()))
