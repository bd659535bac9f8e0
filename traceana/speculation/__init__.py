"""The arithmetic of speculative decoding: acceptance, break-even, decomposition, best k. Pure functions over floats."""
