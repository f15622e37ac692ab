"""Processes that are killed at a known point: when they call a function for the n-th time."""

import functools
import itertools
import multiprocessing
import os
import pkgutil
import signal


def kill_at_call(owner, name, n_calls, sent=signal.SIGKILL):
    """Make this process kill itself, as ``kill -9`` would, at the n-th call of a function; or send another signal.

    ``owner`` is the module that uses the function, or ``module:class`` for a method.
    """
    place = pkgutil.resolve_name(owner)
    function, calls = getattr(place, name), itertools.count(1)

    @functools.wraps(function)
    def killing(*arguments, **settings):
        if next(calls) == n_calls:
            os.kill(os.getpid(), sent)
        return function(*arguments, **settings)

    setattr(place, name, killing)


def run_in_child(function, *arguments, kill_at=None):
    """The exit code of a process of its own that calls a function; ``kill_at`` is what :func:`kill_at_call` is given.

    The processes are forked from one that has imported the package, which takes two seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["epls.paper.experiment", "epls.cli.main"])
    process = context.Process(target=_child, args=(function, arguments, kill_at))
    process.start()
    process.join()
    return process.exitcode


def _child(function, arguments, kill_at):
    if kill_at is not None:
        kill_at_call(*kill_at)
    function(*arguments)
