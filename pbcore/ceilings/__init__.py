"""What an ideal model reaches under a sampler: ceilings, bits lost, and every answer that a sampler
can give.
"""
