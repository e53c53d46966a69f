"""The tools of Interactive-KBQA: entities by name, patterns around them, SPARQL (MCTS-KBQA, section 3.1)."""
