"""Episodes: a knowledge graph and a toolbox as a multi-turn environment."""
