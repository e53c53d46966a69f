"""GraphWalker's tools: what an agent can ask a knowledge graph (appendix F)."""
