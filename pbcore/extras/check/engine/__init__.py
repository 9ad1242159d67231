"""`pbcore check engine`: whether a program that decodes gives the answers that it should.

Small checkpoints are made in the layout of each family (`make`), with prompts whose decisions no
rounding can turn (`search`). An engine decodes them in a process of its own (`engine`). Where it
differs, `diagnosis` decodes the same prompts with named deviations.
"""
