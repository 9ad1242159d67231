"""Optional parts at the edge, a package each. The core runs without this folder
(`pbcore.base.extensions`).
"""
