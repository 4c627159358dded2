"""A mixer: attention within the groups of a set, such as the rows, columns and boxes of a Sudoku."""
