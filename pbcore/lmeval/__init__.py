"""lm-evaluation-harness with our models and samplers: `lm_eval --model pbcore`, and its results as runs."""
