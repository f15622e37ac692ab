"""What a first training compiles: the user waits for it."""

import os
import subprocess
import sys
import textwrap

import pytest


@pytest.mark.slow
def test_a_first_training_compiles_no_text(tmp_path):
    """Operations on whole arrays bring numba's broadcasting with them, and its error messages: seconds of compiling."""
    script = """
        import numpy as np
        from numba.core import event
        from epls import EPLS

        class Compiled(event.Listener):
            def on_start(self, event):
                print(event.data["dispatcher"].py_func.__module__)

            def on_end(self, event):
                pass

        event.register("numba:compile", Compiled())
        EPLS(4, max_iter=1, random_state=0).fit(np.eye(8))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = run.stdout.split()
    assert "epls.kernels.auction" in modules
    assert "numba.cpython.unicode" not in modules
    assert len(modules) < 16, modules
