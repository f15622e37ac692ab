"""Compiled inner loops: arrays in, arrays out; no validation, no classes."""
