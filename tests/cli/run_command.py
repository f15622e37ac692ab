"""What the tests of commands share."""

from epls.cli.main import run


def epls(capsys, *arguments):
    """Exit code, stdout and stderr of the command."""
    code = run([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err
