"""This computer: the memory it has and a training needs, what `auto` comes to here, what is refused before training."""
