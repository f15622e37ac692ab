"""``python -m epls`` is the ``epls`` command, for programs such as ``torchrun`` that start modules."""

from .cli import main

main()
