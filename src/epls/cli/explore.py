"""``epls explore``: a page to look through images or vectors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from . import inputs, options


@click.command("explore")
@click.argument("data", type=options.input_path)
@options.output("The .html file to write.", ".html")
@click.option("--labels", type=options.input_path, metavar="FILE",
              help="Labels to show: a .csv file saved on the page or written by `epls classify`.")  # fmt: skip
@click.option("--groups", type=click.Choice(["auto", "balanced", "density"]), default="auto", show_default=True,
              help="density: the islands of the map; balanced: groups of equal size; auto: density if the islands are "
              "clear, else balanced.")  # fmt: skip
@click.option("--n-groups", type=click.IntRange(min=1), help="Number of balanced groups.  [default: up to 24]")
@click.option("--metric", type=click.Choice(["standardized", "cosine"]), default="standardized", show_default=True,
              help="standardized: compare principal components of the standardised features; cosine: compare the "
              "features as they are, such as embeddings, by their cosine.")  # fmt: skip
@click.option("--positions", type=options.input_path, metavar="FILE",
              help="Places on the map, such as those of UMAP: two numbers for each sample, in a table the columns x "
              "and y. Rows are matched as in --features.  [default: similar samples are close together]")  # fmt: skip
@inputs.sources
@options.drop
@options.array_key
@options.running
def command(
    data: Path, output: Path, labels: Path | None, groups: Any, n_groups: int | None, metric: Any,
    positions: Path | None, random_state: int, threads: int | None, force: bool, as_json: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Write a web page to look through DATA: a map, groups, nearest neighbours, outliers and near-duplicates.

    DATA is a folder of images, or anything else that `epls fit` accepts, or a .npz file that `epls transform` wrote.
    Features are learned from the images without labels, unless a model or a file of features is given. Label a few
    images on the page, and it predicts the others at once; `epls classify` can use these labels, too.
    """
    from ..report import explore
    from ..utils.files import write_atomically
    from ..utils.wording import sized

    if n_groups is not None and groups == "density":
        raise click.UsageError("--n-groups is for balanced groups, density finds the number itself: leave it out")
    options.check_output(output, force, data, labels, positions, chosen["model"], chosen["features"])
    started = time.perf_counter()
    with options.limited(threads), options.StageProgress() as progress:
        found = inputs.open_inputs(data, chosen, progress, for_page=True)
        found.check_distances("float32")
        chosen |= {"random_state": random_state}
        html = explore(
            found.samples(),
            features=None if found.are_features else inputs.features_of(found, chosen, progress),
            names=found.names,
            columns=found.columns,
            labels=None if labels is None else inputs.labels_for(found, labels),
            groups=n_groups or groups,
            metric=metric,
            positions=None if positions is None else inputs.rows_from(positions, "--positions", found, n_columns=2),
            title=data.resolve().name or str(data),
            random_state=random_state,
            progress=progress,
        )
    content = html.encode()
    write_atomically(output, content)
    seconds = round(time.perf_counter() - started, 1)
    n_samples = len(found.data)
    facts = {"page": str(output), "samples": n_samples, "bytes": len(content), "seconds": seconds}
    size = f"{sized(len(content))}, with {n_samples:,} {found.kind}"
    text = f"{output}, {size}, made in {seconds} s: open it in a browser"
    options.print_result(as_json, facts | {"skipped": found.n_skipped}, text)
