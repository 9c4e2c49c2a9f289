"""`onbeat completion`."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from onbeat.cli.examples import examples

PROGRAM: Final = "onbeat"
VARIABLE: Final = "_ONBEAT_COMPLETE"
"""In which the script tells what it wants; click expects this name for a program of that name."""


@click.command(
    "completion",
    epilog=examples(
        "onbeat completion bash >> ~/.bashrc",
        "onbeat completion zsh >> ~/.zshrc",
        "onbeat completion fish > ~/.config/fish/completions/onbeat.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script by which a shell completes commands and options.

    Add it to the file that the shell reads at its start, as shown below, and
    open a new shell. It needs bash 4.4 or later; in zsh, compinit has to run
    before it.
    """
    shell_class = get_completion_class(shell)
    assert shell_class is not None
    # The text does not depend on the commands: the script asks the program for them.
    click.echo(shell_class(click.Command(PROGRAM), {}, PROGRAM, VARIABLE).source())
