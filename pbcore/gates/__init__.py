"""Gates and floors: cells judged against a baseline, answers and seconds, and the verdict on a
whole run.
"""
