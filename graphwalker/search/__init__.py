"""Tree search over the turns of an agent: any actor, any environment, any value (MCTS-KBQA, section 3)."""
