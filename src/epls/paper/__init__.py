"""The paper's experiment: its protocol, its stages on disk, and its Table 2, for ``epls reproduce`` only."""
