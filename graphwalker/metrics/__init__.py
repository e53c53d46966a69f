"""How well an agent did: scores of one episode, of a run, and of two runs against each other."""
