"""Values of states for a tree search: information gain and what it is compared with (MCTS-KBQA, section 3.3, A.1-A.3)."""
