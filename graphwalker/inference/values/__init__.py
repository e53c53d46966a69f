"""Values of states for a tree search: the information gain and its rivals (MCTS-KBQA, section 3.3, A.1 to A.3)."""
