"""The paper's experiment: its protocol, its stages on disk, and its Table 2. In the library, only ``epls reproduce`` imports it."""
