"""``epls completion``: the shell script that completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    For bash: epls completion bash > ~/.local/share/bash-completion/completions/epls
    """
    from .main import epls

    completion = get_completion_class(shell)
    assert completion is not None  # for the shells that can be chosen
    click.echo(completion(epls, {}, "epls", "_EPLS_COMPLETE").source())
