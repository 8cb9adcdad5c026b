"""Training of the model whose professions have known frequencies."""
