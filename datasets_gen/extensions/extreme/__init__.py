"""`sudoku --mix extreme`: searches 9×9 Sudokus as hard as the forums' hardest; neighbours of puzzles."""
