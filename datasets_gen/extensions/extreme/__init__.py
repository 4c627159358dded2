"""`sudoku --mix extreme`: 9×9 Sudokus as hard as the forums' hardest, found by search; neighbours of puzzles."""
