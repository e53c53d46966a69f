"""GraphWalker: language-model agents that answer questions by walking a knowledge graph."""
