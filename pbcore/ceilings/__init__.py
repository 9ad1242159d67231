"""What an ideal model reaches under a sampler: a cell's ceiling, bits lost, and every answer that a sampler can give."""
