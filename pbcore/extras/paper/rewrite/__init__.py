"""Run folders of the benchmark's 2026 rewrite: their questions for `--data-dir`, and `pbcore
import`.
"""
