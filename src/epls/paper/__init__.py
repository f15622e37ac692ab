"""The paper's experiment: its protocol, its stages on disk, and its Table 2. Only ``epls reproduce`` imports it."""
